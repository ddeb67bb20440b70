/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction runs on which queue, and what it must wait for: on one queue order is enough;
 * between queues every conflict over memory (written by one, touched by the other) is an explicit
 * wait. Programs end with all queues done, so waits never leave a program. */
#include "lower/lower.h"

#include <string.h>
#include <weft/marks.h>
#include <weft/random.h>

typedef struct access {
    int64_t lo, hi;
    weft_base base;
    bool writes;
} access;

static access access_of(const weft_lowered *l, int buffer, bool writes)
{
    if (buffer < 0) /* held elsewhere */
        return (access){0, 0, WEFT_BASE_NONE, false};
    const weft_buffer *b = &l->buffers[buffer];
    if (b->base != WEFT_BASE_SLOT)
        return (access){b->offset, b->offset + b->bytes, b->base, writes};
    /* a program is of one micro-batch: its slots may stand for those of all others */
    int64_t lo = weft_buffer_arena_offset(l, b, 0);
    return (access){lo, lo + b->bytes, WEFT_BASE_ARENA, writes};
}

static int accesses(const weft_lowered *l, const weft_instruction *in, access *list)
{
    int n = 0;
    for (int i = 0; i < in->n_ins + in->n_outs; i++)
        list[n++] = access_of(l, in->buffers[i], i >= in->n_ins);
    if (in->workspace >= 0)
        list[n++] = access_of(l, in->workspace, true);
    return n;
}

static bool conflict(const access *a, int n_a, const access *b, int n_b)
{
    for (int i = 0; i < n_a; i++)
        for (int k = 0; k < n_b; k++)
            if ((a[i].writes || b[k].writes) && a[i].base == b[k].base && a[i].lo < b[k].hi &&
                b[k].lo < a[i].hi)
                return true;
    return false;
}

static weft_status add_wait(weft_lowered *l, weft_instruction *in, int on, weft_error *err)
{
    int *fresh = weft_pool_alloc(&l->pool, ((size_t)in->n_waits + 1) * sizeof *fresh);
    if (!fresh)
        return weft_fail_memory(err);
    if (in->n_waits)
        memcpy(fresh, in->waits, (size_t)in->n_waits * sizeof *fresh);
    fresh[in->n_waits++] = on;
    in->waits = fresh;
    return WEFT_OK;
}

/* For each other queue, the latest earlier instruction that conflicts: those before it on that
 * queue are done then, too. */
static weft_status plan(weft_lowered *l, weft_program *p, int i, int n_queues, access *mine,
                        access *other, weft_error *err)
{
    weft_instruction *in = &p->list[i];
    int n_mine = accesses(l, in, mine);
    for (int q = 0; q < n_queues; q++) {
        for (int k = i - 1; q != in->queue && k >= 0; k--) {
            if (p->list[k].queue != q ||
                !conflict(mine, n_mine, other, accesses(l, &p->list[k], other)))
                continue;
            weft_status s = add_wait(l, in, k, err);
            if (s)
                return s;
            break;
        }
    }
    return WEFT_OK;
}

static bool is_sent(const weft_instruction *in)
{
    return in->kind == WEFT_COLLECTIVE || in->kind == WEFT_POST_SEND ||
           in->kind == WEFT_POST_RECV || in->kind == WEFT_AWAIT;
}

/* Moves of weights and their gradients have a queue of their own, so that they go on while a block
 * computes; and so has what stages receive, where there is a third. In the adversarial test
 * everything is spread by dice but what is sent: ranks must enter that alike, and their waits may
 * differ where their kernels do. */
static int queue_of(const weft_instruction *in, int n_queues, uint64_t seed, int a, int i)
{
    if (seed)
        return is_sent(in)
                   ? 0
                   : (int)(weft_random_bits(seed, (uint64_t)a, (uint64_t)i) % (uint64_t)n_queues);
    if (in->kind == WEFT_POST_RECV && n_queues > 2)
        return WEFT_QUEUE_TRANSFERS;
    return in->kind == WEFT_COLLECTIVE && (weft_get_mark(in->node, WEFT_MARK_GROUP) ||
                                           weft_get_mark(in->node, WEFT_MARK_PREFETCH));
}

/* Of one instruction, a workspace included. */
static int most_accesses(const weft_lowered *l)
{
    int most = 0;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            int n = in->n_ins + in->n_outs + 1;
            most = n > most ? n : most;
        }
    return most;
}

/* Of those that are waited for. */
static void number_events(weft_lowered *l, const weft_program *p)
{
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->list[i].n_waits; k++) {
            weft_instruction *on = &p->list[p->list[i].waits[k]];
            if (on->event < 0)
                on->event = l->n_events++;
        }
}

weft_status weft_plan_waits(weft_lowered *l, int n_queues, uint64_t seed, weft_error *err)
{
    if (n_queues < 2) /* everything on queue 0 */
        return WEFT_OK;
    size_t most = (size_t)most_accesses(l);
    access *space = weft_alloc(2 * most * sizeof *space);
    weft_status s = space ? WEFT_OK : weft_fail_memory(err);
    for (int a = 0; a < l->n_programs && !s; a++) {
        weft_program *p = &l->programs[a];
        for (int i = 0; i < p->n && !s; i++) {
            p->list[i].queue = queue_of(&p->list[i], n_queues, seed, a, i);
            s = plan(l, p, i, n_queues, space, space + most, err);
        }
        number_events(l, p);
    }
    weft_free(space);
    return s;
}
