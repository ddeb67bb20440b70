/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text, layouts and tables in them. */
#include "../lib/graph_text.h"
#include "../lib/standard_ops.h"
#include "compile/graph/graph.h"
#include "fuzz.h"
#include "print/graph.h"

#include <stdlib.h>

static const char *const seeds[] = {
    "graph train placed on tp 2\n"
    "common\n"
    "  %ids: i32[batch 4, seq 8] = input() core\n"
    "  @w: f32[vocab/tp 50, embed 6] = parameter(normal 0.5) m, step_begin\n"
    "  %x: f32[batch 4, seq 8, embed 6] +tp ~ (residual) = embedding(%ids, @w) m\n"
    "  %x.r: f32[batch 4, seq 8, embed 6] = all_reduce[tp](%x) tp, for add y\n"
    "  %y: f32[batch 4, seq 8, embed 6] fetched = add(%x.r, %x.r) {eps 0.5, n 3} m\n"
    "block 1, backward\n"
    "  %y*: f32[batch 4, seq 8, embed 6] = add(%x.r, %x.r; like %y) m, again\n"
    "table\n"
    "  vocab/tp of parameters w*, tp\n"
    "  whole/tp of role logits, tp\n"
    "  storage/tp, fsdp\n"
    "roots\n"
    "  loss %y\n"
    "  report size %y\n"
    "  gradient %y of @w\n",
    NULL};
static const char *const words[] = {"%x",
                                    "@w",
                                    "/tp",
                                    "+tp",
                                    "~",
                                    "[",
                                    "]",
                                    "(",
                                    ")",
                                    "{",
                                    "}",
                                    "\n",
                                    " 0",
                                    " -1",
                                    "9223372036854775807",
                                    "2147483648*2147483648",
                                    " = add(%x, %y)",
                                    ", seq 8",
                                    "block 2147483647",
                                    "\"",
                                    "\\",
                                    NULL};

static weft_ops ops;

static weft_status parse(const char *data, size_t n)
{
    (void)n;
    weft_error err = {0};
    weft_graph *g = NULL;
    weft_graph_config config = {.mode = WEFT_MODE_TRAIN,
                                .mesh = {1, {{.name = "tp", .size = 2, .by = "tp"}}},
                                .ops = &ops,
                                .dtype = WEFT_F32,
                                .sizes = {4, 8, 1, 0}};
    weft_status s = weft_graph_parse(data, &config, &g, &err);
    fuzz_check(s, &err);
    if (!s) {
        weft_text out = {0};
        weft_graph_print(g, WEFT_PRINT_WHOLE, &out);
        weft_graph_print(g, 0, &out);
        weft_graph_verify(g, &err); /* may say what it likes */
        weft_text_release(&out);
    }
    weft_graph_destroy(g);
    weft_error_release(&err);
    return s;
}

int main(int argc, char **argv)
{
    weft_error err = {0};
    if (standard_ops_init(&ops, NULL, NULL, 0, &err))
        return 99;
    int code = fuzz_main(&(fuzz_target){"fuzz_graph", seeds, words, parse}, argc, argv);
    weft_ops_release(&ops);
    return code;
}
