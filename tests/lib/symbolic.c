/* SPDX-License-Identifier: Apache-2.0 */
/* What a range holds is a sum: a multiset of atoms. An atom is the result of one instruction that
 * is no sum, in one micro-batch of one step. */
#include "symbolic.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

typedef struct sum {
    uint64_t *atoms; /* sorted */
    int n;
} sum;

typedef struct held {
    weft_base base;
    int64_t lo, hi;
    sum sum;
} held;

typedef struct machine {
    const weft_lowered *l;
    int64_t micro_batches, micro; /* micro: -1 outside micro-batches */
    int step;
    weft_part part;
    weft_pool pool;
    held *list;
    int n, capacity;
    weft_text *wrong;
    bool ok;
} machine;

static void *take(machine *m, size_t bytes)
{
    void *p = weft_pool_alloc(&m->pool, bytes);
    assert_non_null(p);
    return p;
}

static bool is(const weft_node *n, const char *op)
{
    return strcmp(n->op->name, op) == 0;
}

/* ---- sums ---- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static sum one(machine *m, uint64_t atom)
{
    sum s = {take(m, sizeof atom), 1};
    s.atoms[0] = atom;
    return s;
}

static sum both(machine *m, sum a, sum b)
{
    sum s = {take(m, (size_t)(a.n + b.n + 1) * sizeof *s.atoms), a.n + b.n};
    if (a.n)
        memcpy(s.atoms, a.atoms, (size_t)a.n * sizeof *s.atoms);
    if (b.n)
        memcpy(s.atoms + a.n, b.atoms, (size_t)b.n * sizeof *s.atoms);
    qsort(s.atoms, (size_t)s.n, sizeof *s.atoms, compare);
    return s;
}

static bool equal(sum a, sum b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.atoms, b.atoms, (size_t)a.n * sizeof *a.atoms) == 0);
}

/* ---- what the graph says ---- */

static uint64_t atom_of(const machine *m, const weft_value *v, int64_t micro)
{
    int64_t when = v->node->scope == WEFT_MICRO_BATCH ? micro : -1;
    return (uint64_t)v->id << 32 | (uint64_t)m->step << 16 | (uint64_t)(when + 1);
}

static sum expected(machine *m, const weft_value *v, int64_t micro)
{
    const weft_node *n = v->node;
    sum s = {0};
    if (is(n, "add")) {
        for (int i = 0; i < n->n_ins; i++)
            s = both(m, s, expected(m, n->ins[i], micro));
        return s;
    }
    if (!is(n, "accumulate"))
        return one(m, atom_of(m, v, micro));
    for (int64_t k = 0; k <= (micro < 0 ? m->micro_batches - 1 : micro); k++)
        s = both(m, s, expected(m, n->ins[0], k));
    return s;
}

/* ---- what memory holds ---- */

static void error(machine *m, const weft_instruction *in, const char *what, const char *name)
{
    if (m->ok)
        weft_text_print(m->wrong, "step %d, %s, micro-batch %d, %s = %s: %s %s", m->step,
                        weft_part_name(m->part), (int)m->micro,
                        in && in->node->n_outs ? in->node->outs[0]->name : "?",
                        in ? in->node->op->name : "host", what, name);
    m->ok = false;
}

static held range(const machine *m, int buffer)
{
    const weft_buffer *b = &m->l->buffers[buffer];
    if (b->base == WEFT_BASE_SLOT) {
        const weft_slots *k = &m->l->slots[b->slots];
        int64_t lo = m->l->buffers[k->buffer].offset + b->offset +
                     k->bytes * k->slot_of[m->micro > 0 ? m->micro : 0];
        return (held){.base = WEFT_BASE_ARENA, .lo = lo, .hi = lo + b->bytes};
    }
    int64_t shift = 0;
    if (b->base == WEFT_BASE_INPUT)
        shift = m->l->inputs.slot_of[m->micro > 0 ? m->micro : 0] * m->l->inputs.bytes;
    return (held){.base = b->base, .lo = b->offset + shift, .hi = b->offset + shift + b->bytes};
}

static held *find(machine *m, int buffer)
{
    held r = range(m, buffer);
    for (int i = 0; i < m->n; i++)
        if (m->list[i].base == r.base && m->list[i].lo == r.lo && m->list[i].hi == r.hi)
            return &m->list[i];
    return NULL;
}

/* Whatever lies there, in whole or in part, is lost. */
static void spoil(machine *m, int buffer)
{
    held r = range(m, buffer);
    int to = 0;
    for (int i = 0; i < m->n; i++)
        if (m->list[i].base != r.base || m->list[i].lo >= r.hi || r.lo >= m->list[i].hi)
            m->list[to++] = m->list[i];
    m->n = to;
}

static void hold(machine *m, int buffer, sum s)
{
    spoil(m, buffer);
    if (m->n == m->capacity) {
        int more = 2 * m->capacity + 64;
        m->list = weft_realloc(m->list, (size_t)more * sizeof *m->list);
        assert_non_null(m->list);
        m->capacity = more;
    }
    held r = range(m, buffer);
    r.sum = s;
    m->list[m->n++] = r;
}

static void must_hold(machine *m, const weft_instruction *in, const weft_value *v, int64_t micro)
{
    int buffer = m->l->buffer_of[v->id];
    const held *h = buffer < 0 ? NULL : find(m, buffer);
    if (!h)
        error(m, in, "nothing whole lies where it looks for", v->name);
    else if (!equal(h->sum, expected(m, v, micro)))
        error(m, in, "something else lies where it looks for", v->name);
}

/* ---- instructions ---- */

static bool overlap(held a, held b)
{
    return a.base == b.base && a.lo < b.hi && b.lo < a.hi;
}

/* A result may lie on its own operand, if the op allows it, and on nothing else that the
 * instruction touches. */
static void check_places(machine *m, const weft_instruction *in)
{
    bool in_place = in->node->op->flags & WEFT_OP_INPLACE;
    for (int r = in->n_ins; r < in->n_ins + in->n_outs; r++) {
        held mine = range(m, in->buffers[r]);
        if (mine.base == WEFT_BASE_INPUT || mine.base == WEFT_BASE_STEP_INPUT ||
            (mine.base == WEFT_BASE_STATE && m->part != WEFT_PART_UPDATE))
            error(m, in, "writes",
                  mine.base == WEFT_BASE_STATE ? "state before the update" : "inputs");
        for (int k = 0; k < in->n_ins + in->n_outs; k++) {
            held other = range(m, in->buffers[k]);
            if (k == r || !overlap(mine, other))
                continue;
            if (k != r - in->n_ins || !in_place || in->accumulate || mine.lo != other.lo ||
                mine.hi != other.hi)
                error(m, in, "writes where it reads or writes another:",
                      k < in->n_ins ? weft_instruction_in(in, k)->name : "a result");
        }
        if (in->workspace >= 0 && overlap(mine, range(m, in->workspace)))
            error(m, in, "has its workspace in", "a result");
    }
    for (int k = 0; k < in->n_ins && in->workspace >= 0; k++)
        if (overlap(range(m, in->buffers[k]), range(m, in->workspace)))
            error(m, in, "has its workspace in", weft_instruction_in(in, k)->name);
}

static sum made(machine *m, const weft_instruction *in, int r)
{
    if (in->kind == WEFT_ZERO_FILL)
        return (sum){0};
    if (in->kind == WEFT_COPY)
        return find(m, in->buffers[0])->sum;
    if (is(in->node, "add")) {
        sum s = {0};
        for (int i = 0; i < in->n_ins; i++)
            s = both(m, s, find(m, in->buffers[i])->sum);
        return s;
    }
    if (is(in->node, "accumulate"))
        return find(m, in->buffers[0])->sum;
    return one(m, atom_of(m, weft_instruction_out(in, r), m->micro));
}

static void check_operands(machine *m, const weft_instruction *in)
{
    if (in->kind == WEFT_COMPUTE || in->kind == WEFT_COLLECTIVE) {
        for (int i = 0; i < in->n_ins; i++) {
            if (in->buffers[i] != m->l->buffer_of[weft_instruction_in(in, i)->id])
                error(m, in, "reads another buffer than that of", weft_instruction_in(in, i)->name);
            must_hold(m, in, weft_instruction_in(in, i), m->micro);
        }
        check_places(m, in);
    }
    if (in->kind == WEFT_OBSERVE)
        must_hold(m, in, in->node->outs[0], -1);
    if (in->kind == WEFT_COPY && !find(m, in->buffers[0]))
        error(m, in, "copies", "what is not there");
}

static void execute(machine *m, const weft_instruction *in)
{
    sum results[WEFT_RULE_MAX_PARTS], before[WEFT_RULE_MAX_PARTS] = {0};
    const int adds = !in->accumulate ? 0 : in->node->op->flags & WEFT_OP_PAIR ? in->n_outs : 1;
    check_operands(m, in);
    if (!m->ok || in->kind == WEFT_OBSERVE)
        return;
    for (int r = 0; r < adds; r++) {
        const held *h = find(m, in->buffers[in->n_ins + r]);
        if (!h)
            error(m, in, "adds to", "what is not there");
        before[r] = h ? h->sum : before[r];
    }
    for (int r = 0; r < in->n_outs && m->ok; r++)
        results[r] = made(m, in, r);
    if (in->workspace >= 0)
        spoil(m, in->workspace);
    for (int r = 0; r < in->n_outs && m->ok; r++)
        hold(m, in->buffers[in->n_ins + r], r < adds ? both(m, before[r], results[r]) : results[r]);
    for (int r = 0; in->fetch && r < in->n_outs && m->ok; r++)
        if (in->kind == WEFT_COMPUTE && weft_instruction_out(in, r)->fetch)
            must_hold(m, in, weft_instruction_out(in, r), m->micro);
}

/* ---- programs ---- */

static bool ready(const weft_program *p, int i, const bool *done)
{
    for (int k = 0; k < p->list[i].n_waits; k++)
        if (!done[p->list[i].waits[k]])
            return false;
    return true;
}

/* Instructions [from, to) of a task's program. Every queue in its own order; which one goes next is
 * rolled. */
static void run_some(machine *m, const weft_task *task, int from, int to, uint64_t *rolls)
{
    enum { QUEUES = 4 };
    const weft_program *p = weft_lowered_program(m->l, task->part, task->stage);
    int next[QUEUES] = {from, from, from, from};
    bool *done = take(m, (size_t)p->n + 1);
    for (int i = 0; i < from; i++)
        done[i] = true;
    m->part = task->part;
    m->micro = task->micro_batch;
    for (int left = to - from, tries = 0; left > 0 && m->ok; tries++) {
        int q = (int)(weft_random_bits(rolls[0], 5, rolls[1]++) % QUEUES);
        while (next[q] < to && p->list[next[q]].queue != q)
            next[q]++;
        if (tries > 1000 * QUEUES) {
            error(m, NULL, "waits form a", "circle");
            return;
        }
        if (next[q] == to || !ready(p, next[q], done))
            continue;
        execute(m, &p->list[next[q]]);
        done[next[q]++] = true;
        left--;
        tries = 0;
    }
}

/* Those that come once a step, or the inputs of a micro-batch. */
static void fill_sources(machine *m, int64_t micro)
{
    m->micro = micro;
    for (const weft_node *n = m->l->graph->first; n; n = n->next) {
        int buffer = n->n_outs ? m->l->buffer_of[n->outs[0]->id] : -1;
        if (n->n_ins || !(n->op->flags & WEFT_OP_SOURCE) || buffer < 0)
            continue;
        if ((m->l->buffers[buffer].base == WEFT_BASE_INPUT) == (micro >= 0))
            hold(m, buffer, one(m, atom_of(m, n->outs[0], micro)));
    }
}

static void check_host(machine *m, const weft_value *v, int64_t micro)
{
    if (v)
        must_hold(m, NULL, v, micro);
}

/* What the loop reads before it decides on the update. */
static void check_reports(machine *m)
{
    const weft_graph *g = m->l->graph;
    m->micro = -1;
    check_host(m, g->loss_report, -1);
    check_host(m, g->tokens, -1);
    for (int i = 0; i < g->n_reports; i++)
        check_host(m, g->reports[i].value, -1);
    for (int i = 0; i < g->n_parameters; i++)
        if (m->l->buffer_of[g->parameters[i]->gradient->id] >= 0)
            check_host(m, g->parameters[i]->gradient, -1);
}

/* Every state that has a next content holds it now. */
static void check_updates(machine *m)
{
    int updates = 0;
    for (const weft_node *n = m->l->graph->first; n; n = n->next)
        for (int r = 0; r < n->n_outs; r++) {
            const weft_value *v = n->outs[r];
            if (!v->update_of)
                continue;
            const held *h = find(m, m->l->buffer_of[v->update_of->id]);
            if (!h || !equal(h->sum, expected(m, v, -1)))
                error(m, NULL, "the step leaves something else in", v->update_of->name);
            updates++;
        }
    if (updates == 0)
        error(m, NULL, "there are no", "updates");
}

static void run_prologue(machine *m, const weft_task *task, uint64_t *rolls)
{
    const weft_program *p = weft_lowered_program(m->l, task->part, task->stage);
    if (weft_lowered_uploads(m->l, p))
        fill_sources(m, task->micro_batch);
    run_some(m, task, 0, p->n_prologue, rolls);
}

static void run_body(machine *m, const weft_task *task, uint64_t *rolls)
{
    const weft_program *p = weft_lowered_program(m->l, task->part, task->stage);
    run_some(m, task, p->n_prologue, p->n, rolls);
}

/* The tasks of some parts, in the list's order, each one's prologue before the body of the task
 * before it, or behind that of BEGIN. */
static void run_tasks(machine *m, weft_part first, weft_part last, uint64_t *rolls)
{
    const weft_task_list *l = m->l->tasks;
    const weft_task *before = NULL;
    for (int i = 0; i < l->n && m->ok; i++) {
        const weft_task *task = &l->list[i];
        if (task->part < first || task->part > last)
            continue;
        if (before && before->part == WEFT_PART_BEGIN)
            run_body(m, before, rolls);
        run_prologue(m, task, rolls);
        if (before && before->part != WEFT_PART_BEGIN)
            run_body(m, before, rolls);
        before = task;
    }
    if (before && m->ok)
        run_body(m, before, rolls);
}

static void train_step(machine *m, uint64_t *rolls)
{
    fill_sources(m, -1);
    run_tasks(m, WEFT_PART_BEGIN, WEFT_PART_STEP_END, rolls);
    check_reports(m);
    run_tasks(m, WEFT_PART_UPDATE, WEFT_PART_UPDATE, rolls);
    check_updates(m);
}

static void forward_only(machine *m, bool first, uint64_t *rolls)
{
    const weft_graph *g = m->l->graph;
    fill_sources(m, -1);
    run_tasks(m, first ? WEFT_PART_BEGIN : WEFT_PART_F, WEFT_PART_STEP_END, rolls);
    check_host(m, g->loss_sum, 0);
    check_host(m, g->tokens, 0);
    check_host(m, g->logits, 0);
}

bool symbolic_run(const weft_lowered *l, int64_t micro_batches, int steps, uint64_t seed,
                  weft_text *wrong)
{
    machine m = {.l = l, .wrong = wrong, .ok = true};
    uint64_t rolls[2] = {seed, 0};
    bool train = l->graph->config.mode == WEFT_MODE_TRAIN;
    m.micro_batches = train ? micro_batches : 1;
    for (int i = 1; i <= steps && m.ok; i++) {
        m.step = train ? i : 1; /* BEGIN runs once in the other modes */
        if (train)
            train_step(&m, rolls);
        else
            forward_only(&m, i == 1, rolls);
    }
    weft_free(m.list);
    weft_pool_release(&m.pool);
    return m.ok;
}
