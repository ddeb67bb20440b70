/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands of `weft` share: options, settings from an INI and overrides, reports, the
 * log. Only the cli prints and chooses exit codes. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include "console/settings.h"
#include <weft/files.h>
#include <weft/options.h>

#include <stdio.h>

/* ---- subcommands: argv[0] is the subcommand's name; the result is the exit code ---- */

int weft_cmd_report(int argc, char **argv);
int weft_cmd_status(int argc, char **argv);
int weft_cmd_train(int argc, char **argv);
int weft_cmd_plan(int argc, char **argv);
int weft_cmd_tune(int argc, char **argv);
int weft_cmd_ablate(int argc, char **argv);
int weft_cmd_bisect(int argc, char **argv);
int weft_cmd_compare(int argc, char **argv);
int weft_cmd_oracle(int argc, char **argv);
int weft_cmd_conform(int argc, char **argv);
int weft_cmd_config(int argc, char **argv);
int weft_cmd_plugins(int argc, char **argv);
int weft_cmd_inspect(int argc, char **argv);
int weft_cmd_generate(int argc, char **argv);
int weft_cmd_new_plugin(int argc, char **argv);
int weft_cmd_vet(int argc, char **argv);

/* ---- commands that plugins give (command.c) ---- */

/* Is word the name of one of weft's own plugins' commands, or of a plugin that can be found? */
bool weft_command_is(const char *word);
/* Commands of the program itself, as plan, which no plugin can give: NULL-ended, said once. */
void weft_command_set_own(const char *const *names);
bool weft_command_is_own(const char *word);
/* The plugin in which a command of this name is looked for. */
const char *weft_command_plugin(const char *command);
/* Runs it: argv[0] is its name. */
int weft_command_run(int argc, char **argv);
/* For a weft_finder, whose self is the weft_search. */
struct weft_plugin;
weft_status weft_cli_find_plugin(void *search, const char *name, const struct weft_plugin **out,
                                 weft_error *err);
/* A line for each command of weft's own plugins that are there, and of plugins in the user's
 * folders. */
void weft_command_list(weft_text *text);
/* Their names, at most `capacity`; how many. */
int weft_command_names(const char **names, int capacity);

/* ---- options ---- */

enum {
    WEFT_CLI_INI = 1,      /* takes an INI file, -o, --with and --without */
    WEFT_CLI_RANKS = 2,    /* takes -n RANKS */
    WEFT_CLI_OPTIONAL = 4, /* positional arguments may be left out */
};

typedef struct weft_cli_usage {
    const char *command; /* "train" */
    const char *
        arguments; /* positional arguments as usage shows them: "run.ini", "NAME ..."; NULL: none */
    int max_arguments;        /* at most so many; at least 1 unless OPTIONAL; -1: any number */
    const char *summary;      /* one sentence */
    unsigned accepts;         /* WEFT_CLI_* */
    const weft_option *extra; /* its own options; may be NULL */
} weft_cli_usage;

typedef enum weft_cli_edit_kind {
    WEFT_CLI_SET,
    WEFT_CLI_WITH,
    WEFT_CLI_WITHOUT
} weft_cli_edit_kind;

/* One -o, --with or --without. */
typedef struct weft_cli_edit {
    weft_cli_edit_kind kind;
    const char *text;
    const char *as; /* what messages call it; NULL: by its option */
} weft_cli_edit;

/* Strings belong to argv. */
typedef struct weft_cli_options {
    const char *ini;        /* the INI file; NULL if the subcommand takes none or none was given */
    const char *ini_text;   /* what stands in for the file's content; NULL: the file is read */
    weft_trust ini_trust;   /* not the user's word; a file is read alone then, without includes */
    bool no_data;           /* as in weft_host; there is no run folder then, either */
    const char **arguments; /* all positional arguments, the INI file included */
    int n_arguments;
    weft_cli_edit *edits; /* in the order given */
    int n_edits;
    int ranks;       /* -n; 0: not given */
    int local_ranks; /* ranks are processes, so many of them on this host; 0: they are threads of
                        this one */
    bool threads;    /* ranks are threads, whatever transport is listed */
    bool silent;     /* warnings are not shown: it is one plan of many */
    weft_text *said; /* warnings of other plans, a line each, which are not shown again; NULL: all
                        are */
    const char *gpu; /* it is planned for this GPU, whatever device is listed; or NULL */
    const weft_text *files; /* the INI and what it includes as rank 0 has read them
                               (weft_settings_pack); NULL: they are read here */
} weft_cli_options;

#define WEFT_CLI_GO (-1)

/* Parses argv[1..]. Returns WEFT_CLI_GO, or the exit code to return at once: after -h (usage on
 * stdout), or after reporting wrong options on stderr. Release options in every case. Typical use:
 *     int code = weft_cli_parse(&usage, argc, argv, &options);
 *     if (code != WEFT_CLI_GO) goto done;  */
int weft_cli_parse(const weft_cli_usage *usage, int argc, char **argv, weft_cli_options *options);
void weft_cli_options_release(weft_cli_options *options);

/* Reads options->ini (or what rank 0 has sent instead) and applies the edits in the order given;
 * every error at once. On error *out is NULL. */
weft_status weft_cli_settings(const weft_cli_options *options, weft_settings **out,
                              weft_error *err);

/* Of a folder's INI, which is one file: what it includes is not opened. */
weft_status weft_cli_read_alone(const char *path, weft_settings **out, weft_error *err);

/* The command's own INI alone: weft has its [weft] defaults. */
weft_status weft_cli_built_in(weft_settings **out, const weft_params **weft, weft_error *err);

/* From now on a plugin that calls exit is named, and ends the command with 1. */
weft_status weft_cli_guard_exit(weft_error *err);

/* A file that a command is to write at its end: an existing one, and a folder that is missing or
 * cannot be written to, are refused before the work. option: what names it, as "--out". */
weft_status weft_cli_check_new(const char *option, const char *path, weft_error *err);

/* ---- reports ---- */

/* What stands behind errors that are a plugin's (WEFT_ERR_PLUGIN): other processes know it by
 * that. */
#define WEFT_CLI_FAULT                                                                             \
    "note: the plugin's code is at fault, not the settings; its author can mend it"

/* Prints every item of err to stderr, "error: ..." one a line (in colour on a terminal), and
 * returns the exit code: 0 (no items), 1, 2, 3 or 4. That somebody asked to stop is no
 * error, and printed plainly. */
int weft_cli_report(const weft_error *err);
/* The same of something that ended with s: what failed is said to have failed, and is never 0, even
 * if nobody has noted why. */
int weft_cli_conclude(weft_status s, const weft_error *err);
/* The exit code of a status. */
int weft_cli_exit_code(weft_status status);
/* Does stderr go to a terminal that knows more than printing? */
bool weft_cli_terminal(void);
/* Appends a text that may quote a file or another process: no control character of it, line ends
 * and tabs but, reaches a terminal. */
void weft_cli_add_safely(weft_text *out, const char *text, size_t n);
/* Writes bytes to stdout, safely if that is a terminal, else as they are; false: errno says why. */
bool weft_cli_write(const void *data, size_t n);
/* Writes text to stdout; the exit code is 1 (and reported) if that fails or text ran out of memory.
 */
int weft_cli_print(const weft_text *text);

/* A log to stderr that drops lines below `least`; any thread may write. A line that begins with
 * '\r' is a status line of a terminal: it is redrawn in place, gives way to the next line, and is
 * not kept in the file. */
typedef struct weft_cli_log {
    weft_log_level least;      /* that is shown */
    weft_log_level least_kept; /* that is kept in the file */
    bool timed;                /* what is shown begins with the time; what is kept always does */
    bool transient;            /* a status line stands on the terminal */
    weft_text *said;           /* warnings that are not shown again; NULL: all are */
    bool early; /* whether there will be a file is not known yet: lines are kept for it */
    weft_text before;
    weft_journal file; /* log.txt; no path: none */
} weft_cli_log;

/* When any log of this process got its last line, whether that is shown or not. */
double weft_cli_log_spoke(void);
/* log must outlive the result. */
weft_log weft_cli_log_init(weft_cli_log *log, weft_log_level least);
/* Lines are appended to this file from now on, after `first`, whole lines, and all that were logged
 * before; NULL: there is none. */
weft_status weft_cli_log_file(weft_cli_log *log, const char *path, const char *first,
                              weft_error *err);
/* To standard error in one piece, so that what several processes say there does not mingle. */
void weft_cli_write_error(const weft_text *text);
/* Whole lines for the file alone. */
void weft_cli_log_note(weft_cli_log *log, const weft_text *lines);
void weft_cli_log_release(weft_cli_log *log);
/* The level that [weft] log names ("debug", "info", "warn"); INFO for any other word. */
weft_log_level weft_cli_log_level(const char *name);

#endif
