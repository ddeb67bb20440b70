/* SPDX-License-Identifier: Apache-2.0 */
#include "order_proof.h"

#include "compile/program/waits.h"

typedef struct prover {
    const weft_lowered *l;
    weft_access *a, *b;        /* room for those of two instructions */
    weft_clock *clock, *known; /* room for those of two programs */
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

static weft_status check_program(const prover *v, const weft_program *p)
{
    for (int i = 0; i < p->n; i++) {
        weft_clock_fill(p, i, v->clock);
        for (int k = 0; k < i; k++) {
            const use x = {p, k, 0}, y = {p, i, 0};
            if (v->clock[i].at[p->list[k].queue] < k && meet(v, &x, &y))
                return refuse(v, &x, &y);
        }
    }
    return WEFT_OK;
}

static const weft_program *program_of(const weft_lowered *l, const weft_task *task)
{
    return weft_lowered_program(l, task->part, task->stage);
}

/* The upload of the inputs for `next` is enqueued before the body of `now`, on the first queue. */
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

/* What the prologue of `next` begins goes on while the body of `now` runs, and so may what now's
 * own prologue began. */
static weft_status check_prologue(const prover *v, const weft_task *now, const weft_task *next)
{
    const weft_program *beside = program_of(v->l, now), *p = program_of(v->l, next);
    if (now->part == WEFT_PART_BEGIN) /* behind which prologues run */
        return WEFT_OK;
    for (int i = 0; i < p->n_prologue; i++)
        for (int k = 0; k < beside->n; k++) {
            const use x = {p, i, next->micro_batch}, y = {beside, k, now->micro_batch};
            bool in_turn = k < beside->n_prologue && beside->list[k].queue == p->list[i].queue;
            if (!in_turn && meet(v, &x, &y))
                return refuse(v, &x, &y);
        }
    return check_upload(v, now, next);
}

static weft_status check_crossing(const prover *v, const weft_task *before, const weft_task *after,
                                  bool prologue)
{
    const weft_boundary *waits =
        weft_lowered_boundary(v->l, program_of(v->l, before), program_of(v->l, after), prologue);
    if (!waits) /* then all before is done */
        return WEFT_OK;
    const weft_crossing c = weft_crossing_begin(v->l, waits, v->clock, v->known);
    for (int i = c.from; i < c.to; i++) {
        weft_crossing_fill(&c, i);
        for (int k = c.before->n_prologue; k < c.before->n; k++) {
            const use x = {c.before, k, before->micro_batch}, y = {c.after, i, after->micro_batch};
            int queue = c.before->list[k].queue;
            if (weft_crossing_counts(&c.before->list[k]) && queue != c.after->list[i].queue &&
                c.known[i].at[queue] < k && meet(v, &x, &y))
                return refuse(v, &x, &y);
        }
    }
    return WEFT_OK;
}

static weft_status check_list(const prover *v)
{
    const weft_task *list = v->l->tasks->list;
    weft_status s = WEFT_OK;
    for (int t = 0; t + 1 < v->l->tasks->n && !s; t++) {
        s = check_prologue(v, &list[t], &list[t + 1]);
        if (!s && list[t].part == WEFT_PART_BEGIN)
            s = check_crossing(v, &list[t], &list[t + 1], true);
        s = s ? s : check_crossing(v, &list[t], &list[t + 1], false);
        if (!s && t + 2 < v->l->tasks->n)
            s = check_crossing(v, &list[t], &list[t + 2], true);
    }
    return s;
}

/* Both ways of a shift are awaited as what comes. */
static bool awaits(const weft_instruction *in, const weft_instruction *begun)
{
    if (in->kind != WEFT_AWAIT && in->kind != WEFT_ARRIVE)
        return false;
    return begun->kind == WEFT_POST_SEND ? in->node == begun->node
                                         : in->transfer == begun->transfer;
}

/* What is received or fetched changes until it is awaited, at any time; what is evicted, or sent
 * from where it lies, is read. */
static weft_status check_under_way(const prover *v, const weft_program *p, int i)
{
    const use begun = {p, i, 0};
    for (int k = i + 1; k < p->n; k++) {
        const use other = {p, k, 0};
        if (awaits(&p->list[k], &p->list[i]))
            return WEFT_OK;
        if (meet(v, &begun, &other))
            return refuse(v, &begun, &other);
    }
    return WEFT_OK;
}

/* Nobody else ever writes where a copy of what is sent waits. */
static weft_status check_copied(const prover *v, const weft_program *p, int i)
{
    const weft_buffer *b = &v->l->buffers[p->list[i].workspace];
    const int64_t lo = weft_buffer_offset(v->l, b, 0);
    const weft_access place = {lo, lo + b->bytes,
                               b->base == WEFT_BASE_SLOT ? WEFT_BASE_ARENA : b->base, true};
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
        const weft_instruction *in = &p->list[i];
        const bool sends = in->kind == WEFT_POST_SEND;
        if (sends && in->workspace >= 0)
            s = check_copied(v, p, i);
        else if (sends || in->kind == WEFT_POST_RECV || in->kind == WEFT_FETCH ||
                 in->kind == WEFT_EVICT)
            s = check_under_way(v, p, i);
    }
    return s;
}

weft_status check_order(const weft_lowered *l, weft_error *err)
{
    int longest = 0;
    size_t most = (size_t)weft_most_accesses(l) + 1;
    for (int a = 0; a < l->n_programs; a++)
        longest = l->programs[a].n > longest ? l->programs[a].n : longest;
    prover v = {.l = l, .err = err};
    v.a = weft_alloc(most * sizeof *v.a);
    v.b = weft_alloc(most * sizeof *v.b);
    v.clock = weft_alloc(((size_t)longest + 1) * sizeof *v.clock);
    v.known = weft_alloc(((size_t)longest + 1) * sizeof *v.known);
    weft_status s = v.a && v.b && v.clock && v.known ? WEFT_OK : weft_fail_memory(err);
    for (int a = 0; a < l->n_programs && !s; a++) {
        s = check_program(&v, &l->programs[a]);
        s = s ? s : check_transfers(&v, &l->programs[a]);
    }
    s = s ? s : check_list(&v);
    weft_free(v.a);
    weft_free(v.b);
    weft_free(v.clock);
    weft_free(v.known);
    return s;
}
