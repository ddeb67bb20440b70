/* SPDX-License-Identifier: Apache-2.0 */
/* What reads a graph's text: a line, a place in it, words. The text is trusted in nothing: whatever
 * it says, the result is a graph or an error that names the line. */
#ifndef WEFT_GRAPH_READER_H
#define WEFT_GRAPH_READER_H

#include "print/graph.h"

/* "becomes @state": the state may stand further down. */
typedef struct weft_later {
    weft_value *value;
    const char *state;
    int line;
    struct weft_later *next;
} weft_later;

typedef struct weft_reader {
    weft_graph *g;
    weft_error *err;
    int line;
    char *p; /* in the line, which is NUL-terminated */
    weft_later *updates;
} weft_reader;

/* Notes an error in this line, returns WEFT_ERR_INPUT. */
weft_status weft_read_bad(const weft_reader *r, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_read_skip(weft_reader *r);
/* True if `word` comes next, behind spaces; it is skipped then. */
bool weft_read_accept(weft_reader *r, const char *word);
weft_status weft_read_expect(weft_reader *r, const char *word);
/* What stands before one of `ends` or the end of the line, in the graph's pool; `what` it is, for
 * the error. */
weft_status weft_read_word(weft_reader *r, const char *what, const char *ends, const char **out);
weft_status weft_read_int(weft_reader *r, const char *what, int64_t min, int64_t max, int64_t *out);
weft_status weft_read_real(weft_reader *r, const char *what, double *out);
weft_status weft_read_axis(weft_reader *r, int *out);
/* "%name" or "@name". */
weft_status weft_read_name(weft_reader *r, const char **out);
/* The value of this name; NULL: none yet. */
weft_value *weft_read_find(const weft_reader *r, const char *name);
weft_status weft_read_value(weft_reader *r, weft_value **out);
/* A node's line (parse_node.c). */
weft_status weft_read_node(weft_reader *r);

#endif
