/* SPDX-License-Identifier: Apache-2.0 */
/* Whole runs at random: what the files of tests/random share. A case is three runs that must give
 * the same numbers: one rank, many ranks, and others that go on from a checkpoint of the many. */
#ifndef WEFT_TESTS_RANDOM_H
#define WEFT_TESTS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <weft/base.h>

enum { RANDOM_PLUGINS = 32, RANDOM_SETTINGS = 128, RANDOM_VALUE = 96, RANDOM_ARGUMENTS = 24 };

/* The runs of a case, as bits. */
enum { RANDOM_ONE = 1, RANDOM_MANY = 2, RANDOM_OTHER = 4, RANDOM_ALL = 7 };

typedef struct random_plugin {
    const char *name;
    unsigned runs; /* that list it */
    bool needed;
} random_plugin;

/* Settings of one key are one value: a list. */
typedef struct random_setting {
    const char *section, *key;
    char value[RANDOM_VALUE];
    const char *simple; /* what to try in its place; "": leave it out; NULL: it must stay */
    unsigned runs;
} random_setting;

typedef struct random_case {
    uint64_t seed;
    random_plugin plugins[RANDOM_PLUGINS]; /* as they are listed */
    int n_plugins;
    random_setting settings[RANDOM_SETTINGS];
    int n_settings;
    bool goes_on; /* the third run is made, too */
} random_case;

/* ---- draw.c ---- */

/* The case of a seed. */
void random_draw(uint64_t seed, random_case *c);

/* ---- case.c ---- */

/* The value of a key in a run; NULL: it has none. Of a list, the first. */
const char *random_get(const random_case *c, unsigned run, const char *section, const char *key);
/* The same as a number, or `otherwise`. */
int random_number(const random_case *c, unsigned run, const char *section, const char *key,
                  int otherwise);
bool random_lists(const random_case *c, unsigned run, const char *plugin);
/* The plugin that is the model. */
const char *random_model(const random_case *c);
/* Its blocks. */
int random_layers(const random_case *c);
int random_ranks(const random_case *c, unsigned run);
/* The INI of a run. bare: without the plugins that watch and write. */
void random_print(const random_case *c, unsigned run, bool bare, weft_text *out);
/* What it is about, in a line. */
void random_describe(const random_case *c, weft_text *out);
/* Without a plugin (of all runs), or a setting. */
void random_drop_plugin(random_case *c, int i);
void random_drop_setting(random_case *c, int i);

/* ---- judge.c ---- */

/* In the order in which they are looked for. */
typedef enum random_fault {
    RANDOM_FINE,
    RANDOM_REFUSED, /* with an ordinary message */
    RANDOM_ORACLE,  /* weft oracle says that they part, or it fails */
    RANDOM_FAILS,   /* a run */
    RANDOM_LOSS,
    RANDOM_NORM,
    RANDOM_VALIDATION,
    RANDOM_TEXT,
    RANDOM_DUMP,
    RANDOM_RESUMES, /* the third run fails */
    RANDOM_RESUMED, /* it has other numbers */
} random_fault;

typedef struct random_verdict {
    random_fault fault;
    char text[2000]; /* what is wrong; of a refusal, the message */
    char like[80];   /* what another verdict on the same fault begins with */
} random_verdict;

/* Runs a case in the current folder. */
void random_judge(const random_case *c, random_verdict *v);
/* The command that shows a fault. */
void random_command(const random_case *c, random_fault fault, weft_text *out);
void random_say(random_verdict *v, random_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- compare.c ---- */

/* How far two runs may be apart before `step`, relative; infinite where nothing is known. */
double random_bound(const random_case *c, int step);
/* What metrics.jsonl of two run folders say of steps behind `from`. */
void random_compare_metrics(const random_case *c, const char *one, const char *many, int from,
                            random_verdict *v);
/* What the log says was written. */
void random_compare_texts(const char *one, const char *many, random_verdict *v);
/* Gradients and parameters of every step that was dumped. */
void random_compare_dumps(const random_case *c, const char *one, const char *many,
                          random_verdict *v);

/* ---- process.c ---- */

/* Runs weft with these arguments (NULL behind the last) into the file `out`; its exit code, or 128
 * and the number of the signal that ended it. Of what hangs that is SIGALRM. */
int random_run(const char *const arguments[], const char *out);
/* What a run that hangs is known by: for so long it has used next to no processor, or so many
 * seconds of one altogether. */
typedef struct random_limits {
    int idle_s, busy_s;
} random_limits;
int random_run_within(const char *const arguments[], const char *out, const random_limits *most);
/* The end of a file, `most` bytes at most; "" if it cannot be read. */
void random_tail(const char *path, char *out, size_t most);
/* Removes a folder and all that is in it. */
void random_remove(const char *path);

/* ---- reduce.c ---- */

/* Leaves out what a fault does not need; v is the verdict on c, and in the end that on what is
 * left. */
void random_reduce(random_case *c, random_verdict *v);

#endif
