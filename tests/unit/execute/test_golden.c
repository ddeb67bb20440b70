/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models against PyTorch and Transformers, whose numbers are in tests/golden: loss, logits,
 * the gradient of every parameter, steps of AdamW. */
#include "../../lib/model_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static const struct {
    const char *file, *model;
} cases[] = {{"llama", "llama3"},
             {"llama_tied", "llama3"},
             {"llama_scaled", "llama3"},
             {"llama_packed", "llama3"},
             {"gpt2", "gpt2"},
             {"qwen3", "qwen3"},
             {"qwen3_moe", "moe qwen3"},
             {"mixtral", "moe mixtral"},
             {"deep", "moe deep"},
             {"deepseek3", "moe deepseek3"},
             {"deepseek3_plain", "moe deepseek3"},
             {"deepseek3_mtp", "moe deepseek3"}};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- a golden file and a run of its model ---- */

typedef struct golden {
    safetensors *file;
    const char *ini;
    int64_t samples, seq_len;
    model_run m;
} golden;

static const weft_safetensor *tensor(const golden *g, const char *name)
{
    const weft_safetensor *t = safetensors_find(g->file, name);
    if (!t)
        fail_msg("no tensor %s", name);
    return t;
}

static double number(const golden *g, const char *name, int64_t i)
{
    const weft_safetensor *t = tensor(g, name);
    assert_true(i < safetensor_count(t));
    return safetensor_get(t, i);
}

static void open_golden(golden *g, const char *name)
{
    weft_error err = {0};
    const char *tree = getenv("WEFT_TREE");
    char *path = weft_format("%s/tests/golden/%s.safetensors", tree ? tree : ".", name);
    memset(g, 0, sizeof *g);
    if (safetensors_read(path, &g->file, &err))
        fail_msg("%s", weft_error_text(&err));
    g->ini = safetensors_metadata(g->file, "ini");
    assert_non_null(g->ini);
    g->samples = tensor(g, "ids")->size[0];
    g->seq_len = tensor(g, "ids")->size[1];
    weft_free(path);
}

/* plugins: after the device and the model. head: lines of [weft]; rest: sections. */
static void start(golden *g, const char *model, int64_t batch, const char *plugins,
                  const char *head, const char *rest)
{
    char *list = weft_format("cpu %s %s adamw", model, plugins);
    char *ini = weft_format("%s[train]\nseq_len = %lld\nglobal_batch = %lld\n%s%s", head,
                            (long long)g->seq_len, (long long)batch, g->ini, rest);
    assert_non_null(list);
    assert_non_null(ini);
    model_run_start(&g->m, list, ini);
    model_run_set_all(&g->m, g->file, "weight");
    const weft_safetensor *t;
    for (int i = 0; (t = safetensors_at(g->file, i)); i++)
        if (strncmp(t->name, "state/", 6) == 0)
            model_run_set(&g->m, t->name + 6, t);
    model_run_feed(&g->m, &(model_samples){.ids = tensor(g, "ids")->data,
                                           .labels = tensor(g, "labels")->data,
                                           .positions = tensor(g, "positions")->data,
                                           .segments = tensor(g, "segments")->data,
                                           .samples = g->samples});
    weft_free(list);
    weft_free(ini);
}

static void close_golden(golden *g)
{
    model_run_release(&g->m);
    safetensors_destroy(g->file);
}

/* One step of a case; the caller closes. */
static void run_case(golden *g, int c, const char *plugins, const char *head, const char *rest)
{
    open_golden(g, cases[c].file);
    start(g, cases[c].model, g->samples, plugins, head, rest);
    model_run_train(&g->m);
}

/* ---- how far apart ---- */

/* Gradients that are zero but for rounding (a key's bias shifts all scores alike) have no relative
 * error: a part of the whole gradient's norm is always free. */
typedef struct bounds {
    double loss;   /* relative */
    double tensor; /* |a - b| <= tensor * |b| + rest * |all gradients| */
    double rest;
    bool each; /* also for every single number */
} bounds;

/* The files hold f32, half a unit in the last place; the rest is rounding in f64. */
static const bounds f64_bounds = {.loss = 1e-12, .tensor = 0x1p-24, .rest = 1e-13, .each = true};
/* 4 times the rounding of ten ops in each of two blocks and the head, sqrt(30), and of sums over up
 * to 36 tokens, sqrt(36). */
static const bounds f32_bounds = {.loss = 5e-7, .tensor = 4 * 11.5 * 0x1p-24, .rest = 0x1p-24};
/* The same depth in bf16, whose sums are f32; a tensor within it has a cosine above 0.996. */
static const bounds bf16_bounds = {.loss = 0x1p-8, .tensor = 4 * 5.5 * 0x1p-8, .rest = 0x1p-12};

static double norm_of(const weft_safetensor *t)
{
    double sum = 0;
    for (int64_t i = 0; i < safetensor_count(t); i++)
        sum += safetensor_get(t, i) * safetensor_get(t, i);
    return sqrt(sum);
}

static double norm_of_all(const golden *g, const char *prefix)
{
    double sum = 0;
    const weft_safetensor *t;
    for (int i = 0; (t = safetensors_at(g->file, i)); i++)
        if (strncmp(t->name, prefix, strlen(prefix)) == 0)
            sum += norm_of(t) * norm_of(t);
    return sqrt(sum);
}

static void compare(model_numbers a, const weft_safetensor *b, double all, const bounds *limit)
{
    double difference = 0, norm = norm_of(b);
    assert_int_equal(a.n, safetensor_count(b));
    for (int64_t i = 0; i < a.n; i++) {
        double x = a.list[i], y = safetensor_get(b, i);
        difference += (x - y) * (x - y);
        if (limit->each && !(fabs(x - y) <= limit->tensor * fabs(y) + limit->rest * all))
            fail_msg("%s[%lld] is %.12g, not %.12g", b->name, (long long)i, x, y);
    }
    difference = sqrt(difference);
    if (!(difference <= limit->tensor * norm + limit->rest * all))
        fail_msg("%s is off by %.3g of its norm, %.3g of all gradients' norm", b->name,
                 difference / norm, difference / all);
}

static void assert_near(const char *name, double a, double b, double relative)
{
    if (!(fabs(a - b) <= relative * fabs(b)))
        fail_msg("%s is %.15g, not %.15g", name, a, b);
}

/* All trained tensors, either their gradients or what they are now. */
static void compare_all(golden *g, const char *prefix, bool gradients, const bounds *limit)
{
    double all = norm_of_all(g, prefix);
    for (int i = 0; i < model_run_parameters(&g->m); i++) {
        const char *name = model_run_name(&g->m, i);
        char *key = weft_format("%s/%s", prefix, name);
        assert_non_null(key);
        compare(gradients ? model_run_gradient(&g->m, name) : model_run_get(&g->m, name),
                tensor(g, key), all, limit);
        weft_free(key);
    }
}

static double report(const model_run *m, const char *name)
{
    for (int i = 0; i < m->run->view.n_reports; i++)
        if (strcmp(m->run->view.reports[i].name, name) == 0)
            return m->run->view.reports[i].value;
    fail_msg("the step reports no %s", name);
    return 0;
}

/* Those of further heads, each over its own labels. */
static void compare_terms(golden *g, const bounds *limit)
{
    const weft_safetensor *t;
    for (int i = 0; (t = safetensors_at(g->file, i)); i++)
        if (strncmp(t->name, "loss/", 5) == 0) {
            char *name = weft_format("loss.%s", t->name + 5);
            assert_non_null(name);
            assert_near(name, report(&g->m, name), safetensor_get(t, 0), limit->loss);
            weft_free(name);
        }
}

static void compare_step(golden *g, const bounds *limit)
{
    assert_near("loss", g->m.run->view.loss, number(g, "loss", 0), limit->loss);
    assert_int_equal(g->m.run->view.tokens, (int64_t)number(g, "tokens", 0));
    assert_near("grad_norm", g->m.run->view.grad_norm, norm_of_all(g, "gradient"), limit->tensor);
    compare_all(g, "gradient", true, limit);
    compare_terms(g, limit);
}

/* ---- tests ---- */

#define PLAIN_F64  "[train]\nsteps = 1\ndtype = f64\n[cpu]\nkernels = plain\n"
#define FAST       "[train]\nsteps = 1\n"
#define ONE_THREAD "threads = 1\n"

/* Every case with these settings. */
static void all_cases(const char *plugins, const char *head, const char *rest, const bounds *limit)
{
    for (int c = 0; c < CASES; c++) {
        golden g;
        print_message("# %s, %s\n", cases[c].file, plugins);
        run_case(&g, c, plugins, head, rest);
        compare_step(&g, limit);
        close_golden(&g);
    }
}

static void plain_f64_is_exact(void **state)
{
    (void)state;
    all_cases("", ONE_THREAD, PLAIN_F64, &f64_bounds);
}

static void f32_is_near(void **state)
{
    (void)state;
    all_cases("", ONE_THREAD, FAST, &f32_bounds);
    all_cases("", ONE_THREAD, FAST "[cpu]\nkernels = plain\n", &f32_bounds);
    all_cases("", "threads = 2\n", FAST, &f32_bounds);
}

static void bf16_is_near(void **state)
{
    (void)state;
    all_cases("bf16", ONE_THREAD, FAST, &bf16_bounds);
    all_cases("bf16", ONE_THREAD, FAST "[cpu]\nproducts = f32\n", &bf16_bounds);
    all_cases("bf16", ONE_THREAD, FAST "[cpu]\nkernels = plain\n", &bf16_bounds);
}

/* Sums over micro-batches are scaled once by the tokens of all of them, and these have different
 * numbers of tokens. */
static void micro_batches_change_nothing(void **state)
{
    (void)state;
    all_cases("", ONE_THREAD, PLAIN_F64 "[train]\nmicro_batch = 1\n", &f64_bounds);
    all_cases("", ONE_THREAD, PLAIN_F64 "[train]\nmicro_batch = 2\n", &f64_bounds);
    all_cases("", ONE_THREAD, FAST "[train]\nmicro_batch = 1\n", &f32_bounds);
    all_cases("bf16", ONE_THREAD, FAST "[train]\nmicro_batch = 1\n", &bf16_bounds);
}

static void recomputing_changes_nothing(void **state)
{
    (void)state;
    all_cases("ac", ONE_THREAD, PLAIN_F64 "[ac]\nmode = full\n", &f64_bounds);
    all_cases("ac", ONE_THREAD,
              PLAIN_F64 "[ac]\nmode = op\n[train]\nmicro_batch = 1\nloss_chunk = 6\n", &f64_bounds);
}

static int count_chunks(const golden *g)
{
    int chunks = 0;
    for (const weft_node *n = weft_graph_first(g->m.plan->graphs[WEFT_MODE_TRAIN]); n; n = n->next)
        chunks = n->chunk >= chunks ? n->chunk + 1 : chunks;
    return chunks;
}

/* Chunks of a head come behind those of the head before it. */
static int count_heads(const golden *g)
{
    int heads = 0;
    while (weft_graph_logits(g->m.plan->graphs[WEFT_MODE_TRAIN], heads))
        heads++;
    return heads;
}

static void chunks_of_the_head_change_nothing(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        golden whole, parts, both;
        run_case(&whole, c, "", ONE_THREAD, PLAIN_F64 "[train]\nloss_chunk = 1000\n");
        const int heads = count_heads(&whole); /* of one chunk each */
        assert_int_equal(heads, strcmp(cases[c].file, "deepseek3_mtp") == 0 ? 3 : 1);
        assert_int_equal(count_chunks(&whole), heads);
        compare_step(&whole, &f64_bounds);
        run_case(&parts, c, "", ONE_THREAD, PLAIN_F64 "[train]\nloss_chunk = 6\n");
        assert_true(count_chunks(&parts) >= 4 * heads);
        compare_step(&parts, &f64_bounds);
        run_case(&both, c, "", ONE_THREAD, FAST "loss_chunk = 4\nmicro_batch = 1\n");
        assert_true(count_chunks(&both) >= 3 * heads);
        compare_step(&both, &f32_bounds);
        close_golden(&whole);
        close_golden(&parts);
        close_golden(&both);
    }
}

static void validation_is_as_the_loss(void **state)
{
    (void)state;
    /* the second: a validation batch that is not full */
    const int64_t batches[] = {2, 3};
    for (int c = 0; c < CASES; c++) {
        for (int i = 0; i < 2; i++) {
            golden g;
            int64_t tokens;
            open_golden(&g, cases[c].file);
            start(&g, cases[c].model, batches[i], "", ONE_THREAD,
                  PLAIN_F64 "[train]\neval_every = 1\n");
            const char *of = safetensors_find(g.file, "validation") ? "validation" : "loss";
            assert_near("validation loss", model_run_evaluate(&g.m, &tokens), number(&g, of, 0),
                        f64_bounds.loss);
            assert_int_equal(tokens, (int64_t)number(&g, "tokens", 0));
            close_golden(&g);
        }
    }
}

/* Of the generate graph, which has one sample and the logits of one place. */
static void compare_logits(golden *g, double relative)
{
    const weft_safetensor *logits = tensor(g, "logits");
    int64_t vocab = logits->size[2];
    double norm = norm_of(logits) / sqrt((double)(g->samples * g->seq_len));
    for (int64_t row = 0; row < g->samples * g->seq_len; row++) {
        model_numbers x = model_run_logits(&g->m, row / g->seq_len, row % g->seq_len);
        double difference = 0;
        assert_int_equal(x.n, vocab);
        for (int64_t i = 0; i < vocab; i++)
            difference += pow(x.list[i] - safetensor_get(logits, row * vocab + i), 2);
        if (!(sqrt(difference) <= relative * norm))
            fail_msg("logits behind place %lld are off by %.3g", (long long)row,
                     sqrt(difference) / norm);
    }
}

static void logits_are_as_pytorch(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        golden g;
        open_golden(&g, cases[c].file);
        char *exact = weft_format(PLAIN_F64 "[sample]\ncontext = %lld\n", (long long)g.seq_len);
        char *fast = weft_format(FAST "[sample]\ncontext = %lld\n", (long long)g.seq_len);
        assert_non_null(exact);
        assert_non_null(fast);
        start(&g, cases[c].model, g.samples, "sample", ONE_THREAD, exact);
        compare_logits(&g, f64_bounds.tensor);
        model_run_release(&g.m);
        start(&g, cases[c].model, g.samples, "sample", ONE_THREAD, fast);
        compare_logits(&g, f32_bounds.tensor);
        weft_free(exact);
        weft_free(fast);
        close_golden(&g);
    }
}

/* ---- larger than the files: several tiles and threads, no dim a multiple of anything ---- */

#define LARGER "[train]\nseq_len = 131\nglobal_batch = 2\n[given]\nvocab_size = 301\n"
static const struct {
    const char *model, *ini;
} larger[] = {
    {"llama3", LARGER "[llama3]\ndim = 66\nn_layers = 2\nn_heads = 6\nn_kv_heads = 2\nhead_dim = "
                      "14\nffn_dim = 171\nvocab_size = 301\n"},
    {"gpt2", LARGER "[gpt2]\ndim = 66\nn_layers = 2\nn_heads = 3\nffn_dim = 171\nvocab_size = "
                    "301\nn_positions = 140\n"},
};
enum { LARGER_MODELS = sizeof larger / sizeof *larger };

static void run_larger(model_run *m, int i, const char *plugins, const char *head, const char *rest)
{
    char *list = weft_format("cpu %s %s adamw", larger[i].model, plugins),
         *ini = weft_format("%s%s%s", head, larger[i].ini, rest);
    assert_non_null(list);
    assert_non_null(ini);
    model_run_start(m, list, ini);
    model_run_train(m);
    weft_free(list);
    weft_free(ini);
}

static double length(model_numbers a, const model_numbers *minus)
{
    double sum = 0;
    for (int64_t i = 0; i < a.n; i++)
        sum += pow(a.list[i] - (minus ? minus->list[i] : 0), 2);
    return sqrt(sum);
}

static void assert_close(model_run *a, model_run *b, const bounds *limit)
{
    double all = b->run->view.grad_norm;
    assert_near("loss", a->run->view.loss, b->run->view.loss, limit->loss);
    assert_near("grad_norm", a->run->view.grad_norm, all, limit->tensor);
    for (int i = 0; i < model_run_parameters(a); i++) {
        model_numbers x = a->gradients[i], y = b->gradients[i];
        assert_int_equal(x.n, y.n);
        if (!(length(x, &y) <= limit->tensor * length(y, NULL) + limit->rest * all))
            fail_msg("the gradient of %s is off by %.3g of its norm, %.3g of all",
                     model_run_name(a, i), length(x, &y) / length(y, NULL), length(x, &y) / all);
    }
}

static void larger_models_are_near_f64(void **state)
{
    (void)state;
    /* as above, with sums over 262 tokens */
    static const bounds wider = {.loss = 5e-7, .tensor = 4 * 21.7 * 0x1p-24, .rest = 0x1p-24};
    for (int i = 0; i < LARGER_MODELS; i++) {
        model_run exact, fast, chunks, half;
        run_larger(&exact, i, "", ONE_THREAD, PLAIN_F64);
        run_larger(&fast, i, "", ONE_THREAD, FAST);
        run_larger(&chunks, i, "", "threads = 2\n", FAST "micro_batch = 1\nloss_chunk = 1\n");
        run_larger(&half, i, "bf16", ONE_THREAD, FAST);
        assert_close(&fast, &exact, &wider);
        assert_close(&chunks, &exact, &wider);
        assert_close(&half, &exact, &bf16_bounds);
        model_run_release(&exact);
        model_run_release(&fast);
        model_run_release(&chunks);
        model_run_release(&half);
    }
}

/* ---- to the last bit ---- */

static void assert_same_numbers(const char *name, model_numbers a, model_numbers b)
{
    assert_int_equal(a.n, b.n);
    for (int64_t i = 0; i < a.n; i++)
        if (memcmp(&a.list[i], &b.list[i], sizeof *a.list) != 0)
            fail_msg("%s[%lld] is %.17g and %.17g", name, (long long)i, a.list[i], b.list[i]);
}

static void assert_same(model_run *a, model_run *b)
{
    for (int i = 0; i < model_run_parameters(a); i++) {
        assert_same_numbers(model_run_name(a, i), a->gradients[i], b->gradients[i]);
        assert_same_numbers(model_run_name(a, i), model_run_get(a, model_run_name(a, i)),
                            model_run_get(b, model_run_name(b, i)));
    }
    assert_true(a->run->view.loss == b->run->view.loss);
    assert_true(a->run->view.grad_norm == b->run->view.grad_norm);
}

/* The same steps in two ways. */
static void same_bits(const char *plugins, const char *head, const char *rest, const char *head_too,
                      const char *rest_too)
{
    for (int c = 0; c < CASES; c++) {
        golden a, b;
        run_case(&a, c, plugins, head, rest);
        run_case(&b, c, plugins, head_too, rest_too);
        assert_same(&a.m, &b.m);
        close_golden(&a);
        close_golden(&b);
    }
    for (int i = 0; i < LARGER_MODELS; i++) {
        model_run a, b;
        run_larger(&a, i, plugins, head, rest);
        run_larger(&b, i, plugins, head_too, rest_too);
        assert_same(&a, &b);
        model_run_release(&a);
        model_run_release(&b);
    }
}

#define THREE "[train]\nsteps = 3\n"

static void runs_repeat_to_the_bit(void **state)
{
    (void)state;
    same_bits("", ONE_THREAD, THREE, ONE_THREAD, THREE);
    same_bits("bf16", ONE_THREAD, THREE "micro_batch = 1\n", ONE_THREAD, THREE "micro_batch = 1\n");
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    same_bits("", ONE_THREAD, THREE, "threads = 2\n", THREE);
    same_bits("bf16", ONE_THREAD, THREE "micro_batch = 1\n", "threads = 2\n",
              THREE "micro_batch = 1\n");
}

/* Two queues, each as far ahead of the other as the waits allow: if a wait is missing, some seed
 * shows it. */
static void queues_change_no_bit(void **state)
{
    (void)state;
    static const struct {
        const char *plugins, *rest;
    } runs[] = {{"", THREE},
                {"", THREE "micro_batch = 1\nloss_chunk = 4\n"},
                {"bf16", THREE "micro_batch = 1\n"}};
    const int seeds = getenv("WEFT_LONG") ? 8 : 2;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int seed = 1; seed <= seeds; seed++) {
            char *rest = weft_format("%s[cpu]\nqueues = adversarial\nadversary_seed = %d\n",
                                     runs[i].rest, seed);
            assert_non_null(rest);
            same_bits(runs[i].plugins, ONE_THREAD, runs[i].rest, ONE_THREAD, rest);
            weft_free(rest);
        }
}

/* Other orders of the same tasks, with slots and stages: backwards are in the order of
 * micro-batches in all of them. (Tied tables are summed in another order where their stages
 * differ.) */
static void orders_change_no_bit(void **state)
{
    (void)state;
    static const struct {
        int stages;
        const char *order;
    } runs[] = {{1, "ahead = 1"}, {2, "ahead = 5"}, {2, "mixed = yes"}};
    const bool all = getenv("WEFT_LONG");
    const char *looked_at = all ? ONE_THREAD "check = memory\n" : ONE_THREAD;
    for (size_t i = all ? 0 : 1; i < sizeof runs / sizeof *runs; i++) {
        char *plain = weft_format(THREE "micro_batch = 1\n[order]\nstages = %d\n", runs[i].stages);
        char *other = plain ? weft_format("%s%s\n", plain, runs[i].order) : NULL;
        assert_non_null(other);
        same_bits("bf16 ac order", looked_at, plain, ONE_THREAD "check = memory\n", other);
        weft_free(plain);
        weft_free(other);
    }
}

/* ---- AdamW ---- */

typedef struct steps {
    golden *g;
    bounds limit;
    int seen;
} steps;

static void compare_update(model_run *m, void *ctx)
{
    steps *s = ctx;
    char *prefix = weft_format("step%d", s->seen + 1);
    assert_non_null(prefix);
    assert_near("loss", m->run->view.loss, number(s->g, "loss", s->seen), s->limit.loss);
    assert_near("grad_norm", report(m, "grad_norm"), number(s->g, "grad_norm", s->seen),
                s->limit.loss);
    assert_near("lr", report(m, "lr"), number(s->g, "lr", s->seen),
                s->limit.each ? 1e-15 : 0x1p-23);
    compare_all(s->g, prefix, false, &s->limit);
    weft_free(prefix);
    s->seen++;
}

static void take_steps(const char *rest, bounds limit)
{
    golden g;
    steps s = {.g = &g, .limit = limit};
    open_golden(&g, "adamw");
    start(&g, "llama3", 2, "", ONE_THREAD, rest);
    g.m.after_step = compare_update;
    g.m.ctx = &s;
    model_run_train(&g.m);
    assert_int_equal(s.seen, 5);
    close_golden(&g);
}

static void adamw_is_as_pytorch(void **state)
{
    (void)state;
    take_steps("[train]\ndtype = f64\n[cpu]\nkernels = plain\n",
               (bounds){.loss = 1e-9, .tensor = 0x1p-24, .rest = 1e-11, .each = true});
    take_steps("[train]\ndtype = f64\nmicro_batch = 1\n",
               (bounds){.loss = 1e-9, .tensor = 0x1p-24, .rest = 1e-11, .each = true});
    /* Where a gradient is nearly nothing, Adam makes a step of its rounding: relative errors of
     * 1e-6 there times lr. */
    take_steps("", (bounds){.loss = 1e-6, .tensor = 1e-5, .rest = 1e-6});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_f64_is_exact),
        cmocka_unit_test(f32_is_near),
        cmocka_unit_test(bf16_is_near),
        cmocka_unit_test(micro_batches_change_nothing),
        cmocka_unit_test(recomputing_changes_nothing),
        cmocka_unit_test(chunks_of_the_head_change_nothing),
        cmocka_unit_test(validation_is_as_the_loss),
        cmocka_unit_test(logits_are_as_pytorch),
        cmocka_unit_test(larger_models_are_near_f64),
        cmocka_unit_test(runs_repeat_to_the_bit),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(queues_change_no_bit),
        cmocka_unit_test(orders_change_no_bit),
        cmocka_unit_test(adamw_is_as_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
