/* SPDX-License-Identifier: Apache-2.0 */
/* Memory while running: [weft] check = memory finds whoever writes elsewhere or not at all, what is
 * planned is what is allocated, and a pass that breaks a graph is named with a file that shows the
 * graph before. */
#include "../../lib/plan_run.h"
#include "execute/control.h"
#include "execute/run.h"
#include "forecast/forecast.h"

#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>
/* last: it needs the headers above */
#include <cmocka.h>

static const char train[] = "[train]\nsteps = 2\nseq_len = 8\nglobal_batch = 6\nmicro_batch = "
                            "2\neval_every = 1\nloss_chunk = 8\n";
static const char sizes[] = "n_layers = 2\ndim = 12\nn_heads = 2\nvocab_size = 50\n";

typedef struct started {
    plan_run p;
    weft_device device; /* the plan's, counting */
    weft_run *run;
} started;

static const weft_device *real;
static size_t allocated;

static weft_status counting_alloc(void *self, size_t bytes, void **memory, weft_error *err)
{
    allocated += bytes;
    return real->alloc(self, bytes, memory, err);
}

/* more: from inside [weft] on. */
static void start(started *s, const char *plugins, const char *more)
{
    plan_run_start(&s->p, plugins, more, &(weft_plan_options){.ranks = 1});
    s->p.host.exchange = weft_host_exchange;
    real = s->p.plan->device;
    s->device = *real;
    s->device.alloc = counting_alloc;
    s->device.peak = NULL; /* measuring takes long */
    s->p.plan->device = &s->device;
    allocated = 0;
    s->run = NULL;
    if (weft_plugins_open(s->p.plugins, &s->p.err) ||
        weft_run_create(s->p.plan, &s->p.host, &s->run, &s->p.err))
        fail_msg("starting: %s", plan_run_errors(&s->p));
}

static weft_status go(started *s)
{
    static const volatile sig_atomic_t never;
    return weft_run_train(s->run, &never, &s->p.err);
}

static void end(started *s)
{
    weft_run_destroy(s->run);
    weft_plugins_close(s->p.plugins);
    plan_run_release(&s->p);
}

static const char *guarded(const char *model, const char *more)
{
    static char text[2048];
    snprintf(text, sizeof text, "check = memory\n%s[%s]\n%s%s", train, model, sizes, more);
    return text;
}

/* ---- planned is used ---- */

/* First of all tests: a process' high-water mark never falls. */
static void planned_is_what_it_takes(void **state)
{
    (void)state;
    started s;
    size_t base = weft_peak_bytes();
    start(&s, "llama3 cpu adamw",
          "threads = 2\n[train]\nsteps = 2\nseq_len = 128\nglobal_batch = 4\nmicro_batch = "
          "2\neval_every = 2\n"
          "[llama3]\nn_layers = 4\ndim = 384\nn_heads = 6\nn_kv_heads = 2\nffn_dim = "
          "1024\nvocab_size = 4096\n");
    int64_t parameters = weft_plan_parameters(s.p.plan);
    assert_true(parameters > 8000000 && parameters < 12000000);
    const weft_plan *plan = s.p.plan;
    int64_t arena = 0;
    for (int m = 0; m < WEFT_MODES; m++)
        if (plan->lowered[m] && plan->lowered[m]->arena_bytes > arena)
            arena = plan->lowered[m]->arena_bytes;
    assert_int_equal(s.run->held.arena, arena);
    assert_int_equal(allocated, s.run->held.arena + plan->states.bytes + s.run->held.micro_inputs +
                                    s.run->held.step_inputs);
    const weft_batch_bytes held = s.run->loader.batch[0]->bytes, /* and those of the next step */
        evaluated = weft_lowered_batch(plan->lowered[WEFT_MODE_EVALUATE], 1);
    assert_int_equal(weft_plan_bytes(plan),
                     allocated + 2 * (held.step + held.micro) + evaluated.step + evaluated.micro);
    if (go(&s))
        fail_msg("%s", plan_run_errors(&s.p));
    size_t used = weft_peak_bytes() - base, planned = weft_plan_bytes(plan);
    print_message("# %zu bytes planned, %zu used\n", planned, used);
    assert_true(used >= allocated / 2); /* it is measured at all */
    assert_true(used <= planned + planned / 20 + (64u << 20));
    end(&s);
}

/* ---- the guard ---- */

static void all_is_well(void **state)
{
    (void)state;
    static const char *const plugins[][2] = {{"llama3", "llama3 cpu adamw"},
                                             {"gpt2", "gpt2 cpu bf16 ac adamw"},
                                             {"llama3", "llama3 cpu bf16 adamw oddities"}};
    static const char *const more[] = {"", "[cpu]\nkernels = plain\n",
                                       "[cpu]\nqueues = adversarial\n"};
    for (size_t i = 0; i < sizeof plugins / sizeof plugins[0]; i++)
        for (size_t k = 0; k < sizeof more / sizeof more[0]; k++) {
            started s;
            start(&s, plugins[i][1], guarded(plugins[i][0], more[k]));
            if (go(&s))
                fail_msg("%s %s: %s", plugins[i][1], more[k], plan_run_errors(&s.p));
            end(&s);
        }
}

static void assert_fails(started *s, const char *const *words)
{
    assert_int_equal(go(s), WEFT_ERR_INTERNAL);
    const char *text = plan_run_errors(&s->p);
    for (; *words; words++)
        if (!strstr(text, *words))
            fail_msg("\"%s\" is not in: %s", *words, text);
}

static void too_far(void **state)
{
    (void)state;
    started s;
    start(&s, "llama3 cpu adamw overrun", guarded("llama3", ""));
    assert_fails(&s, (const char *const[]){"check = memory", "silu_mul_too_far of overrun",
                                           "b0.a = silu_mul, block 0, step 1",
                                           "wrote outside its results", NULL});
    end(&s);
}

static void too_short(void **state)
{
    (void)state;
    started s;
    start(&s, "llama3 cpu adamw unwritten", guarded("llama3", ""));
    assert_fails(&s, (const char *const[]){"silu_mul_too_short of unwritten", "b0.a = silu_mul",
                                           "did not write element", "of result 0", NULL});
    end(&s);
}

static void nobody_wrote(void **state)
{
    (void)state;
    started s;
    start(&s, "llama3 cpu adamw", guarded("llama3", ""));
    weft_program *begin =
        weft_lowered_program(s.p.plan->lowered[WEFT_MODE_TRAIN], WEFT_PART_BEGIN, 0);
    int dropped = 0;
    for (int i = 0; i < begin->n; i++)
        if (begin->list[i].kind == WEFT_ZERO_FILL && begin->list[i].node->outs[0]->n_dims == 2) {
            begin->list[i--] = begin->list[--begin->n];
            dropped++;
        }
    assert_true(dropped > 0);
    assert_fails(&s, (const char *const[]){"reads what nobody wrote", "linear_dw", NULL});
    end(&s);
}

static bool reads(const weft_value *result, const weft_value *operand)
{
    for (int i = 0; i < result->node->n_ins; i++)
        if (result->node->ins[i] == operand)
            return true;
    return false;
}

/* Two values that wait for the backward get one memory: the second takes the place of the first. */
static bool is_saved(const weft_buffer *b)
{
    return b->kind == WEFT_CLASS_SAVED && b->base == WEFT_BASE_ARENA;
}

/* Is the other made while this one is held, by who does not read it, and there when it is read
 * last?
 */
static bool is_in_the_way(const weft_buffer *b, const weft_buffer *other)
{
    return is_saved(other) && other->bytes == b->bytes && other->first > b->first &&
           other->first < b->last && other->last >= b->last && !reads(other->value, b->value);
}

static void other_was_written(void **state)
{
    (void)state;
    started s;
    start(&s, "llama3 cpu adamw", guarded("llama3", ""));
    weft_lowered *l = s.p.plan->lowered[WEFT_MODE_TRAIN];
    weft_buffer *first = NULL, *second = NULL;
    for (int i = 0; i < l->n_buffers && !second; i++)
        for (int k = 0; k < l->n_buffers && !second; k++)
            if (is_saved(&l->buffers[i]) && is_in_the_way(&l->buffers[i], &l->buffers[k])) {
                first = &l->buffers[i];
                second = &l->buffers[k];
            }
    assert_non_null(second);
    second->offset = first->offset;
    assert_fails(&s, (const char *const[]){"reads ", first->value->name, "in whose memory there is",
                                           second->value->name, NULL});
    end(&s);
}

static bool drop_maker(weft_program *p, int buffer)
{
    for (int i = 0; i < p->n; i++) {
        const weft_instruction *in = &p->list[i];
        if (in->n_outs != 1 || in->buffers[in->n_ins] != buffer)
            continue;
        memmove(&p->list[i], &p->list[i + 1], (size_t)(--p->n - i) * sizeof *p->list);
        return true;
    }
    return false;
}

static bool is_small(const weft_buffer *b)
{
    return b->base == WEFT_BASE_ARENA && b->value && weft_dtype_is_float(b->value->dtype) &&
           b->bytes <= WEFT_MARGIN_BYTES;
}

/* Training leaves something alive where the evaluation has a buffer of the same number, which
 * nobody writes: in the margin, so that nothing else comes there. It may be as short as one
 * element. */
static void another_mode_wrote(void **state)
{
    (void)state;
    started s;
    start(&s, "llama3 cpu adamw", guarded("llama3", ""));
    weft_lowered *training = s.p.plan->lowered[WEFT_MODE_TRAIN],
                 *evaluation = s.p.plan->lowered[WEFT_MODE_EVALUATE];
    weft_program *forward = weft_lowered_program(evaluation, WEFT_PART_F, 0);
    weft_buffer *left = NULL, *unwritten = NULL;
    for (int i = 0; i < training->n_buffers && i < evaluation->n_buffers && !unwritten; i++) {
        left = &training->buffers[i];
        if (is_small(left) && is_small(&evaluation->buffers[i]) && drop_maker(forward, i))
            unwritten = &evaluation->buffers[i];
    }
    assert_non_null(unwritten);
    left->offset = unwritten->offset = s.run->held.arena;
    left->first = 0;
    left->last = INT_MAX;
    assert_fails(&s, (const char *const[]){"reads what nobody wrote: element 0 of", NULL});
    end(&s);
}

/* ---- a pass that breaks the graph ---- */

static void breaks(const char *stage, bool placed)
{
    plan_run p;
    char dir[] = "/tmp/weft-guard-XXXXXX", path[64], text[1024], broken[96], *file;
    size_t size;
    assert_non_null(mkdtemp(dir));
    snprintf(text, sizeof text, "dir = %s\n%s[llama3]\n%s[breaker]\nstage = %s\n", dir, train,
             sizes, stage);
    snprintf(path, sizeof path, "%s/before-breaker.graph", dir);
    assert_int_equal(
        plan_run_init(&p, "llama3 cpu adamw breaker", text,
                      &(weft_plan_options){.ranks = 1, .broken = weft_plan_keep_broken}),
        WEFT_ERR_PLUGIN);
    assert_null(p.plan);
    const char *errors = plan_run_errors(&p);
    snprintf(broken, sizeof broken, "plugin breaker left a broken graph (stage %s): b1.h = add",
             stage);
    assert_non_null(strstr(errors, broken));
    assert_non_null(strstr(errors, "is not listed as a use of b0.h"));
    assert_non_null(strstr(errors, path));
    /* The file is the sound graph as it was. */
    assert_int_equal(weft_read_file(path, &file, &size, &p.err), WEFT_OK);
    assert_non_null(strstr(file, placed ? "graph train placed\n" : "graph train\n"));
    assert_non_null(strstr(file, "%b1.h:"));
    weft_free(file);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    plan_run_release(&p);
}

static void graph_pass_breaks(void **state)
{
    (void)state;
    breaks("graph", false);
}

static void joint_pass_breaks(void **state)
{
    (void)state;
    breaks("joint", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_is_what_it_takes),
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(too_far),
        cmocka_unit_test(too_short),
        cmocka_unit_test(nobody_wrote),
        cmocka_unit_test(other_was_written),
        cmocka_unit_test(another_mode_wrote),
        cmocka_unit_test(graph_pass_breaks),
        cmocka_unit_test(joint_pass_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
