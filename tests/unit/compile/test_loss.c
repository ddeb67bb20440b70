/* SPDX-License-Identifier: Apache-2.0 */
/* Terms of the loss, several heads, what they predict, and logits that a pass has changed: the same
 * in all modes. */
#include "../../lib/graph_text.h"
#include "../../lib/planned.h"
#include "../../lib/sim.h"
#include "../../lib/standard_ops.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

extern const weft_plugin llama3_LTX_plugin;

/* ---- llama3, and what a test does with its graph ---- */

static weft_status cap(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        weft_tensor_set(&call->outs[0], i, 0.1 * tanh(weft_tensor_get(&call->ins[0], i) / 0.1));
    return WEFT_OK;
}

static const weft_op cap_op = {
    .name = "cap", .summary = "a soft cap", .rule = "* -> *", .plain = cap};
static void (*change)(weft_graph *g);

static void build(void *self, weft_graph *g)
{
    llama3_LTX_plugin.contributions[0].graph(self, g);
    if (!weft_graph_status(g) && change)
        change(g);
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build}, {.kind = WEFT_END}};

/* Three parts of the head; joint: two micro-batches, with the backward. */
static weft_status plan(planned *p, weft_mode mode, bool joint, const char *axes,
                        void (*how)(weft_graph *))
{
    static const weft_op *const ops[] = {&cap_op, NULL};
    static weft_plugin model;
    model = llama3_LTX_plugin;
    model.contributions = contributions;
    model.ops = ops;
    change = how;
    planned_spec spec = {.axes = axes,
                         .passes = *axes ? "tp fsdp" : "",
                         .model = &model,
                         .mode = mode,
                         .seq = 12,
                         .chunk = 16,
                         .micro = joint ? 2 : 1,
                         .placed_only = !joint};
    return planned_init(p, &spec);
}

/* Of training the loss, or the report of this name; of validation the sum, or the tokens. */
static double number_of(weft_mode mode, const char *axes, void (*how)(weft_graph *),
                        const char *name)
{
    planned p;
    sim m;
    if (plan(&p, mode, mode == WEFT_MODE_TRAIN, axes, how))
        fail_msg("%s", weft_error_text(&p.err));
    const weft_value *report = name ? planned_report(&p, name) : p.g->loss_report;
    weft_value *v = name ? p.g->tokens : p.g->loss_sum;
    if (mode != WEFT_MODE_TRAIN)
        report = weft_move_to(p.g, v, (weft_layout){0}, NULL, WEFT_FORWARD, "read", NULL);
    assert_non_null(report);
    sim_init(&m, p.g, 1);
    sim_run(&m);
    double x = sim_scalar(&m, report);
    sim_release(&m);
    planned_release(&p);
    return x;
}

static double value_of(weft_mode mode, const char *axes, void (*how)(weft_graph *))
{
    return number_of(mode, axes, how, NULL);
}

/* ---- terms ---- */

static void second_head(weft_graph *g)
{
    weft_add_head(g, weft_graph_find(g, "nf"), weft_graph_find(g, "lm_head.weight"));
}

/* Half of the head's loss once more, part by part. */
static void half_more(weft_graph *g)
{
    static const char *const parts[] = {"head.part.0", "head.part.1", "head.part.2"};
    for (int i = 0; i < 3; i++)
        weft_add_loss(g, NULL, weft_graph_find(g, parts[i]), 0.5, 0);
}

/* The same, where the pass stands elsewhere in the graph. */
static void half_more_from_afar(weft_graph *g)
{
    weft_graph_at(g, weft_graph_find(g, "nf")->node);
    half_more(g);
    weft_add1(g, "cap", NULL, weft_graph_find(g, "b1.y"));
}

/* As many for each micro-batch, whatever is in it. */
static void three_each(weft_graph *g)
{
    weft_value *three = weft_add(g, "constant", NULL, 0, NULL);
    weft_set_real(g, three, "value", 3);
    weft_add_loss(g, NULL, three, 0.25, WEFT_LOSS_PER_MICRO_BATCH);
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fabs(b)))
        fail_msg("%.17g, not %.17g", a, b);
}

static void terms(void **state)
{
    (void)state;
    double one = value_of(WEFT_MODE_TRAIN, "", NULL);
    double sum = value_of(WEFT_MODE_EVALUATE, "", NULL);
    assert_true(one > 1 && sum > 1);
    for (int i = 0; i < 2; i++) {
        const char *axes = i ? "tp=2 dp_shard=2" : "";
        near(value_of(WEFT_MODE_TRAIN, axes, second_head), 2 * one);
        near(value_of(WEFT_MODE_TRAIN, axes, half_more), 1.5 * one);
        near(value_of(WEFT_MODE_TRAIN, axes, half_more_from_afar), 1.5 * one);
        near(value_of(WEFT_MODE_TRAIN, axes, three_each), one + 0.75);
        near(value_of(WEFT_MODE_EVALUATE, axes, second_head), 2 * sum);
        near(value_of(WEFT_MODE_EVALUATE, axes, half_more), sum);
    }
}

/* ---- validation's, and what is reported ---- */

static void validated(weft_graph *g)
{
    weft_value *three = weft_add(g, "constant", NULL, 0, NULL);
    weft_set_real(g, three, "value", 3);
    weft_add_loss(g, "three", three, 0.25, WEFT_LOSS_PER_MICRO_BATCH | WEFT_LOSS_VALIDATION);
    weft_add_loss(g, "half", weft_graph_find(g, "head.part.1"), 0.5, WEFT_LOSS_VALIDATION);
    weft_add_loss(g, "half", weft_graph_find(g, "head.part.0"), 0.5, WEFT_LOSS_VALIDATION);
    weft_add_loss(g, "half", weft_graph_find(g, "head.part.2"), 0.5, WEFT_LOSS_VALIDATION);
}

static void in_validation(void **state)
{
    (void)state;
    double sum = value_of(WEFT_MODE_EVALUATE, "", NULL);
    double tokens = number_of(WEFT_MODE_EVALUATE, "", NULL, "tokens");
    assert_true(tokens > 10);
    for (int i = 0; i < 2; i++) {
        const char *axes = i ? "tp=2 dp_shard=2" : "";
        near(value_of(WEFT_MODE_EVALUATE, axes, validated), 1.5 * sum + 0.75 * tokens);
        near(number_of(WEFT_MODE_EVALUATE, axes, validated, "tokens"), tokens);
    }
}

static bool has_report(void (*how)(weft_graph *), const char *name)
{
    planned p;
    if (plan(&p, WEFT_MODE_TRAIN, true, "", how))
        fail_msg("%s", weft_error_text(&p.err));
    bool has = planned_report(&p, name);
    planned_release(&p);
    return has;
}

static void reports(void **state)
{
    (void)state;
    double one = value_of(WEFT_MODE_TRAIN, "", NULL);
    for (int i = 0; i < 2; i++) {
        const char *axes = i ? "tp=2 dp_shard=2" : "";
        near(value_of(WEFT_MODE_TRAIN, axes, validated), 1.5 * one + 0.75);
        near(number_of(WEFT_MODE_TRAIN, axes, validated, "loss.head"), one);
        near(number_of(WEFT_MODE_TRAIN, axes, validated, "loss.half"), 0.5 * one);
        near(number_of(WEFT_MODE_TRAIN, axes, validated, "loss.three"), 0.75);
        near(number_of(WEFT_MODE_TRAIN, axes, three_each, "loss.llama3"), 0.75); /* who added it */
    }
    assert_false(has_report(NULL, "loss.head"));
    assert_false(has_report(second_head, "loss.head")); /* one name: it is the loss */
}

/* ---- heads that predict more than the next token ---- */

static weft_head further_head;

static void further(weft_graph *g)
{
    weft_add_head_with(g, weft_graph_find(g, "nf"), weft_graph_find(g, "lm_head.weight"),
                       &further_head);
}

/* The sum of the losses of `shift` places further, from logits and labels. */
static double expected(int shift)
{
    planned p;
    sim m;
    double sum = 0;
    int counted = 0;
    if (plan(&p, WEFT_MODE_EVALUATE, false, "", NULL))
        fail_msg("%s", weft_error_text(&p.err));
    sim_init(&m, p.g, 1);
    sim_run(&m);
    weft_tensor labels = sim_value(&m, weft_graph_find(p.g, "labels")),
                segments = sim_value(&m, weft_graph_find(p.g, "segments")), part[3];
    for (int c = 0; c < 3; c++)
        part[c] = sim_value(&m, weft_graph_logits(p.g, c));
    int64_t vocab = part[0].size[2];
    for (int64_t b = 0; b < labels.size[0]; b++)
        for (int64_t k = 0; k + shift < 12; k++) {
            int64_t at = b * 12 + k, first = (b * 4 + k / 3) * vocab;
            int64_t label = (int64_t)weft_tensor_get(&labels, at + shift);
            double all = 0;
            if (label < 0 ||
                weft_tensor_get(&segments, at) != weft_tensor_get(&segments, at + shift))
                continue;
            for (int64_t v = 0; v < vocab; v++)
                all += exp(weft_tensor_get(&part[k % 3], first + v));
            sum += log(all) - weft_tensor_get(&part[k % 3], first + label);
            counted++;
        }
    assert_true(counted > 0);
    sim_release(&m);
    planned_release(&p);
    return sum;
}

static void further_on(void **state)
{
    (void)state;
    double one = value_of(WEFT_MODE_TRAIN, "", NULL), sum = value_of(WEFT_MODE_EVALUATE, "", NULL);
    for (int shift = 1; shift < 4; shift++) {
        further_head = (weft_head){"more", shift, 1, 0};
        double full = number_of(WEFT_MODE_TRAIN, "", further, "loss.more");
        assert_true(full > 0.1 && fabs(full - one) > 0.1); /* fewer tokens have such a label */
        for (int i = 0; i < 3; i++) {
            const char *axes = i == 0 ? "" : i == 1 ? "tp=2 dp_shard=2" : "tp=3";
            further_head = (weft_head){"more", shift, 0.3, WEFT_LOSS_VALIDATION};
            near(value_of(WEFT_MODE_TRAIN, axes, further), one + 0.3 * full);
            near(number_of(WEFT_MODE_TRAIN, axes, further, "loss.head"), one);
            near(number_of(WEFT_MODE_TRAIN, axes, further, "loss.more"), 0.3 * full);
            near(value_of(WEFT_MODE_EVALUATE, axes, further), sum + 0.3 * expected(shift));
            further_head.flags = 0;
            near(value_of(WEFT_MODE_EVALUATE, axes, further), sum);
        }
    }
}

/* Text is written with the head that predicts what comes next. */
static void writes_the_next(void **state)
{
    (void)state;
    planned p;
    further_head = (weft_head){"more", 1, 0, 0};
    assert_int_equal(plan(&p, WEFT_MODE_GENERATE, false, "", further), WEFT_OK);
    assert_string_equal(p.g->logits->name, "head.logits");
    assert_null(weft_graph_logits(p.g, 1));
    assert_null(weft_graph_find(p.g, "labels+1"));
    planned_release(&p);
    further_head = (weft_head){"more", 0, 0, 0}; /* of two that do, the first */
    assert_int_equal(plan(&p, WEFT_MODE_GENERATE, false, "", further), WEFT_OK);
    assert_string_equal(p.g->logits->name, "head.logits");
    assert_ptr_equal(weft_graph_logits(p.g, 0), p.g->logits);
    planned_release(&p);
}

/* Terms and labels further on are in a graph's text, and read back. */
static void as_text(void **state)
{
    (void)state;
    planned p;
    weft_text text = {0}, again = {0};
    weft_graph *read = NULL;
    weft_error err = {0};
    further_head = (weft_head){"more", 2, 0.5, 0};
    assert_int_equal(plan(&p, WEFT_MODE_TRAIN, true, "tp=2", further), WEFT_OK);
    weft_graph_print(p.g, WEFT_PRINT_WHOLE, &text);
    assert_non_null(strstr(weft_text_get(&text), "\n  term more %loss"));
    if (weft_graph_parse(weft_text_get(&text), &p.g->config, &read, &err))
        fail_msg("%s", weft_error_text(&err));
    weft_graph_print(read, WEFT_PRINT_WHOLE, &again);
    assert_string_equal(weft_text_get(&again), weft_text_get(&text));
    weft_graph_destroy(read);
    weft_text_release(&text);
    weft_text_release(&again);
    planned_release(&p);
}

/* A model may add its terms before its head, or have no head at all. */
static void without_a_head(void **state)
{
    (void)state;
    weft_ops ops;
    weft_graph *g;
    weft_error err = {0};
    assert_int_equal(standard_ops_init(&ops, NULL, NULL, 0, &err), WEFT_OK);
    weft_graph_config config = {
        .mode = WEFT_MODE_TRAIN, .ops = &ops, .dtype = WEFT_F32, .sizes = {4, 6, 2, 0}};
    assert_int_equal(weft_graph_create(&config, &g, &err), WEFT_OK);
    weft_graph_dim(g, "embed", 8, 1);
    weft_graph_dim(g, "vocab", 10, 1);
    weft_value *w = weft_add_parameter(g, "w", "vocab embed", (weft_init){0});
    weft_value *x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"), w);
    weft_add_loss(g, NULL, weft_add1(g, "sum", NULL, x), 1, 0);
    weft_value *first = weft_graph_loss(g);
    assert_non_null(first);
    weft_add_head(g, x, w);
    assert_ptr_equal(weft_graph_loss(g)->node->ins[0], first);
    assert_int_equal(weft_graph_place(g), WEFT_OK);
    assert_int_equal(weft_graph_differentiate(g), WEFT_OK);
    assert_non_null(w->gradient);
    weft_add_loss(g, NULL, first, 1, 0);
    assert_non_null(strstr(weft_error_text(weft_graph_error(g)),
                           "loss comes too late to be a loss: the backward is in the graph"));
    weft_graph_destroy(g);
    weft_ops_release(&ops);
}

static void many_numbers(weft_graph *g)
{
    weft_add_loss(g, NULL, weft_graph_find(g, "nf"), 1, 0);
}
static void whole_numbers(weft_graph *g)
{
    weft_value *n = weft_add1(g, "count_valid", NULL, weft_add_input(g, "labels"));
    n->dtype = WEFT_I32;
    weft_add_loss(g, NULL, n, 1, 0);
}
static void no_number(weft_graph *g)
{
    weft_add_loss(g, NULL, weft_graph_find(g, "head.part.0"), NAN, 0);
}

static void no_name(weft_graph *g)
{
    weft_add_loss(g, "two words", weft_graph_find(g, "head.part.0"), 1, 0);
}
static void empty_name(weft_graph *g)
{
    weft_add_loss(g, "", weft_graph_find(g, "head.part.0"), 1, 0);
}
static void name_of_a_term(weft_graph *g)
{
    weft_add_report(g, "loss.head", weft_graph_find(g, "head.part.0"));
}
static void too_far(weft_graph *g)
{
    further_head = (weft_head){"more", 12, 1, 0};
    further(g);
}
static void backwards(weft_graph *g)
{
    further_head = (weft_head){"more", -1, 1, 0};
    further(g);
}
static void no_weight(weft_graph *g)
{
    further_head = (weft_head){"more", 1, INFINITY, 0};
    further(g);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        void (*make)(weft_graph *g);
        const char *words;
    } cases[] = {
        {many_numbers, "nf cannot be a loss: it has 3 dims; take its sum"},
        {whole_numbers, "cannot be a loss: it is an integer"},
        {no_number, "head.part.0 cannot be a loss of weight"},
        {no_name, "'two words' cannot be a loss's name"},
        {empty_name, "'' cannot be a loss's name"},
        {name_of_a_term, "report 'loss.head': names that begin with loss. are those of"},
        {too_far, "head more cannot predict 12 tokens further than the next: a sample has 12 "
                  "([train] seq_len), so that 0 to 11 are possible"},
        {backwards, "head more cannot predict -1 tokens further"},
        {no_weight, "head more cannot have the weight inf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        planned p;
        assert_int_not_equal(plan(&p, WEFT_MODE_TRAIN, true, "", cases[i].make), WEFT_OK);
        if (!strstr(weft_error_text(&p.err), cases[i].words))
            fail_msg("\"%s\", not \"%s\"", weft_error_text(&p.err), cases[i].words);
        planned_release(&p);
    }
}

/* ---- logits ---- */

static void cap_all(weft_graph *g)
{
    weft_value *v;
    for (int i = 0; (v = weft_graph_logits(g, i)); i++) {
        weft_graph_at(g, v->node->next);
        /* several nodes make the new logits from the old; nobody but they go on reading these */
        weft_value *y =
            weft_add2(g, "add", NULL, weft_add1(g, "cap", NULL, v), weft_add1(g, "cap", NULL, v));
        weft_graph_at(g, NULL);
        weft_set_logits(g, v, y);
        assert_string_equal(y->role, "logits");
    }
}

/* Value i of a mode's logits; the caller releases pool. */
static weft_tensor logits(weft_mode mode, void (*how)(weft_graph *), int i, weft_pool *pool)
{
    planned p;
    sim m;
    if (plan(&p, mode, false, "", how))
        fail_msg("%s", weft_error_text(&p.err));
    weft_value *v = mode == WEFT_MODE_GENERATE ? p.g->logits : weft_graph_logits(p.g, i);
    assert_non_null(v);
    sim_init(&m, p.g, 1);
    sim_run(&m);
    weft_tensor t = sim_value(&m, v), copy = t;
    sim_allocate(&copy, pool);
    memcpy(copy.data, t.data, (size_t)weft_tensor_count(&t) * sizeof(double));
    sim_release(&m);
    planned_release(&p);
    return copy;
}

/* What is written with is what was trained: every row of the logits where text is written is one of
 * those where the model is validated, capped alike, and those are the ones it learns with. */
static void capped_in_all_modes(void **state)
{
    (void)state;
    weft_pool pool = {0};
    double most = 0, raw = 0;
    weft_tensor text = logits(WEFT_MODE_GENERATE, cap_all, 0, &pool);
    weft_tensor uncapped = logits(WEFT_MODE_GENERATE, NULL, 0, &pool);
    int64_t rows = text.size[0], vocab = text.size[1];
    weft_tensor parts[3];
    for (int c = 0; c < 3; c++) {
        weft_tensor learn = logits(WEFT_MODE_TRAIN, cap_all, c, &pool);
        parts[c] = logits(WEFT_MODE_EVALUATE, cap_all, c, &pool);
        assert_int_equal(weft_tensor_count(&learn), weft_tensor_count(&parts[c]));
        assert_memory_equal(learn.data, parts[c].data,
                            (size_t)weft_tensor_count(&learn) * sizeof(double));
    }
    for (int64_t b = 0; b < rows; b++) {
        bool found = false;
        for (int64_t place = 0; place < 12 && !found; place++) {
            const weft_tensor *t = &parts[place % 3];
            found = true;
            for (int64_t v = 0; v < vocab; v++)
                found = found && fabs(weft_tensor_get(&text, b * vocab + v) -
                                      weft_tensor_get(t, (b * 4 + place / 3) * vocab + v)) < 1e-12;
        }
        assert_true(found);
    }
    for (int64_t i = 0; i < rows * vocab; i++) {
        most = fmax(most, fabs(weft_tensor_get(&text, i)));
        raw = fmax(raw, fabs(weft_tensor_get(&uncapped, i)));
    }
    if (!(most <= 0.2 && raw > 0.4))
        fail_msg("capped: %g, not capped: %g", most, raw);
    weft_pool_release(&pool);
}

/* ---- parts of the head ---- */

static int count_parts(const char *axes, int64_t seq)
{
    planned p;
    int n = 0;
    planned_spec spec = {.axes = axes,
                         .passes = "",
                         .batch = 1,
                         .seq = seq,
                         .chunk = 1,
                         .cuts = true,
                         .placed_only = true};
    if (planned_init(&p, &spec))
        fail_msg("%s", weft_error_text(&p.err));
    while (weft_graph_logits(p.g, n))
        n++;
    planned_release(&p);
    return n;
}

/* As many as there may be, where one token each is wanted: a number of parts that divides the
 * sequence, and what every axis leaves of it, outermost first. */
static void parts_divide_every_shard(void **state)
{
    static const struct {
        const char *axes;
        int64_t seq;
        int parts;
    } cases[] = {
        {"", 30, 30},
        {"dp_shard=4", 30, 30},
        {"tp=4", 30, 30},
        {"cp=2", 24, 12},
        {"cp=4", 30, 2}, /* shards of 8, 8, 8 and 6 */
        {"cp=5", 12, 3}, /* 3, 3, 3, 3 and none */
        {"cp=2", 7, 1},
        {"cp=2 cp_far=3", 36, 6},
        {"cp=2 cp_far=3", 20, 1}, /* 7, and of these 4 */
        {"cp=3 cp_far=2", 20, 2}, /* 10, and of these 4 */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int n = count_parts(cases[i].axes, cases[i].seq);
        if (n != cases[i].parts)
            fail_msg("%s, %d tokens: %d parts, not %d", cases[i].axes, (int)cases[i].seq, n,
                     cases[i].parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms),           cmocka_unit_test(in_validation),
        cmocka_unit_test(reports),         cmocka_unit_test(further_on),
        cmocka_unit_test(writes_the_next), cmocka_unit_test(as_text),
        cmocka_unit_test(without_a_head),  cmocka_unit_test(parts_divide_every_shard),
        cmocka_unit_test(refusals),        cmocka_unit_test(capped_in_all_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
