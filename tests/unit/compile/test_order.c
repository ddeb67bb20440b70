/* SPDX-License-Identifier: Apache-2.0 */
/* Waits between queues: every two accesses to the same memory are in some order, and no wait can be
 * left out; of those between tasks none may come later, either. On devices with two and with three
 * queues, and in the adversarial spread. What a device keeps as one makes nobody wait longer. */
#include "../../lib/order_proof.h"
#include "../../lib/plan_run.h"
#include "compile/program/waits.h"
#include "compile/program/walk.h"

#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

#define MODEL                                                                                      \
    "[train]\nsteps = 2\nseq_len = 16\nglobal_batch = 8\nmicro_batch = 2\n"                        \
    "[llama3]\ndim = 32\nn_layers = 4\nn_heads = 4\nn_kv_heads = 2\nhead_dim = 8\nffn_dim = "      \
    "48\nvocab_size = 64\n"

typedef struct sample {
    const char *plugins, *sections;
    int ranks;
} sample;

static const sample samples[] = {
    {"llama3 later local fsdp adamw", "", 4},
    {"llama3 later local bf16 fsdp ac adamw", "", 2},
    {"llama3 later local tp fsdp adamw", "[tp]\ndegree = 2\n", 4},
    {"llama3 later local pp adamw", "[pp]\ndegree = 2\n", 2},
    {"llama3 later local pp fsdp adamw", "[pp]\ndegree = 2\n", 4},
    {"llama3 later local tp pp adamw", "[tp]\ndegree = 2\n[pp]\ndegree = 4\n", 8},
    {"llama3 later local cp adamw", "[cp]\ndegree = 2\nattention = ring\n", 2},
    {"llama3 later local cp fsdp adamw", "[cp]\ndegree = 2\nattention = ring\n", 4},
    {"llama3 later local pp fsdp adamw", "[pp]\ndegree = 2\nschedule = interleaved\n", 4},
    {"llama3 later local pp fsdp adamw", "[pp]\ndegree = 2\nschedule = gpipe\n", 4},
    {"llama3 later local pp fsdp adamw",
     "[pp]\ndegree = 2\n[fsdp]\nreplicate = 2\ntwo_level = micro_batch\nreshard = yes\n", 8},
    {"llama3 cpu local fsdp adamw", "", 4},
    {"llama3 cpu local tp fsdp adamw", "[tp]\ndegree = 2\n[cpu]\nqueues = adversarial\n", 4},
    {"llama3 cpu local tp fsdp adamw disk offload",
     "[tp]\ndegree = 2\n[cpu]\nqueues = adversarial\n[offload]\nstate = all\nleast = 0\n", 4},
    {"llama3 later local pp fsdp adamw disk offload", /* planned, and no run's */
     "[pp]\ndegree = 2\n[offload]\nstate = all\nleast = 0\nprefetch = 2\n", 4},
    {"llama3 later local fsdp adamw disk offload",
     "[offload]\nstate = none\ngradients = yes\nleast = 0\nprefetch = 2\n", 2},
    {"llama3 later local pp adamw disk offload",
     "[pp]\ndegree = 2\nschedule = zbv\n[offload]\ngradients = yes\nleast = 0\n", 2},
    {"llama3 cpu local fsdp adamw disk offload",
     "[cpu]\nqueues = adversarial\n[offload]\nstate = all\ngradients = yes\nactivations = "
     "all\nleast = 0\n",
     2},
    {"llama3 later local pp ac adamw disk offload",
     "[pp]\ndegree = 2\nschedule = zbv\n[offload]\nactivations = all\nleast = 0\n", 2},
    {"llama3 later local pp adamw disk offload",
     "[pp]\ndegree = 2\nschedule = interleaved\n[offload]\nactivations = boundary\nleast = 0\n", 2},
};

static void start(plan_run *p, const sample *s, int rank)
{
    weft_text text = {0};
    weft_text_print(&text, "%s%s", MODEL, s->sections);
    plan_run_start(p, s->plugins, weft_text_get(&text),
                   &(weft_plan_options){.rank = rank, .ranks = s->ranks});
    weft_text_release(&text);
}

/* Takes each wait out and puts it back. Returns how many there are. */
static int check_each(weft_lowered *l, const char *what)
{
    int n = 0;
    weft_error err = {0};
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            weft_instruction *in = &l->programs[a].list[i];
            for (int k = 0; k < in->n_waits; k++, n++) {
                int last = in->waits[--in->n_waits], out = in->waits[k];
                in->waits[k] = k == in->n_waits ? out : last;
                if (check_order(l, &err) == WEFT_OK)
                    fail_msg("%s: instruction %d of program %d need not wait for %d", what, i, a,
                             out);
                weft_error_clear(&err);
                in->waits[k] = out;
                in->waits[in->n_waits++] = last;
            }
        }
    weft_error_release(&err);
    return n;
}

static int next_on(const weft_program *p, int i, int by)
{
    const int queue = p->list[i].queue;
    for (i += by; i >= 0 && i < p->n; i += by)
        if (p->list[i].queue == queue)
            return i;
    return -1;
}

static void must_be_refused(const weft_lowered *l, const char *what, const weft_boundary *b,
                            const weft_boundary_wait *planned)
{
    weft_error err = {0};
    if (check_order(l, &err) == WEFT_OK)
        fail_msg("%s: instruction %d of program %d need not wait for %d of program %d", what,
                 planned->after, b->after, planned->before, b->before);
    weft_error_release(&err);
}

/* The same with what tasks wait for of the one before; each may neither be left out, nor come with
 * the next instruction of its queue, nor be for the one before on the other queue. */
static int check_boundaries(weft_lowered *l, const char *what)
{
    enum { NOBODY = -1 };
    int n = 0;
    for (int i = 0; i < l->n_boundaries; i++)
        for (int k = 0; k < l->boundaries[i].n_waits; k++, n++) {
            weft_boundary *b = &l->boundaries[i];
            weft_boundary_wait *wait = &b->waits[k], planned = *wait;
            wait->after = NOBODY;
            must_be_refused(l, what, b, &planned);
            wait->after = next_on(&l->programs[b->after], planned.after, 1);
            must_be_refused(l, what, b, &planned);
            *wait = planned;
            wait->before = next_on(&l->programs[b->before], planned.before, -1);
            if (wait->before < 0)
                wait->after = NOBODY;
            must_be_refused(l, what, b, &planned);
            *wait = planned;
        }
    return n;
}

static void test_samples(void **state)
{
    int between = 0;
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        for (int rank = 0; rank < samples[i].ranks; rank += samples[i].ranks - 1) {
            plan_run p;
            int n = 0;
            start(&p, &samples[i], rank);
            for (int m = 0; m < WEFT_MODES; m++) {
                weft_lowered *l = p.plan->lowered[m];
                if (l && check_order(l, &p.err))
                    fail_msg("%s, rank %d: %s", samples[i].plugins, rank, plan_run_errors(&p));
                n += l && rank == 0 ? check_each(l, samples[i].plugins) : 0;
                between += l && rank == 0 ? check_boundaries(l, samples[i].plugins) : 0;
            }
            assert_true(rank > 0 || n > 0);
            plan_run_release(&p);
        }
    assert_true(between > 0);
}

/* Memory that another instruction on another queue still uses. */
static void test_overlap_is_found(void **state)
{
    (void)state;
    plan_run p;
    int found = 0, tried = 0;
    start(&p, &samples[3], 0);
    weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    for (int i = 0; i < l->n_buffers; i++) {
        weft_buffer *b = &l->buffers[i];
        if (b->kind != WEFT_CLASS_SENT)
            continue;
        int64_t offset = b->offset;
        b->offset = 0; /* where others lie */
        found += check_order(l, &p.err) != WEFT_OK;
        weft_error_clear(&p.err);
        b->offset = offset;
        tried++;
    }
    assert_true(tried > 0);
    assert_int_equal(found, tried);
    plan_run_release(&p);
}

/* Whoever reads what was fetched, before it is there. */
static void test_arrivals(void **state)
{
    (void)state;
    plan_run p;
    int found = 0, tried = 0;
    start(&p, &samples[sizeof samples / sizeof samples[0] - 1], 0);
    weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            weft_instruction *in = &l->programs[a].list[i];
            if (in->kind != WEFT_ARRIVE || !weft_node_is(in->node, WEFT_OP_FETCH))
                continue;
            const int transfer = in->transfer;
            in->transfer = -1;
            found += check_order(l, &p.err) != WEFT_OK;
            weft_error_clear(&p.err);
            in->transfer = transfer;
            tried++;
        }
    assert_true(tried > 0);
    assert_int_equal(found, tried);
    plan_run_release(&p);
}

/* Keys and values go round the ring from where they lie, so nothing may write there before they
 * are awaited. */
static void test_shifts(void **state)
{
    (void)state;
    plan_run p;
    int found = 0, tried = 0;
    start(&p, &samples[6], 0);
    weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i + 1 < l->programs[a].n; i++) {
            const weft_instruction *sent = &l->programs[a].list[i];
            weft_instruction *next = &l->programs[a].list[i + 1];
            if (sent->kind != WEFT_POST_SEND || next->kind != WEFT_COMPUTE || !next->n_outs)
                continue;
            assert_int_equal(sent->workspace, -1);
            const int written = next->buffers[next->n_ins];
            next->buffers[next->n_ins] = sent->buffers[0];
            found += check_order(l, &p.err) != WEFT_OK;
            weft_error_clear(&p.err);
            next->buffers[next->n_ins] = written;
            tried++;
        }
    assert_true(tried > 0);
    assert_int_equal(found, tried);
    plan_run_release(&p);
}

/* ---- what a device keeps ---- */

static bool waits_for(const weft_instruction *in, int i)
{
    for (int k = 0; k < in->n_waits; k++)
        if (in->waits[k] == i)
            return true;
    return false;
}

/* Does another task wait for instruction i (before: it waits for another task)? */
static bool crosses(const weft_lowered *l, const weft_program *p, int i, bool before)
{
    for (int k = 0; k < l->n_boundaries; k++) {
        const weft_boundary *b = &l->boundaries[k];
        for (int j = 0; j < b->n_waits; j++)
            if (before ? b->after == p - l->programs && b->waits[j].after == i
                       : b->before == p - l->programs && b->waits[j].before == i)
                return true;
    }
    return false;
}

/* On one queue, nobody waits for its middle, nor does that for anybody. */
static void check_span(const weft_lowered *l, const weft_program *p, weft_captured span,
                       const char *what)
{
    for (int i = span.from; i < span.to; i++) {
        const weft_instruction *in = &p->list[i];
        bool well = in->kind == WEFT_COMPUTE || in->kind == WEFT_COPY || in->kind == WEFT_ZERO_FILL;
        well = well && in->queue == WEFT_QUEUE_COMPUTE;
        for (int k = 0; k < in->n_waits && i > span.from; k++)
            well = well && in->waits[k] >= span.from;
        well = well && (i == span.from || !crosses(l, p, i, true));
        well = well && (i == span.to - 1 || !crosses(l, p, i, false));
        for (int j = 0; j < p->n && i < span.to - 1; j++)
            well = well && !waits_for(&p->list[j], i);
        if (!well)
            fail_msg("%s: instruction %d of program %d is in a span from %d to %d", what, i,
                     (int)(p - l->programs), span.from, span.to);
    }
}

/* Where the middle waits for another task a span ends before it; behind it, where others wait. */
static void check_ends(const weft_walk *w, weft_captured span)
{
    weft_instruction *in = &w->step.program->list[span.from + 3];
    const int event = in->event;
    if (span.to - span.from < 8 || span.forks)
        return;
    in->crosses = true;
    assert_int_equal(weft_walk_captured(w, span.from).to, span.from + 3);
    in->crosses = false;
    in->event = 0;
    assert_int_equal(weft_walk_captured(w, span.from).to, span.from + 4);
    in->event = event;
    assert_int_equal(weft_walk_captured(w, span.from).to, span.to);
}

/* Returns how many instructions of all bodies, *all of them, a device keeps. */
static int check_spans(const weft_lowered *l, bool communicates, const char *what, int *all)
{
    weft_walk w;
    int kept = 0;
    weft_walk_init(&w, l, WEFT_PART_BEGIN, WEFT_PART_UPDATE);
    w.keeps = true;
    w.communicates = communicates;
    while (weft_walk_next(&w)) {
        const weft_program *p = w.step.program;
        if (w.step.kind != WEFT_WALK_BODY)
            continue;
        *all += p->n - p->n_prologue;
        for (weft_captured span = weft_walk_captured(&w, p->n_prologue); span.from < p->n;
             span = weft_walk_captured(&w, span.to)) {
            assert_true(span.from >= p->n_prologue && span.from < span.to && span.to <= p->n);
            assert_true(communicates || !span.forks);
            if (!communicates)
                check_span(l, p, span, what);
            check_ends(&w, span);
            kept += span.to - span.from;
        }
    }
    return kept;
}

static void test_spans(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        for (int rank = 0; rank < samples[i].ranks; rank += samples[i].ranks - 1) {
            plan_run p;
            int all = 0;
            start(&p, &samples[i], rank);
            const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
            const int kept = check_spans(l, false, samples[i].plugins, &all);
            const int more = check_spans(l, true, samples[i].plugins, &all);
            /* `all` counts both walks; a CPU's queues take turns */
            assert_true(more >= kept && (kept > all / 8 || !strstr(samples[i].plugins, "later")));
            plan_run_release(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples),
                                       cmocka_unit_test(test_overlap_is_found),
                                       cmocka_unit_test(test_arrivals),
                                       cmocka_unit_test(test_shifts), cmocka_unit_test(test_spans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
