/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: the arena's planner on random lifetimes and real plans; what shares memory, followed by a
 * checker that does not know how it came to. */
#include "../../lib/plan_run.h"
#include "../../lib/symbolic.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

static int64_t round64(int64_t n)
{
    return (n + 63) / 64 * 64;
}

/* ---- the planner ---- */

static bool together(const weft_buffer *a, const weft_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Offsets are aligned, inside the arena, and disjoint for what is alive together. Returns the most
 * that is alive at one position. */
static int64_t check_places(const weft_buffer *list, int n, int n_positions, int64_t arena)
{
    int64_t *alive = calloc((size_t)n_positions + 2, sizeof *alive), most = 0;
    assert_non_null(alive);
    for (int i = 0; i < n; i++) {
        const weft_buffer *a = &list[i];
        if (a->base != WEFT_BASE_ARENA || a->bytes == 0)
            continue;
        assert_int_equal(a->offset % 64, 0);
        assert_true(a->offset >= 0 && a->offset + a->bytes <= arena);
        for (int p = a->first; p <= a->last; p++)
            alive[p] += round64(a->bytes);
        for (int k = 0; k < i; k++) {
            const weft_buffer *b = &list[k];
            if (b->base == WEFT_BASE_ARENA && together(a, b) && a->offset < b->offset + b->bytes &&
                b->offset < a->offset + a->bytes)
                fail_msg("buffers %d and %d are alive together and overlap", k, i);
        }
    }
    for (int p = 0; p <= n_positions; p++)
        most = alive[p] > most ? alive[p] : most;
    free(alive);
    return most;
}

static uint64_t roll(uint64_t seed, uint64_t *n, uint64_t below)
{
    return weft_random_bits(seed, 11, (*n)++) % below;
}

static void random_lifetimes(void **state)
{
    (void)state;
    enum { MOST = 120 };
    for (uint64_t seed = 1; seed <= 400; seed++) {
        weft_buffer list[MOST];
        uint64_t rolls = 0;
        int n = (int)roll(seed, &rolls, MOST) + 1, positions = (int)roll(seed, &rolls, 60) + 1;
        int64_t size = seed % 3 == 0 ? 100 : 100000;
        for (int i = 0; i < n; i++) {
            int first = (int)roll(seed, &rolls, (uint64_t)positions),
                length = (int)roll(seed, &rolls, roll(seed, &rolls, 10) ? 8 : 60);
            list[i] =
                (weft_buffer){.base = roll(seed, &rolls, 12) ? WEFT_BASE_ARENA : WEFT_BASE_STATE,
                              .bytes = (int64_t)roll(seed, &rolls, (uint64_t)size),
                              .first = first,
                              .last = first + length < positions ? first + length : positions};
        }
        int64_t arena = -1, peak = -1;
        int at = -1;
        assert_int_equal(weft_plan_memory(list, n, 64, false, &arena, &peak, &at, NULL), WEFT_OK);
        assert_int_equal(check_places(list, n, positions, arena), peak);
        assert_true(arena >= peak);
        assert_true(arena <= 2 * peak);
        assert_true(at >= 0 && at <= positions);
    }
}

static void no_buffers(void **state)
{
    (void)state;
    int64_t arena = -1, peak = -1;
    int at;
    weft_buffer none = {.base = WEFT_BASE_ARENA};
    assert_int_equal(weft_plan_memory(&none, 0, 64, false, &arena, &peak, &at, NULL), WEFT_OK);
    assert_int_equal(arena, 0);
    assert_int_equal(weft_plan_memory(&none, 1, 64, false, &arena, &peak, &at, NULL), WEFT_OK);
    assert_int_equal(arena, 0);
}

static void same_plan_twice(void **state)
{
    (void)state;
    enum { N = 300 };
    weft_buffer one[N], two[N];
    uint64_t rolls = 0;
    for (int i = 0; i < N; i++) { /* many of a size and a time, as in models */
        int first = (int)roll(9, &rolls, 20);
        one[i] = (weft_buffer){.base = WEFT_BASE_ARENA,
                               .bytes = 64 << roll(9, &rolls, 3),
                               .first = first,
                               .last = first + (int)roll(9, &rolls, 20)};
    }
    memcpy(two, one, sizeof one);
    int64_t arena, peak;
    int at;
    assert_int_equal(weft_plan_memory(one, N, 64, false, &arena, &peak, &at, NULL), WEFT_OK);
    assert_int_equal(weft_plan_memory(two, N, 64, false, &arena, &peak, &at, NULL), WEFT_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(one[i].offset, two[i].offset);
}

/* ---- programs ---- */

static const char sizes[] = "n_layers = 3\ndim = 16\nn_heads = 4\nvocab_size = 50\n";

typedef struct wanted {
    const char *plugins, *rest; /* rest: sections */
    int ranks, micro_batches;
} wanted;

static void start_rank(plan_run *p, const wanted *w, int rank, const char *more)
{
    char text[2048];
    const char *model = strncmp(w->plugins, "gpt2", 4) == 0 ? "gpt2" : "llama3";
    snprintf(text, sizeof text,
             "[train]\nsteps = 3\nseq_len = 8\nglobal_batch = %d\nmicro_batch = 8\neval_every = "
             "1\nloss_chunk = 16\n[%s]\n%s%s%s",
             8 * w->micro_batches, model, sizes, w->rest, more);
    plan_run_start(p, w->plugins, text, &(weft_plan_options){.ranks = w->ranks, .rank = rank});
}

static void start(plan_run *p, const wanted *w, const char *more)
{
    start_rank(p, w, w->ranks - 1, more);
}

static const wanted runs[] = {
    {"llama3 cpu adamw", "", 1, 1},
    {"llama3 cpu adamw", "", 1, 3},
    {"gpt2 cpu adamw", "", 1, 1},
    {"gpt2 cpu adamw", "", 1, 3},
    {"llama3 cpu ac adamw", "", 1, 1},
    {"llama3 cpu bf16 ac adamw", "", 1, 3},
    {"gpt2 cpu bf16 ac adamw", "", 1, 3},
    {"gpt2 cpu bf16 adamw", "", 1, 1},
    {"llama3 cpu bf16 ac adamw dump",
     "[ac]\nmode = op\n[dump]\nsteps = 1\nwhat = parameters gradients tokens logits\nvalues = *.n1 "
     "*.y\n",
     1, 3},
    {"llama3 cpu adamw dump", "[dump]\nsteps = 1\nwhat = parameters gradients\nvalues = *\n", 1, 1},
    {"llama3 cpu adamw oddities", "", 1, 1},
    {"llama3 cpu bf16 adamw oddities", "", 1, 3},
    {"llama3 cpu fsdp adamw oddities", "", 2, 3},
    {"llama3 cpu sample adamw", "[sample]\nprompt = a\n", 1, 1},
    {"llama3 cpu bf16 tp fsdp ac adamw", "[tp]\ndegree = 2\n", 4, 3},
    {"llama3 cpu fsdp tp adamw", "[tp]\ndegree = 2\n[fsdp]\nzero = 1\n", 4, 3},
    {"gpt2 cpu fsdp bf16 tp adamw", "[tp]\ndegree = 2\n[fsdp]\nzero = 2\n", 8, 1},
};
/* Other orders of the same tasks. */
static const wanted orders[] = {
    {"llama3 cpu adamw order", "[order]\nahead = 1\n", 1, 3},
    {"llama3 cpu adamw order", "[order]\nstages = 3\n", 1, 3},
    {"gpt2 cpu bf16 ac adamw order", "[order]\nahead = 2\nstages = 2\n", 1, 5},
    {"llama3 cpu bf16 ac adamw order", "[order]\nahead = 9\nstages = 3\n", 1, 4},
    {"llama3 cpu bf16 tp fsdp ac adamw order", "[tp]\ndegree = 2\n[order]\nahead = 2\nstages = 3\n",
     4, 4},
    {"llama3 cpu bf16 adamw order", "[order]\nstages = 2\nmixed = yes\n", 1, 4},
    {"llama3 cpu sample adamw order",
     "[sample]\nprompt = a\n[order]\nstages = 2\nahead = 1\nswap = yes\n", 1, 3},
    /* a backward right behind its forward gathers first what that has in its middle */
    {"llama3 cpu fsdp adamw pp",
     "[fsdp]\nreplicate = 2\ntwo_level = micro_batch\nreshard = yes\n[pp]\ndegree = "
     "1\nvirtual_stages = 2\nsplit = 0\n",
     4, 3},
    {"llama3 cpu adamw oddities order", "[order]\nahead = 3\nstages = 2\n", 1, 3},
};
enum { ORDERS = sizeof orders / sizeof orders[0] };

enum { RUNS = sizeof runs / sizeof runs[0] };

static bool touches_alike(const weft_lowered *l, const weft_program *p, int64_t a, int64_t b)
{
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->list[i].n_ins + p->list[i].n_outs; k++) {
            int buffer = p->list[i].buffers[k];
            if (buffer >= 0 && weft_buffer_offset(l, &l->buffers[buffer], a) !=
                                   weft_buffer_offset(l, &l->buffers[buffer], b))
                return false;
        }
    return true;
}

/* What is said to lie in the same places does, and nothing else. */
static void check_alike(const weft_lowered *l, int64_t micro_batches)
{
    for (int a = 0; a < l->n_programs; a++) {
        const weft_program *p = &l->programs[a];
        for (int64_t m = 0; p->like && m < micro_batches; m++) {
            int64_t first = 0;
            while (!touches_alike(l, p, first, m))
                first++;
            assert_int_equal(p->like[m], first);
        }
        assert_true(!p->like == !weft_part_is_micro(p->part));
    }
}

static void check_programs(const plan_run *p, const char *name, uint64_t seed)
{
    for (int m = 0; m < WEFT_MODES; m++) {
        weft_text wrong = {0};
        const weft_lowered *l = p->plan->lowered[m];
        if (l && !symbolic_run(l, p->plan->micro_batches, 2, seed, &wrong))
            fail_msg("%s, mode %d: %s", name, m, weft_text_get(&wrong));
        weft_text_release(&wrong);
        if (l)
            check_alike(l, m == WEFT_MODE_TRAIN ? p->plan->micro_batches : 1);
    }
}

static void everything_reads_what_it_should(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; i++) {
        plan_run p;
        start(&p, &runs[i], "");
        check_programs(&p, runs[i].plugins, 1);
        plan_run_release(&p);
    }
}

/* Whatever the schedule runs between two programs of a micro-batch. */
static void other_orders_read_what_they_should(void **state)
{
    (void)state;
    for (int i = 0; i < ORDERS; i++)
        for (int plain = 0; plain < 2; plain++) {
            plan_run p;
            start(&p, &orders[i], plain ? "[cpu]\nkernels = plain\nqueues = adversarial\n" : "");
            const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
            check_programs(&p, orders[i].rest, 1 + (uint64_t)plain);
            assert_int_equal(check_places(l->buffers, l->n_buffers, l->n_positions, l->arena_bytes),
                             l->live_peak);
            plan_run_release(&p);
        }
}

/* ---- lists with gradients of weights apart ---- */

static void write_lists(char *name, const char *tasks)
{
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_true(dprintf(fd, "rank 0: begin %s step_end update\n", tasks) > 0);
    close(fd);
}

/* Two stages of one rank, as at the turn of a V. A product of the second stage reads what a norm of
 * the first one does; the last to read it is W of the second or I of the first, as the list has it.
 */
static void the_last_reader_is_the_list_s(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "0F0 1F0 1I0 1W0 0I0 0W0 0F1 1F1 1I1 1W1 0I1 0W1",
        "0F0 1F0 1I0 0I0 1W0 0W0 0F1 1F1 1I1 0I1 0W1 1W1",
        "0F0 0F1 1F0 1I0 1F1 1W0 1I1 1W1 0I0 0W0 0I1 0W1",
        "0F0 0F1 1F0 1F1 1I0 1I1 0I0 1W0 0I1 0W0 1W1 0W1",
        "0F0 1F0 0F1 1I0 1W0 1F1 0I0 1I1 0W0 1W1 0I1 0W1",
    };
    static const char *const plugins[] = {"llama3 cpu reach adamw pp",
                                          "llama3 cpu bf16 reach ac adamw pp"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (size_t k = 0; k < 2 * sizeof plugins / sizeof plugins[0]; k++) {
            const wanted w = {plugins[k / 2], k < 2 ? "" : "[ac]\nmode = full\n", 1, 2};
            char name[] = "/tmp/weft-lists-XXXXXX", text[256];
            write_lists(name, lists[i]);
            snprintf(text, sizeof text,
                     "[pp]\ndegree = 1\nvirtual_stages = 2\ndefer = all\nschedule = %s\n%s", name,
                     k % 2 ? "[cpu]\nkernels = plain\nqueues = adversarial\n" : "");
            plan_run p;
            start(&p, &w, text);
            unlink(name);
            check_programs(&p, lists[i], 1 + k);
            plan_run_release(&p);
        }
}

static void check_equal(const weft_plan *a, const weft_plan *b)
{
    assert_int_equal(a->states.bytes, b->states.bytes);
    for (int m = 0; m < WEFT_MODES; m++) {
        const weft_lowered *l = a->lowered[m], *k = b->lowered[m];
        assert_true(!l == !k);
        if (!l)
            continue;
        assert_int_equal(l->arena_bytes, k->arena_bytes);
        assert_int_equal(l->n_buffers, k->n_buffers);
        for (int i = 0; i < l->n_buffers; i++) {
            assert_int_equal(l->buffers[i].base, k->buffers[i].base);
            assert_int_equal(l->buffers[i].offset, k->buffers[i].offset);
            assert_int_equal(l->buffers[i].bytes, k->buffers[i].bytes);
        }
    }
}

/* Also where they hold parts of other extents, or nothing. Stages are the outermost axis. */
static void ranks_of_a_stage_lay_memory_out_alike(void **state)
{
    static const struct {
        wanted run;
        int stages;
    } cases[] = {
        {{"llama3 cpu fsdp adamw", "", 3, 1}, 1},
        {{"llama3 cpu fsdp adamw", "", 5, 1}, 1}, /* of 16 the last has none */
        {{"llama3 cpu bf16 tp fsdp ac adamw", "[tp]\ndegree = 4\n", 12, 2}, 1},
        {{"gpt2 cpu bf16 fsdp adamw", "[fsdp]\nzero = 1\n", 3, 2}, 1},
        {{"llama3 cpu cp fsdp adamw", "[cp]\ndegree = 3\n", 6, 1}, 1},
        {{"llama3 cpu fsdp pp adamw", "[pp]\ndegree = 3\n", 9, 2}, 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int n = cases[i].run.ranks / cases[i].stages;
        for (int first = 0; first < cases[i].run.ranks; first += n) {
            plan_run one;
            start_rank(&one, &cases[i].run, first, "");
            for (int rank = first + 1; rank < first + n; rank++) {
                plan_run other;
                start_rank(&other, &cases[i].run, rank, "");
                check_equal(one.plan, other.plan);
                plan_run_release(&other);
            }
            plan_run_release(&one);
        }
    }
}

/* As many as are on their way, and no more than the schedule has them. */
static void slots_are_counted(void **state)
{
    (void)state;
    for (int ahead = 0; ahead < 6; ahead++) {
        char text[64];
        snprintf(text, sizeof text, "[order]\nahead = %d\nstages = 2\n", ahead);
        plan_run p;
        start(&p, &(wanted){"llama3 cpu adamw order", text, 1, 4}, "");
        const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
        int most = 0;
        for (int i = 0; i < l->n_slots; i++) {
            const weft_slots *s = &l->slots[i];
            most = s->n > most ? s->n : most;
            assert_int_equal(l->buffers[s->buffer].bytes, s->n * s->bytes);
        }
        assert_int_equal(most, ahead == 0 ? 0 : ahead < 4 ? ahead + 1 : 4);
        assert_int_equal(l->inputs.n, ahead < 3 ? ahead + 2 : 4); /* the next come early */
        assert_int_equal(weft_lowered_inputs(l), l->inputs.n * l->input_bytes);
        plan_run_release(&p);
    }
}

/* However many micro-batches there are: one's inputs come while those of the other are read. */
static void inputs_take_two_slots(void **state)
{
    (void)state;
    for (int micro_batches = 1; micro_batches < 40; micro_batches += 19) {
        plan_run p;
        start(&p, &(wanted){"llama3 cpu adamw", "", 1, micro_batches}, "");
        const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
        assert_int_equal(l->inputs.n, micro_batches > 1 ? 2 : 1);
        assert_int_equal(p.plan->lowered[WEFT_MODE_EVALUATE]->inputs.n, 1);
        for (int i = 0; i < micro_batches; i++)
            assert_int_equal(weft_lowered_program(l, WEFT_PART_F, 0)->like[i], i % 2);
        plan_run_release(&p);
    }
}

static void bad_schedules_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *wrong, *error;
    } cases[] = {
        {"twice", "schedule: rank 0, task 2 (0F0) is there twice"},
        {"first", "schedule: rank 0, task 3 (0B0) is there twice: it is also rank 0, task 1"}};
    for (size_t i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "[train]\nsteps = 3\nseq_len = 8\nglobal_batch = 4\nmicro_batch = 2\n[llama3]\n"
                 "%s[order]\nwrong = %s\n",
                 sizes, cases[i].wrong);
        plan_run p;
        assert_int_equal(
            plan_run_init(&p, "llama3 cpu adamw order", text, &(weft_plan_options){.ranks = 1}),
            WEFT_ERR_INPUT);
        const char *said = plan_run_errors(&p);
        if (!strstr(said, cases[i].error) || !strstr(said, "the schedule is that of plugin order"))
            fail_msg("%s", said);
        plan_run_release(&p);
    }
}

/* With plain kernels every sum can grow in place, on two queues every order that the waits allow is
 * legal. */
static void plain_and_out_of_order(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; i++) {
        plan_run p;
        start(&p, &runs[i], "[cpu]\nkernels = plain\nqueues = adversarial\n");
        int second = 0;
        const weft_program *backward =
            weft_lowered_program(p.plan->lowered[WEFT_MODE_TRAIN], WEFT_PART_B, 0);
        for (int k = 0; k < backward->n; k++) {
            second += backward->list[k].queue == 1;
            if (backward->list[k].kind == WEFT_COLLECTIVE) /* all ranks enter them in one order */
                assert_int_equal(backward->list[k].queue, 0);
        }
        assert_true(second > 0);
        for (uint64_t seed = 1; seed <= 3; seed++)
            check_programs(&p, runs[i].plugins, seed);
        plan_run_release(&p);
    }
}

static void real_plans_lose_little(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; i++) {
        plan_run p;
        start(&p, &runs[i], "");
        for (int m = 0; m < WEFT_MODES; m++) {
            const weft_lowered *l = p.plan->lowered[m];
            if (!l)
                continue;
            assert_int_equal(check_places(l->buffers, l->n_buffers, l->n_positions, l->arena_bytes),
                             l->live_peak);
            if (l->arena_bytes > l->live_peak + l->live_peak * 3 / 100)
                fail_msg("%s: %lld of %lld bytes are lost", runs[i].plugins,
                         (long long)(l->arena_bytes - l->live_peak), (long long)l->arena_bytes);
        }
        plan_run_release(&p);
    }
}

static void sums_grow_in_place(void **state)
{
    (void)state;
    plan_run p;
    start(&p, &runs[1], "[cpu]\nkernels = plain\n");
    const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    int adding = 0, accumulations = 0;
    for (int i = 0; i < weft_lowered_program(l, WEFT_PART_B, 0)->n; i++) {
        const weft_instruction *in = &weft_lowered_program(l, WEFT_PART_B, 0)->list[i];
        adding += in->accumulate;
        accumulations += strcmp(in->node->op->name, "accumulate") == 0;
    }
    assert_true(adding >= p.plan->graphs[WEFT_MODE_TRAIN]->n_parameters);
    assert_int_equal(accumulations, 0);
    for (int i = 0; i < weft_lowered_program(l, WEFT_PART_UPDATE, 0)->n; i++)
        assert_int_not_equal(weft_lowered_program(l, WEFT_PART_UPDATE, 0)->list[i].kind,
                             WEFT_COPY); /* states are updated where they lie */
    plan_run_release(&p);
}

/* ---- the checker itself ---- */

static bool still_right(const plan_run *p)
{
    weft_text wrong = {0};
    bool ok = symbolic_run(p->plan->lowered[WEFT_MODE_TRAIN], p->plan->micro_batches, 2, 1, &wrong);
    assert_true(ok || wrong.size > 0);
    weft_text_release(&wrong);
    return ok;
}

static void checker_sees_overlaps(void **state)
{
    (void)state;
    plan_run p;
    start(&p, &runs[1], "");
    weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    int tried = 0, seen = 0;
    uint64_t rolls = 0;
    while (tried < 60) {
        weft_buffer *a = &l->buffers[roll(3, &rolls, (uint64_t)l->n_buffers)],
                    *b = &l->buffers[roll(3, &rolls, (uint64_t)l->n_buffers)];
        /* b is made while a waits for a reader */
        if (a->base != WEFT_BASE_ARENA || b->base != WEFT_BASE_ARENA || !a->value ||
            a->first >= b->first || b->first >= a->last || a->last > l->n_positions - 1)
            continue;
        int64_t offset = b->offset;
        b->offset = a->offset;
        seen += !still_right(&p);
        b->offset = offset;
        tried++;
    }
    assert_true(still_right(&p));
    assert_int_equal(seen, tried);
    plan_run_release(&p);
}

static void checker_sees_wrong_sums(void **state)
{
    (void)state;
    plan_run p;
    start(&p, &runs[1], "");
    weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            weft_instruction *in = &l->programs[a].list[i];
            if (in->accumulate) {
                in->accumulate = false;
                assert_false(still_right(&p));
                in->accumulate = true;
            }
            if (in->kind == WEFT_ZERO_FILL) {
                in->kind = WEFT_OBSERVE;
                assert_false(still_right(&p));
                in->kind = WEFT_ZERO_FILL;
            }
        }
    assert_true(still_right(&p));
    plan_run_release(&p);
}

static void checker_sees_missing_waits(void **state)
{
    (void)state;
    plan_run p;
    start(&p, &runs[0], "[cpu]\nqueues = adversarial\n");
    weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++)
            l->programs[a].list[i].n_waits = 0;
    assert_false(still_right(&p));
    plan_run_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lifetimes),
        cmocka_unit_test(no_buffers),
        cmocka_unit_test(same_plan_twice),
        cmocka_unit_test(everything_reads_what_it_should),
        cmocka_unit_test(other_orders_read_what_they_should),
        cmocka_unit_test(the_last_reader_is_the_list_s),
        cmocka_unit_test(ranks_of_a_stage_lay_memory_out_alike),
        cmocka_unit_test(slots_are_counted),
        cmocka_unit_test(inputs_take_two_slots),
        cmocka_unit_test(bad_schedules_are_refused),
        cmocka_unit_test(plain_and_out_of_order),
        cmocka_unit_test(real_plans_lose_little),
        cmocka_unit_test(sums_grow_in_place),
        cmocka_unit_test(checker_sees_overlaps),
        cmocka_unit_test(checker_sees_wrong_sums),
        cmocka_unit_test(checker_sees_missing_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
