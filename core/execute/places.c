/* SPDX-License-Identifier: Apache-2.0 */
/* Where the collectives of a group find what they send and put what they receive, as a number: for
 * transports that can do more where all members use the same places. */
#include "execute/collective.h"

#include <weft/random.h>

static uint64_t add_number(uint64_t hash, int64_t number)
{
    return weft_hash_bytes(hash, &number, sizeof number);
}

/* Which piece of memory, and how far behind its head: in a slot, for every micro-batch. */
static uint64_t add_place(uint64_t hash, const weft_lowered *l, const weft_instruction *in,
                          weft_place p)
{
    int buffer = p.of == WEFT_PLACE_WORKSPACE ? in->workspace : in->buffers[p.of];
    if (buffer < 0)
        return add_number(hash, WEFT_BASE_NONE);
    const weft_buffer *b = &l->buffers[buffer];
    const bool slots = b->base == WEFT_BASE_SLOT || b->base == WEFT_BASE_INPUT;
    const int64_t n = slots ? l->graph->config.sizes.micro_batches : 1;
    hash = add_number(hash, b->base == WEFT_BASE_SLOT ? WEFT_BASE_ARENA : b->base);
    for (int64_t micro = 0; micro < n; micro++)
        hash = add_number(hash, weft_buffer_offset(l, b, micro) + p.at);
    return hash;
}

static uint64_t add_instruction(uint64_t hash, const weft_groups *g, const weft_group *of,
                                const weft_lowered *l, const weft_instruction *in)
{
    for (int i = 0; i < in->exchange->n_parts; i++) {
        const weft_exchange_part *p = &in->exchange->parts[i];
        if (!p->sends || p->count == 0 ||
            weft_groups_find(g, WEFT_CHANNEL_COLLECTIVES, p->step->axes, p->step->n_axes) != of)
            continue;
        hash = add_number(hash, 1 + (int64_t)p->step->move);
        hash = add_place(add_place(hash, l, in, p->send), l, in, p->recv);
    }
    return hash;
}

static uint64_t digest_of(const weft_groups *g, const weft_group *of, const weft_lowered *l,
                          uint64_t hash)
{
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++)
            if (l->programs[a].list[i].kind == WEFT_COLLECTIVE)
                hash = add_instruction(hash, g, of, l, &l->programs[a].list[i]);
    return hash;
}

weft_status weft_groups_tell_places(const weft_groups *g, weft_lowered *const lowered[WEFT_MODES],
                                    weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < g->n && !s && g->transport->places; i++) {
        uint64_t hash = 0;
        for (int m = 0; m < WEFT_MODES; m++)
            hash = lowered[m] ? digest_of(g, &g->list[i], lowered[m], hash) : hash;
        s = g->transport->places(g->transport_self, g->list[i].handle, hash, err);
    }
    return s;
}
