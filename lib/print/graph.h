/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as text, whole; tests/lib reads it back. What people read of it is
 * lib/forecast/graph.c's, made of the same lines.
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
#ifndef WEFT_LIB_PRINT_GRAPH_H
#define WEFT_LIB_PRINT_GRAPH_H

#include "compile/graph/graph.h"

/* Consecutive lines of one block, chunk and direction. */
typedef struct weft_graph_section {
    int block, chunk;
    weft_phase phase; /* FORWARD, BACKWARD (recomputation too) or UPDATE */
    weft_node **nodes;
    int n;
} weft_graph_section;

/* The nodes of a graph, in sections. */
typedef struct weft_graph_sections {
    weft_node **nodes;
    weft_graph_section *list;
    int n;
} weft_graph_sections;

/* Who writes lines; zero but for the graph: as they are in the whole text. */
typedef struct weft_liner {
    const weft_graph *g;
    /* NULL: @name or %name */
    void (*name)(struct weft_liner *liner, const weft_value *v, weft_text *text);
    /* Is the size of this dim said here? NULL: always. */
    bool (*says_size)(struct weft_liner *liner, const weft_dim *dim);
    bool brief; /* long lists are cut, numbers rounded */
    bool alike; /* nothing that blocks of equal structure may differ in: how parameters begin, for
                   whom nodes are */
} weft_liner;

enum { WEFT_CELLS = 4 }; /* name, type, op, right */

/* inputs_first: where each is met would only tear the blocks apart. False when out of memory. */
bool weft_sections_init(weft_graph_sections *sections, const weft_graph *g, bool inputs_first);
void weft_sections_release(weft_graph_sections *sections);
/* The lines of a section in columns, its name above. False when out of memory. */
bool weft_section_print(weft_liner *liner, const weft_graph_section *section, weft_text *text);
/* ", backward" and the end of the line. */
void weft_section_print_direction(const weft_graph_section *section, weft_text *text);
/* Appends a node's cells to text; cell i is [at[i], at[i + 1]). */
void weft_line_print(weft_liner *liner, const weft_node *n, weft_text *text,
                     size_t at[WEFT_CELLS + 1]);
void weft_value_print_type(weft_liner *liner, const weft_value *v, weft_text *text);
/* One line a node: everything, as it can be read back. */
void weft_graph_print_whole(const weft_graph *g, weft_text *text);
/* The first line of a graph's text; what stands behind the sections. */
void weft_graph_print_head(const weft_graph *g, weft_text *text);
void weft_graph_print_end(const weft_graph *g, bool gradients, weft_text *text);
/* "all_gather[tp] . reduce_scatter[cp]": the last step first, as functions compose. */
void weft_print_steps(const weft_mesh *mesh, const weft_step *steps, int n_steps, weft_text *text);
const char *weft_init_name(weft_init_kind kind);
const char *weft_scope_name(weft_scope scope);
const char *weft_phase_name(weft_phase phase);

#endif
