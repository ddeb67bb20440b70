/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank sends, counted, and over which channel. */
#include "compile/program/compiler.h"

weft_channel weft_channel_of(const weft_node *n, const weft_step *step)
{
    if (step->move == WEFT_SHIFT)
        return WEFT_CHANNEL_RING;
    if (step->move != WEFT_SEND)
        return WEFT_CHANNEL_COLLECTIVES;
    return n->phase == WEFT_FORWARD || n->phase == WEFT_RECOMPUTE ? WEFT_CHANNEL_ACTIVATIONS
                                                                  : WEFT_CHANNEL_GRADIENTS;
}

static int64_t bytes_of(const weft_mesh *mesh, const weft_node *n)
{
    const weft_value *v = n->outs[0];
    weft_layout before = n->ins[0]->layout;
    int64_t bytes = 0;
    for (int k = 0; k < n->n_steps; before = n->steps[k++].after)
        bytes += weft_step_bytes(mesh, &n->steps[k], before, v->n_dims, v->dims, v->dtype);
    return bytes;
}

/* Of an all_reduce of so many elements. */
static int64_t reduced(const weft_mesh *mesh, const weft_node *n, int64_t elements)
{
    const weft_dim all = {.name = "all", .size = elements, .grain = 1};
    return weft_step_bytes(mesh, n->steps, (weft_layout){0}, 1, &all, n->outs[0]->dtype);
}

/* What is reduced with others is cut with them, not by itself: of a number, no rank has more than
 * its share of all of them. A part counts what it adds to those before it. */
int64_t weft_part_sent_bytes(const weft_graph *g, const weft_instruction *in, int part)
{
    const weft_mesh *mesh = &g->config.mesh;
    const weft_node *n = in->parts ? in->parts[part] : in->node;
    if (!in->parts || n->steps->move != WEFT_ALL_REDUCE || weft_part_goes_alone(g, n))
        return bytes_of(mesh, n);
    int64_t before = 0, with = 0;
    for (int i = 0; i <= part; i++) {
        const weft_value *v = in->parts[i]->ins[0];
        before = with;
        if (!weft_part_goes_alone(g, in->parts[i]))
            with += weft_layout_elements(mesh, v->layout, v->n_dims, v->dims);
    }
    return reduced(mesh, n, with) - reduced(mesh, n, before);
}
