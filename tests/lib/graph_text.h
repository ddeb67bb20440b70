/* SPDX-License-Identifier: Apache-2.0 */
/* A graph from its text: what tests write down, and what shows that a printed graph says all. */
#ifndef WEFT_TEST_GRAPH_TEXT_H
#define WEFT_TEST_GRAPH_TEXT_H

#include "compile/graph/graph.h"

/* Reads what weft_graph_print wrote whole; config: of the same mode and mesh. Errors name the line.
 * The graph is not verified. */
weft_status weft_graph_parse(const char *text, const weft_graph_config *config, weft_graph **out,
                             weft_error *err);

#endif
