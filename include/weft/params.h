/* SPDX-License-Identifier: Apache-2.0 */
/* Typed parameters. A plugin's table is the single source of INI checks, `weft inspect`, --help,
 * the config dump and the digest. */
#ifndef WEFT_PARAMS_H
#define WEFT_PARAMS_H

#include <weft/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_param_type {
    WEFT_PARAM_BOOL,   /* yes/no, true/false, on/off, 1/0 */
    WEFT_PARAM_INT,    /* 64-bit; decimal, k/M/G suffixes of 1000 (10k) and Ki/Mi/Gi of 1024 */
    WEFT_PARAM_REAL,   /* finite double */
    WEFT_PARAM_STRING, /* any text */
    WEFT_PARAM_PATH,   /* a path; relative ones are relative to the working directory, but for
                          BESIDE */
    WEFT_PARAM_CHOICE, /* one of `choices` */
} weft_param_type;

enum {
    WEFT_PARAM_PER_RANK = 1, /* may differ between ranks; all others are compared at start */
    WEFT_PARAM_REQUIRED = 2, /* must be given: `value` is NULL */
    WEFT_PARAM_LIST = 4, /* whitespace-separated list of this type, possibly over several lines */
    WEFT_PARAM_ADVANCED = 8, /* shown by `weft inspect --all` only */
    WEFT_PARAM_ONCE = 16,    /* set in one place it stays: another file or -o is refused */
    WEFT_PARAM_BESIDE = 32,  /* a PATH of an INI is relative to the folder of that INI; the value is
                                an absolute path */
    WEFT_PARAM_FILE = 64,    /* a STRING that may name files: like every PATH it is not taken from a
                                checkpoint, which is data */
    WEFT_PARAM_LIBRARY = 128, /* a STRING: the name or path of a shared library that the plugin
                                 opens with weft_library_find. `weft vet` vets it; it is not taken
                                 from a checkpoint. A LIST: what the library of the key before it
                                 opens by itself, by name; `weft vet` looks beside it, too */
    WEFT_PARAM_SERVED = 256,  /* of the core's own sections: a plugin does what the key says, one
                                 that  gives the capability of its name; without one it is refused */
    WEFT_PARAM_DEPTH = 512, /* of a model: how many equal blocks it has; `weft tune` plans a few of
                               them to judge all */
};

typedef struct weft_param {
    const char *name; /* NULL ends a table */
    weft_param_type type;
    const char
        *value;       /* default, as the user would write it; NULL: none (REQUIRED, or "not set") */
    double min, max;  /* INT and REAL, inclusive; both 0: unbounded */
    const char *unit; /* "tokens", "steps", "bytes", NULL */
    const char *const *choices; /* NULL-ended. CHOICE: the values. INT, REAL: words allowed beside
                                   numbers, as "auto" */
    unsigned flags;
    const char *help; /* one sentence */
    /* Where in the plugin's own struct the value goes before create (weft_plugin.self_size): see
     * WEFT_BOOL and its like, which set `type` with it. 0: nowhere, the getters below are asked.
     * Lists have no field. */
    size_t field;
    /* CHOICE: for each choice, what other keys of the table are then, "dim = 256, heads = 16". It
     * counts where such a key's value is the word that is this parameter's name: with presets in
     * `flavor`, dim = flavor is 256. NULL: none. */
    const char *const *presets;
    /* What `weft tune` may set it to, for the same results but for rounding, separated by blanks:
     * values; or one word alone: "ranks", degrees that divide the ranks; "batch", divisors of
     * [train] global_batch. NULL: it is left alone. */
    const char *tune;
    /* Where it counts, by other keys of the table: "mode=budget", "zero!=0", or "load", where that
     * is set; of several, separated by blanks, one is enough. Elsewhere it does nothing: who sets
     * it is warned, and `weft tune` leaves it alone. NULL: everywhere. */
    const char *when;
    /* Keys that say something else of the same, "ckpt.initial", separated by blanks: to set one of
     * them, too, is an error. NULL: none. */
    const char *refuses;
} weft_param;

/* The type of a parameter, and the field of struct `type` that it fills; a field of another type is
 * an error of the compiler.
 *
 *     BOOL    bool
 *     INT     int64_t; of a word of `choices` -1 for the first, -2 for the second, ...: let min be
 *             at least 0
 *     REAL    double; the same
 *     CHOICE  int: which of the choices, from 0
 *     TEXT    const char *, a STRING; "" if it is not set
 *     PATH    const char *
 *
 *     static const weft_param params[] = {
 *         {.name = "degree", WEFT_INT(tp, degree), .min = 1, .max = 64, .help = "..."},
 */
#ifdef __cplusplus
#define WEFT_FIELD(type, member, of)                                                               \
    (offsetof(type, member) + 0 * sizeof(static_cast<of type::*>(&type::member)))
#else
#define WEFT_FIELD(type, member, of)                                                               \
    (offsetof(type, member) + 0 * sizeof(char[_Generic(((type *)0)->member, of : 1)]))
#endif
#define WEFT_BOOL(type_, member) .type = WEFT_PARAM_BOOL, .field = WEFT_FIELD(type_, member, bool)
#define WEFT_INT(type_, member)  .type = WEFT_PARAM_INT, .field = WEFT_FIELD(type_, member, int64_t)
#define WEFT_REAL(type_, member) .type = WEFT_PARAM_REAL, .field = WEFT_FIELD(type_, member, double)
#define WEFT_CHOICE(type_, member)                                                                 \
    .type = WEFT_PARAM_CHOICE, .field = WEFT_FIELD(type_, member, int)
#define WEFT_TEXT(type_, member)                                                                   \
    .type = WEFT_PARAM_STRING, .field = WEFT_FIELD(type_, member, const char *)
#define WEFT_PATH(type_, member)                                                                   \
    .type = WEFT_PARAM_PATH, .field = WEFT_FIELD(type_, member, const char *)

/* One section's values, parsed and checked against its table. Const after creation, so free to
 * share between threads. */
typedef struct weft_params weft_params;

/* The getters cannot fail on a key of the table; asking for another key, or with another type, is a
 * bug and gives 0, "" or false. INT and REAL whose value is a word (weft_params_is) give 0, but for
 * words that a preset explains. */
bool weft_params_bool(const weft_params *params, const char *key);
int64_t weft_params_int(const weft_params *params, const char *key);
double weft_params_real(const weft_params *params, const char *key);
/* The value's text; "" if not set. Lists: the words separated by one blank. */
const char *weft_params_text(const weft_params *params, const char *key);
/* Lists: the i-th word, NULL past the end. */
const char *weft_params_word(const weft_params *params, const char *key, int i);
/* Lists: true if `word` is one of the words. */
bool weft_params_has(const weft_params *params, const char *key, const char *word);
/* True if the value's text is `word`. */
bool weft_params_is(const weft_params *params, const char *key, const char *word);
/* True if the user gave it (INI, include or -o), false if it is the default or not set. */
bool weft_params_given(const weft_params *params, const char *key);
/* Where the value comes from, for error messages. */
weft_where weft_params_where(const weft_params *params, const char *key);
/* Lists: where the i-th word comes from. */
weft_where weft_params_word_where(const weft_params *params, const char *key, int i);

/* The text of another key of the table; "" or NULL: it is not set. */
typedef const char *weft_value_of(const void *arg, const weft_param *other);

/* Does the key do anything (weft_param.when), as the others of its table are? */
bool weft_param_counts(const weft_param *table, const weft_param *param, weft_value_of *value_of,
                       const void *arg);
/* Is this a value of the parameter, as an INI would have it; of a LIST, one of its words? Else
 * "[section] key = text: out of range; give ..." at `at`. */
weft_status weft_param_check(const char *section, const weft_param *param, const char *text,
                             weft_where at, weft_error *err);
/* Do two texts say the same of a parameter: 1 and 1.0 are one number, yes and on one answer. */
bool weft_param_is_same(const weft_param *param, const char *a, const char *b);

/* For messages: the nearest of n candidates to `word` by edit distance (<= 2, or a third of its
 * length, or a common prefix); NULL if none is near. */
const char *weft_nearest(const char *word, const char *const *candidates, int n);

#ifdef __cplusplus
}
#endif
#endif
