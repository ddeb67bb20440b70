/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as text: print.c says which lines, line.c writes one, parse.c reads them all back.
 *
 *     graph train placed on tp 2 dp_shard 4
 *     block 3
 *       %b3.g: bf16[batch/dp_shard 8, seq 2048, ffn/tp 14336] ~   = linear(%b3.n.r, %gate.c) llama3
 *     block 3, backward
 *       ...
 *     table
 *       ffn/tp of parameters   tp
 *     roots
 *       loss %loss
 *
 * A line is: results (name: type, marks), the op with its operands and attributes, the plugin;
 * behind it, where they are not the usual, scope, "again" (phase recompute) and for whom. Marks: ~
 * recompute, (role), fetched, becomes @state. */
#ifndef WEFT_GRAPH_PRINT_H
#define WEFT_GRAPH_PRINT_H

#include "compile/graph/internal.h"

/* Consecutive lines of one block, chunk and direction. */
typedef struct weft_section {
    int block, chunk;
    weft_phase phase; /* FORWARD, BACKWARD (recomputation too) or UPDATE */
    weft_node **nodes;
    int n;
} weft_section;

typedef enum weft_naming {
    WEFT_NAMES_WHOLE,
    WEFT_NAMES_SHORT,    /* without what says the block */
    WEFT_NAMES_NUMBERED, /* equal for sections of equal structure: own values by number, other
                            blocks' in the order in which they are met */
} weft_naming;

typedef struct weft_number {
    int section, number; /* section: 1 + the one that it counts in */
    bool own;
} weft_number;

typedef struct weft_liner {
    const weft_graph *g;
    const weft_section *section;
    weft_naming naming;
    bool sizes;           /* of every dim; else where a dim is met first in a section */
    weft_number *numbers; /* by value id */
    int n_sections, n_met;
    weft_dim known[16];
    int n_known;
} weft_liner;

enum { WEFT_CELLS = 4 }; /* name, type, op, right */

/* Starts a section: what is known and numbered is that of this one. */
void weft_line_begin(weft_liner *liner, const weft_section *section);
/* Appends a node's cells to text; cell i is [at[i], at[i + 1]). */
void weft_line_print(weft_liner *liner, const weft_node *n, weft_text *text,
                     size_t at[WEFT_CELLS + 1]);
/* "all_gather[tp] . reduce_scatter[cp]": the last step first, as functions compose. */
void weft_print_steps(const weft_mesh *mesh, const weft_step *steps, int n_steps, weft_text *text);
/* The shortest text that reads back as the same number; never looks like an integer. */
void weft_print_real(weft_text *text, double x);
const char *weft_init_name(weft_init_kind kind);
/* "head", "embedding"; NULL for layers and none. */
const char *weft_block_name(int block);

#endif
