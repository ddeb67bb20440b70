/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a command line: a table says which options there are, and all commands, weft's own
 * and those of plugins, read and refuse them alike.
 */
#ifndef WEFT_OPTIONS_H
#define WEFT_OPTIONS_H

#include <weft/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_option_value {
    const char *option; /* its name in the table */
    const char *text;
} weft_option_value;

/* What was given for options that may be repeated, in the order given. Zero-initialised is valid
 * and empty. */
typedef struct weft_option_values {
    weft_option_value *list;
    int n;
} weft_option_values;

void weft_option_values_release(weft_option_values *values);

/* An option. Exactly one of flag, text, number, values is set and receives what was given; it is
 * left alone if the option is not given. Or flag and text with choices: the argument may be left
 * out, and the next word is it only if it is one of these; without choices it is given as
 * --name=WORD or left out. */
typedef struct weft_option {
    const char *name;     /* without dashes; NULL ends a table. One letter: "-n 4" or "-n4"; else
                             "--name 4" or "--name=4" */
    const char *argument; /* what usage calls its argument, "NAME"; NULL for a flag */
    const char *help;     /* NULL: usage does not show it */
    bool *flag;
    const char **text; /* the last one counts */
    int64_t *number;
    weft_option_values *values; /* every one; several options may share them */
    const char *const *choices; /* text: what it may be, NULL-ended; NULL: anything */
    int64_t min, max;           /* number, inclusive; both 0: unbounded */
} weft_option;

/* What a command takes. */
typedef struct weft_options {
    const char *command;     /* its name, for messages that point to its --help */
    const weft_option *list; /* the table */
    const char **arguments;  /* receives the words that are no options: room for max_arguments, or
                                for argc if that is -1; NULL: not wanted */
    int max_arguments;       /* at most so many; -1: any number */
    int *n_arguments;        /* receives how many there were; NULL: not wanted */
} weft_options;

/* Reads argv[1..]; behind "--" no word is an option, and "-" never is. Every wrong word is an error
 * of its own, WEFT_ERR_INPUT. Texts point into argv. Release values in every case. */
weft_status weft_options_parse(const weft_options *options, int argc, char **argv, weft_error *err);
/* Appends a line of usage for each option. */
void weft_options_print(const weft_option *list, weft_text *text);

#ifdef __cplusplus
}
#endif
#endif
