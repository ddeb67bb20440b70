/* SPDX-License-Identifier: Apache-2.0 */
#include "lower/order.h"

#include <string.h>

/* ---- what is touched ---- */

static weft_access access_of(const weft_lowered *l, int buffer, int64_t micro, bool writes)
{
    if (buffer < 0) /* held elsewhere */
        return (weft_access){0, 0, WEFT_BASE_NONE, false};
    const weft_buffer *b = &l->buffers[buffer];
    int64_t lo = weft_buffer_offset(l, b, micro);
    weft_base base = b->base == WEFT_BASE_SLOT ? WEFT_BASE_ARENA : b->base;
    return (weft_access){lo, lo + b->bytes, base, writes};
}

int weft_accesses(const weft_lowered *l, const weft_instruction *in, int64_t micro,
                  weft_access *list)
{
    int n = 0;
    for (int i = 0; i < in->n_ins + in->n_outs; i++)
        list[n++] = access_of(l, in->buffers[i], micro, i >= in->n_ins);
    if (in->workspace >= 0)
        list[n++] = access_of(l, in->workspace, micro, true);
    return n;
}

int weft_most_accesses(const weft_lowered *l)
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

bool weft_accesses_conflict(const weft_access *a, int n_a, const weft_access *b, int n_b)
{
    for (int i = 0; i < n_a; i++)
        for (int k = 0; k < n_b; k++)
            if ((a[i].writes || b[k].writes) && a[i].base == b[k].base && a[i].lo < b[k].hi &&
                b[k].lo < a[i].hi)
                return true;
    return false;
}

/* ---- the proof ---- */

typedef struct prover {
    const weft_lowered *l;
    weft_access *a, *b; /* room for those of two instructions */
    int *clock;         /* [instruction][queue]: the last there that is done before it begins */
    weft_error *err;
} prover;

/* One instruction of one task. */
typedef struct use {
    const weft_program *p;
    int i;
    int64_t micro;
} use;

static bool meet(const prover *v, const use *x, const use *y)
{
    int n = weft_accesses(v->l, &x->p->list[x->i], x->micro, v->a),
        m = weft_accesses(v->l, &y->p->list[y->i], y->micro, v->b);
    return weft_accesses_conflict(v->a, n, v->b, m);
}

static weft_status refuse(const prover *v, const use *x, const use *y)
{
    const weft_instruction *a = &x->p->list[x->i], *b = &y->p->list[y->i];
    return weft_fail(v->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "instruction %d of %s, stage %d (%s, queue %d), and %d of %s, stage %d (%s, "
                     "queue %d), touch the same memory in no order",
                     x->i, weft_part_name(x->p->part), x->p->stage, a->node->op->name, a->queue,
                     y->i, weft_part_name(y->p->part), y->p->stage, b->node->op->name, b->queue);
}

/* What a prologue has gathered is there when the body begins. */
static void fill_clock(const prover *v, const weft_program *p, int i)
{
    int *mine = &v->clock[i * WEFT_MOST_QUEUES], last = i - 1;
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        mine[q] = -1;
    for (int k = 0; k < p->n_prologue && i >= p->n_prologue; k++)
        if (p->list[k].kind == WEFT_COLLECTIVE)
            mine[p->list[k].queue] = k;
    while (last >= 0 && p->list[last].queue != p->list[i].queue)
        last--;
    for (int k = last < 0 ? 0 : -1; k < p->list[i].n_waits; k++) {
        const int *other = &v->clock[(k < 0 ? last : p->list[i].waits[k]) * WEFT_MOST_QUEUES];
        for (int q = 0; q < WEFT_MOST_QUEUES; q++)
            mine[q] = other[q] > mine[q] ? other[q] : mine[q];
    }
    mine[p->list[i].queue] = i;
}

static weft_status check_program(const prover *v, const weft_program *p)
{
    for (int i = 0; i < p->n; i++) {
        fill_clock(v, p, i);
        for (int k = 0; k < i; k++) {
            const use x = {p, k, 0}, y = {p, i, 0};
            if (v->clock[i * WEFT_MOST_QUEUES + p->list[k].queue] < k && meet(v, &x, &y))
                return refuse(v, &x, &y);
        }
    }
    return WEFT_OK;
}

static const weft_program *program_of(const weft_lowered *l, const weft_task *task)
{
    return weft_lowered_program(l, task->part, task->stage);
}

/* So does the upload of the inputs for `next`. */
static weft_status check_upload(const prover *v, const weft_task *now, const weft_task *next)
{
    const weft_program *body = program_of(v->l, now);
    const weft_slots *s = &v->l->inputs;
    if (!weft_lowered_uploads(v->l, program_of(v->l, next)))
        return WEFT_OK;
    const int64_t to = s->slot_of[next->micro_batch] * s->bytes;
    const weft_access written = {to, to + s->bytes, WEFT_BASE_INPUT, true};
    for (int k = body->n_prologue; k < body->n; k++) {
        int n = weft_accesses(v->l, &body->list[k], now->micro_batch, v->a);
        if (weft_accesses_conflict(&written, 1, v->a, n))
            return weft_fail(v->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                             "instruction %d of %s, stage %d (%s), reads inputs while those of the "
                             "next micro-batch come to the same place",
                             k, weft_part_name(body->part), body->stage,
                             body->list[k].node->op->name);
    }
    return WEFT_OK;
}

/* What the prologue of `next` begins goes on while the body of `now` runs. */
static weft_status check_prologue(const prover *v, const weft_task *now, const weft_task *next)
{
    const weft_program *body = program_of(v->l, now), *p = program_of(v->l, next);
    if (now->part == WEFT_PART_BEGIN) /* behind which prologues run */
        return WEFT_OK;
    for (int i = 0; i < p->n_prologue; i++)
        for (int k = body->n_prologue; k < body->n; k++) {
            const use x = {p, i, next->micro_batch}, y = {body, k, now->micro_batch};
            if (meet(v, &x, &y))
                return refuse(v, &x, &y);
        }
    return check_upload(v, now, next);
}

/* What is received changes until it is awaited, at any time. */
static weft_status check_received(const prover *v, const weft_program *p, int i)
{
    const use received = {p, i, 0};
    for (int k = i + 1; k < p->n; k++) {
        const weft_instruction *in = &p->list[k];
        const use other = {p, k, 0};
        if (in->kind == WEFT_AWAIT && in->transfer == p->list[i].transfer)
            return WEFT_OK;
        if (meet(v, &received, &other))
            return refuse(v, &received, &other);
    }
    return WEFT_OK;
}

/* Nobody else ever writes where what is sent waits. */
static weft_status check_sent(const prover *v, const weft_program *p, int i)
{
    const weft_access place = access_of(v->l, p->list[i].workspace, 0, true);
    const use sent = {p, i, 0};
    for (int a = 0; a < v->l->n_programs; a++)
        for (int k = 0; k < v->l->programs[a].n; k++) {
            const use other = {&v->l->programs[a], k, 0};
            int n = weft_accesses(v->l, &other.p->list[k], 0, v->a);
            if ((other.p != p || k != i) && weft_accesses_conflict(&place, 1, v->a, n))
                return refuse(v, &sent, &other);
        }
    return WEFT_OK;
}

static weft_status check_transfers(const prover *v, const weft_program *p)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < p->n && !s; i++) {
        if (p->list[i].kind == WEFT_POST_RECV)
            s = check_received(v, p, i);
        else if (p->list[i].kind == WEFT_POST_SEND)
            s = check_sent(v, p, i);
    }
    return s;
}

weft_status weft_check_order(const weft_lowered *l, weft_error *err)
{
    int longest = 0;
    size_t most = (size_t)weft_most_accesses(l) + 1;
    for (int a = 0; a < l->n_programs; a++)
        longest = l->programs[a].n > longest ? l->programs[a].n : longest;
    prover v = {.l = l, .err = err};
    v.a = weft_alloc(most * sizeof *v.a);
    v.b = weft_alloc(most * sizeof *v.b);
    v.clock = weft_alloc(((size_t)longest + 1) * WEFT_MOST_QUEUES * sizeof *v.clock);
    weft_status s = v.a && v.b && v.clock ? WEFT_OK : weft_fail_memory(err);
    for (int a = 0; a < l->n_programs && !s; a++) {
        s = check_program(&v, &l->programs[a]);
        s = s ? s : check_transfers(&v, &l->programs[a]);
    }
    for (int t = 0; t + 1 < l->tasks->n && !s; t++)
        s = check_prologue(&v, &l->tasks->list[t], &l->tasks->list[t + 1]);
    weft_free(v.a);
    weft_free(v.b);
    weft_free(v.clock);
    return s;
}
