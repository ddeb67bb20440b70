/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text: what is printed whole reads back as the same graph, what people read says each
 * block once, and garbage is refused by line. */
#include "../../lib/graph_text.h"
#include "../../lib/plan_run.h"
#include "../../lib/standard_ops.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

static const char llama3[] = "[train]\nsteps = 3\nseq_len = 8\nglobal_batch = 16\nmicro_batch = "
                             "8\neval_every = 1\nloss_chunk = 16\n"
                             "[llama3]\nn_layers = 4\ndim = 16\nn_heads = 4\nn_kv_heads = "
                             "2\nffn_dim = 24\nvocab_size = 50\n";
static const char gpt2[] = "[train]\nsteps = 3\nseq_len = 8\nglobal_batch = 16\nmicro_batch = "
                           "8\neval_every = 1\nloss_chunk = 16\n"
                           "[gpt2]\nn_layers = 4\ndim = 16\nn_heads = 4\nvocab_size = 50\n";

/* Reads a graph's text, with the mesh, ops and sizes of `like`. */
static weft_graph *read_back(const weft_graph *like, const weft_text *text)
{
    weft_error err = {0};
    weft_graph *g;
    if (weft_graph_parse(weft_text_get(text), &like->config, &g, &err))
        fail_msg("not read back: %s", weft_error_text(&err));
    return g;
}

/* Printed, read, printed again: the same text and a sound graph. Returns what was read. */
static weft_graph *round_trip(const weft_graph *g)
{
    weft_text once = {0}, twice = {0};
    weft_graph_print(g, WEFT_PRINT_WHOLE, &once);
    assert_true(once.size > 500);
    weft_graph *again = read_back(g, &once);
    weft_graph_print(again, WEFT_PRINT_WHOLE, &twice);
    assert_string_equal(weft_text_get(&once), weft_text_get(&twice));
    weft_error err = {0};
    if (weft_graph_verify(again, &err))
        fail_msg("what was read back does not verify: %s", weft_error_text(&err));
    weft_text_release(&once);
    weft_text_release(&twice);
    return again;
}

/* ---- round trips ---- */

static void placed_and_joint(const char *plugins, const char *ini, const char *rest, int ranks)
{
    char text[1024];
    plan_run p;
    snprintf(text, sizeof text, "%s%s", ini, rest);
    for (int stop = 0; stop < 2; stop++) {
        plan_run_start(&p, plugins, text,
                       &(weft_plan_options){.ranks = ranks, .stop_after = stop ? "adamw" : NULL});
        for (int m = 0; m < WEFT_MODES; m++)
            if (p.plan->graphs[m])
                weft_graph_destroy(round_trip(p.plan->graphs[m]));
        plan_run_release(&p);
    }
}

static void one_rank(void **state)
{
    (void)state;
    placed_and_joint("llama3 cpu adamw", llama3, "", 1);
    placed_and_joint("gpt2 cpu adamw", gpt2, "", 1);
    placed_and_joint("llama3 cpu bf16 ac adamw", llama3, "[ac]\nmode = every\n", 1);
}

static void on_a_mesh(void **state)
{
    (void)state;
    placed_and_joint("llama3 cpu bf16 tp fsdp ac adamw", llama3, "[tp]\ndegree = 2\n", 8);
    placed_and_joint("llama3 cpu fsdp tp adamw", llama3,
                     "[tp]\ndegree = 2\n[fsdp]\nreplicate = 2\nzero = 1\n", 8);
    placed_and_joint("llama3 cpu bf16 cp tp fsdp adamw", llama3,
                     "[cp]\ndegree = 3\nattention = ring\n[tp]\ndegree = 2\n", 6);
    placed_and_joint("llama3 cpu cp fsdp ac bf16 adamw", llama3,
                     "[cp]\ndegree = 2\nattention = gather\nreduce_dtype = f32\n", 4);
    placed_and_joint("gpt2 cpu bf16 tp fsdp ac adamw", gpt2, "[tp]\ndegree = 2\n[ac]\nmode = op\n",
                     4);
}

/* The graphs that write text, which read and write caches. */
static void writing(void **state)
{
    (void)state;
    static const weft_writing size = {.rows = 2, .context = 6, .places = 8, .cache = true};
    plan_run p;
    plan_run_start(&p, "llama3 cpu", llama3, &(weft_plan_options){.ranks = 1, .write = &size});
    for (int m = WEFT_MODE_GENERATE; m <= WEFT_MODE_DECODE; m++) {
        assert_non_null(p.plan->graphs[m]);
        weft_graph_destroy(round_trip(p.plan->graphs[m]));
    }
    plan_run_release(&p);
}

static void before_placement(void **state)
{
    (void)state;
    plan_run p;
    char text[1024];
    snprintf(text, sizeof text, "%s[tp]\ndegree = 2\n", llama3);
    plan_run_start(&p, "llama3 cpu bf16 tp fsdp ac adamw", text, &(weft_plan_options){.ranks = 4});
    weft_graph *g;
    const weft_loaded *loaded;
    const weft_contribution *c;
    assert_int_equal(weft_graph_create(&p.plan->graphs[WEFT_MODE_TRAIN]->config, &g, &p.err),
                     WEFT_OK);
    for (int i = 0, k = 0; weft_plugins_next(p.plugins, WEFT_PASS, &i, &k, &loaded, &c);) {
        if (c->stage != WEFT_STAGE_GRAPH)
            continue;
        g->by = loaded->module.plugin->name;
        c->graph(loaded->self, g);
        assert_int_equal(weft_graph_status(g), WEFT_OK);
        weft_graph_destroy(round_trip(g));
    }
    weft_graph *again = round_trip(g);
    assert_true(g->n_table > 0 && again->n_table == g->n_table && again->n_storage == g->n_storage);
    /* What was read can be placed, and comes out the same. */
    weft_text one = {0}, two = {0};
    assert_int_equal(weft_graph_place(g), WEFT_OK);
    assert_int_equal(weft_graph_place(again), WEFT_OK);
    weft_graph_print(g, WEFT_PRINT_WHOLE, &one);
    weft_graph_print(again, WEFT_PRINT_WHOLE, &two);
    assert_string_equal(weft_text_get(&one), weft_text_get(&two));
    weft_text_release(&one);
    weft_text_release(&two);
    weft_graph_destroy(again);
    weft_graph_destroy(g);
    plan_run_release(&p);
}

/* Lowered, what was read back has the same programs in the same memory. */
static void lowers_the_same(void **state)
{
    (void)state;
    plan_run p;
    plan_run_start(&p, "llama3 cpu bf16 ac adamw", llama3, &(weft_plan_options){.ranks = 1});
    const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    weft_graph *again = round_trip(p.plan->graphs[WEFT_MODE_TRAIN]);
    weft_states states;
    weft_lowered *m;
    assert_int_equal(weft_states_init(&states, again, l->coord, false, 64, &p.err), WEFT_OK);
    weft_lower_options options = {
        .kernels = &p.plan->kernels, .states = &states, .tasks = l->tasks, .n_queues = 1};
    weft_graph_assign_parts(again);
    assert_int_equal(weft_lower(again, &options, &m, &p.err), WEFT_OK);
    assert_int_equal(m->arena_bytes, l->arena_bytes);
    assert_int_equal(m->n_buffers, l->n_buffers);
    for (int a = 0; a < l->n_programs; a++)
        assert_int_equal(m->programs[a].n, l->programs[a].n);
    weft_lowered_destroy(m);
    weft_states_release(&states);
    weft_graph_destroy(again);
    plan_run_release(&p);
}

static weft_value *result(weft_graph *g, const char *name)
{
    weft_value *v = weft_graph_find(g, name);
    if (!v)
        fail_msg("there is no %s", name);
    return v;
}

static void every_kind_of_attribute(void **state)
{
    (void)state;
    plan_run p;
    plan_run_start(&p, "llama3 cpu adamw", llama3, &(weft_plan_options){.ranks = 1});
    weft_graph *g = p.plan->graphs[WEFT_MODE_TRAIN];
    weft_value *v = result(g, "b1.h");
    static const double reals[] = {0.1, -1e300, 5e-324, 3, 1.0 / 3, 123456789.0, 0};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        char key[8];
        snprintf(key, sizeof key, "r%zu", i);
        weft_node_set_attr(g, v, (weft_attr){.key = key, .kind = WEFT_ATTR_REAL, .r = reals[i]});
    }
    weft_node_set_attr(g, v, (weft_attr){.key = "least", .kind = WEFT_ATTR_INT, .i = INT64_MIN});
    weft_node_set_attr(g, v,
                       (weft_attr){.key = "text",
                                   .kind = WEFT_ATTR_TEXT,
                                   .text = "a \"quoted\" \\ {brace}, and = \t\n \x01 \xc3\xa9"});
    v->fetch = true;
    weft_graph *again = round_trip(g);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        char key[8];
        snprintf(key, sizeof key, "r%zu", i);
        assert_true(weft_node_real(result(again, "b1.h")->node, key) == reals[i]);
    }
    assert_true(weft_node_int(result(again, "b1.h")->node, "least") == INT64_MIN);
    assert_string_equal(weft_node_text(result(again, "b1.h")->node, "text"),
                        "a \"quoted\" \\ {brace}, and = \t\n \x01 \xc3\xa9");
    weft_graph_destroy(again);
    plan_run_release(&p);
}

/* ---- what people read ---- */

static int count(const char *text, const char *words)
{
    int n = 0;
    for (const char *p = strstr(text, words); p; p = strstr(p + 1, words))
        n++;
    return n;
}

static void print_short(const plan_run *p, weft_text *text)
{
    weft_text_clear(text);
    weft_graph_print(p->plan->graphs[WEFT_MODE_TRAIN], 0, text);
}

static void assert_has(const weft_text *text, const char *words, int times)
{
    if (count(weft_text_get(text), words) != times)
        fail_msg("\"%s\" is there %d times, not %d, in\n%s", words,
                 count(weft_text_get(text), words), times, weft_text_get(text));
}

static void each_block_once(void **state)
{
    (void)state;
    plan_run p;
    weft_text text = {0};
    plan_run_start(&p, "llama3 cpu bf16 ac adamw", llama3, &(weft_plan_options){.ranks = 1});
    print_short(&p, &text);
    assert_has(&text, "\nblock 0\n", 1);
    assert_has(&text, "\nblocks 1..3 as block 0\n", 1);
    assert_has(&text, "\nblock 3, backward\n", 1);
    assert_has(&text, "\nblocks 2..0 as block 3, backward\n", 1);
    assert_has(&text, "\nblock 1\n", 0);
    assert_has(&text, "@mlp.gate_proj.weight: ", 1);
    assert_has(&text, ", micro_batch", 0);
    /* One block with another number in it stands for itself. */
    weft_set_real(p.plan->graphs[WEFT_MODE_TRAIN], result(p.plan->graphs[WEFT_MODE_TRAIN], "b2.n1"),
                  "eps", 0.5);
    print_short(&p, &text);
    assert_has(&text, "\nblock 1 as block 0\n", 1);
    assert_has(&text, "\nblock 2\n", 1);
    assert_has(&text, "{eps 0.5}", 1);
    assert_has(&text, "\nblock 3 as block 0\n", 1);
    /* So does one that reads another value of its block. */
    weft_value *attention = result(p.plan->graphs[WEFT_MODE_TRAIN], "b3.a");
    weft_node_set_operand(p.plan->graphs[WEFT_MODE_TRAIN], attention->node, 0,
                          attention->node->ins[1]);
    print_short(&p, &text);
    assert_has(&text, "\nblock 3\n", 1);
    weft_text_release(&text);
    plan_run_release(&p);
}

static void blocks_that_differ(void **state)
{
    (void)state;
    plan_run p;
    weft_text text = {0};
    char ini[1024];
    snprintf(ini, sizeof ini, "%s[ac]\nmode = every\nevery = 2\n", llama3);
    plan_run_start(&p, "llama3 cpu ac adamw", ini, &(weft_plan_options){.ranks = 1});
    print_short(&p, &text);
    assert_has(&text, "\nblock 0\n", 1);
    assert_has(&text, "\nblock 1\n", 1);
    assert_has(&text, "\nblock 2 as block 0\n", 1);
    assert_has(&text, "\nblock 3 as block 1\n", 1);
    weft_text_release(&text);
    plan_run_release(&p);
}

static void chunks_once(void **state)
{
    (void)state;
    plan_run p;
    weft_text text = {0};
    plan_run_start(&p, "llama3 cpu adamw", llama3, &(weft_plan_options){.ranks = 1});
    print_short(&p, &text);
    assert_has(&text, "\nhead, chunks 1..0 as chunk 3\n", 1);
    assert_has(&text, "\nhead, chunk 3, backward\n", 1);
    assert_has(&text, "\nhead, chunk 1 as chunk 2, backward\n", 1);
    weft_text_release(&text);
    plan_run_release(&p);
}

/* ---- garbage ---- */

static const char small[] =
    "graph train placed on tp 2\n"
    "common\n"
    "  %ids: i32[batch 4, seq 8] = input() core\n"
    "  @w: f32[vocab/tp 50, embed 6] = parameter(normal 0.5) m, step_begin\n"
    "  %x: f32[batch 4, seq 8, embed 6] +tp ~ (residual) = embedding(%ids, @w) m\n"
    "  %x.r: f32[batch 4, seq 8, embed 6] = all_reduce[tp](%x) tp, for add y\n"
    "  %y: f32[batch 4, seq 8, embed 6] fetched = add(%x.r, %x.r) {eps 0.5, name \"a\\n\", n 3} m\n"
    "block 1, backward\n"
    "  %y*: f32[batch 4, seq 8, embed 6] = add(%x.r, %x.r; like %y) m, again\n"
    "table\n"
    "  vocab/tp of parameters w*, tp\n"
    "  whole/tp of role logits, tp\n"
    "  storage/tp, fsdp\n"
    "roots\n"
    "  loss %y\n"
    "  report size %y\n"
    "  gradient %y of @w\n";

static const weft_mesh two = {1, {{.name = "tp", .size = 2, .by = "tp"}}};

static weft_graph_config small_config(const weft_ops *ops)
{
    return (weft_graph_config){
        .mode = WEFT_MODE_TRAIN, .mesh = two, .ops = ops, .dtype = WEFT_F32, .sizes = {4, 8, 1, 0}};
}

static const struct garbage {
    const char *from, *to, *words; /* `from` in the small text becomes `to` */
} garbages[] = {
    {"graph train placed on tp 2\n", "", "graph:1: the text must begin with 'graph train'"},
    {"graph train", "graph evaluate", "graph:1: the text must begin"},
    {"on tp 2", "on tp 4", "graph:1: the mesh's axis 0 is tp 2"},
    {"on tp 2", "on dp 2", "graph:1: the mesh has no axis 'dp'"},
    {"on tp 2", "on tp 2 dp 2", "graph:1: 'dp 2' is too much"},
    {"placed on tp 2", "on tp 2", "graph:4: w has a layout in a graph that is not placed"},
    {"common", "comon", "graph:2: 'comon' is neither"},
    {"block 1, backward", "block -1", "graph:8: a block must be an integer from 0"},
    {"block 1, backward", "block 2147483647", "graph:8: a block must be an integer from 0"},
    {"block 1, backward", "block 1, forward", "graph:8: ', forward' is too much"},
    {"  %ids", "  $ids", "graph:3: a value begins with @ or %, not with '$ids"},
    {"%ids:", "%ids", "graph:3: ':' is missing before 'i32[batch"},
    {"i32[batch", "i33[batch", "graph:3: there is no dtype 'i33'"},
    {"i32[batch", "i32(batch", "graph:3: '[' is missing"},
    {"batch 4, seq 8] = input", "batch 4, seq] = input",
     "graph:3: a size must be an integer from 1"},
    {"batch 4, seq 8] = input", "batch 4, seq 0] = input",
     "graph:3: a size must be an integer from 1"},
    {"batch 4, seq 8] = input", "batch 4, seq 99999999999999999999] = input", "graph:3: a size"},
    {"batch 4, seq 8] = input", "batch 4, seq 8*0] = input", "graph:3: a grain must be"},
    {"batch 4, seq 8] = input", "a 1, b 1, c 1, d 1, e 1, f 1, g 1] = input",
     "graph:3: more than 6 dims"},
    {"batch 4, seq 8] = input", "batch 4, seq 8 = input", "graph:3: ']' is missing"},
    {"vocab/tp 50", "vocab/dp 50", "graph:4: the mesh has no axis 'dp'"},
    {"vocab/tp 50", "vocab/tp/tp 50", "graph:4: axis tp is used twice"},
    {"+tp ~", "+tp +tp ~", "graph:5: axis tp is used twice"},
    {"parameter(normal 0.5)", "parameter(fresh)",
     "graph:4: a parameter begins as zero, one, normal"},
    {"parameter(normal 0.5)", "parameter(normal x)", "graph:4: a deviation must be a number"},
    {"(residual)", "(residual", "graph:5: ')' is missing"},
    {"embedding(%ids, @w)", "embeding(%ids, @w)", "graph:5: there is no op 'embeding'"},
    {"embedding(%ids, @w)", "embedding(%ids, @v)", "graph:5: v is not made by any line before"},
    {"embedding(%ids, @w)", "embedding(%ids, @w", "graph:5: ')' is missing"},
    {"embedding(%ids, @w)", "embedding %ids, @w", "graph:5: there is no op"},
    {"all_reduce[tp](%x)", "all_gather[tp](%x)",
     "graph:6: the layouts ask for all_reduce[tp], not for all_gather[tp]"},
    {"all_reduce[tp](%x)", "all_reduce[tp](%ids)",
     "graph:6: a redistribute has one operand and one result of the same dims"},
    {"all_reduce[tp](%x)", "all_reduce[tp]()", "graph:6: a redistribute has one operand"},
    {"%x.r: f32[batch 4, seq 8, embed 6]", "%x.r: f32[batch 4, seq 8, embed 6] max+tp",
     "graph:6: there is no way from the layout of x"},
    {"%y: ", "%x: ", "graph:7: x is made twice"},
    {"fetched", "fetchd", "graph:7: '=' is missing before 'fetchd"},
    {"fetched", "becomes @nobody", "graph:7: nobody is not made by any line"},
    {"eps 0.5", "eps", "graph:7: eps must be an integer"},
    {"\"a\\n\"", "\"a\\q\"", "graph:7: there is no escape '\\q'"},
    {"\"a\\n\"", "\"a", "graph:7: "},
    {", n 3}", ", n 3", "graph:7: '}' is missing"},
    {"m, again", "m, agan", "graph:9: there is no scope 'agan'"},
    {"m, again", "m again", "graph:9: what does 'again' mean?"},
    {"input() core", "input() core, again", "graph:3: only a backward computes again"},
    {"input() core", "input()", "graph:3: a plugin is missing"},
    {"vocab/tp of parameters", "vocab of parameters", "graph:11: "},
    {"vocab/tp of parameters", "vocab/tp of nothing", "graph:11: a rule is of parameters"},
    {"w*, tp", "w*", "graph:11: ',' is missing"},
    {"  loss %y", "  los %y", "graph:15: there is no root 'los %y'"},
    {"  loss %y", "  loss %z", "graph:15: z is not made"},
    {"report size %y", "report size", "graph:16: "},
    {"of @w\n", "@w\n", "graph:17: 'of ' is missing"},
};

static void garbage_is_refused(void **state)
{
    (void)state;
    weft_ops ops;
    weft_error err = {0};
    weft_graph *g;
    assert_int_equal(standard_ops_init(&ops, NULL, NULL, 0, &err), WEFT_OK);
    weft_graph_config config = small_config(&ops);
    if (weft_graph_parse(small, &config, &g, &err))
        fail_msg("the small text is not read: %s", weft_error_text(&err));
    weft_graph_destroy(round_trip(g));
    weft_graph_destroy(g);
    int wrong = 0;
    for (size_t i = 0; i < sizeof garbages / sizeof garbages[0]; i++) {
        const struct garbage *c = &garbages[i];
        const char *at = strstr(small, c->from);
        weft_text text = {0};
        assert_non_null(at);
        weft_text_print(&text, "%.*s%s%s", (int)(at - small), small, c->to, at + strlen(c->from));
        weft_error_clear(&err);
        weft_status status = weft_graph_parse(weft_text_get(&text), &config, &g, &err);
        assert_true(status == WEFT_OK || !g);
        if (status != WEFT_ERR_INPUT || !strstr(weft_error_text(&err), c->words)) {
            print_message("'%s' -> '%s' gives %d \"%s\", not \"%s\"\n", c->from, c->to, (int)status,
                          weft_error_text(&err), c->words);
            wrong++;
        }
        weft_graph_destroy(g);
        weft_text_release(&text);
    }
    assert_int_equal(wrong, 0);
    weft_error_clear(&err);
    assert_int_equal(weft_graph_parse("", &config, &g, &err), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&err), "the text is empty"));
    weft_error_release(&err);
    weft_ops_release(&ops);
}

/* All that is open of a value is of one kind. */
static void two_kinds_are_refused(void **state)
{
    static const weft_mesh mesh = {
        2, {{.name = "tp", .size = 2, .by = "tp"}, {.name = "dp", .size = 2, .by = "fsdp"}}};
    static const char *const opens[] = {"+tp +dp", "max+tp max+dp", "+tp max+dp", "max+tp +dp"};
    weft_ops ops;
    weft_error err = {0};
    (void)state;
    assert_int_equal(standard_ops_init(&ops, NULL, NULL, 0, &err), WEFT_OK);
    weft_graph_config config = small_config(&ops);
    config.mesh = mesh;
    for (int i = 0; i < 4; i++) {
        weft_graph *g;
        weft_text text = {0};
        weft_text_print(&text,
                        "graph train placed on tp 2 dp 2\ncommon\n"
                        "  %%x: f32[seq 8] %s = input() core\n",
                        opens[i]);
        weft_status status = weft_graph_parse(weft_text_get(&text), &config, &g, &err);
        if (i < 2 ? status != WEFT_OK
                  : !status || !strstr(weft_error_text(&err), "an open sum and an open maximum"))
            fail_msg("%s: %s", opens[i], weft_error_text(&err));
        weft_error_clear(&err);
        weft_graph_destroy(g);
        weft_text_release(&text);
    }
    weft_error_release(&err);
    weft_ops_release(&ops);
}

/* Whatever stands in a text, reading it ends in a graph that prints or in an error. */
static void noise(void **state)
{
    (void)state;
    static const char letters[] = " %@:;,=()[]{}~+*/.\"\\\n0123456789abtpxyw";
    weft_ops ops;
    weft_error err = {0};
    assert_int_equal(standard_ops_init(&ops, NULL, NULL, 0, &err), WEFT_OK);
    weft_graph_config config = small_config(&ops);
    int read = 0;
    for (uint64_t round = 0; round < 3000; round++) {
        char text[sizeof small];
        memcpy(text, small, sizeof small);
        uint64_t changes = 1 + weft_random_bits(7, round, 0) % 4;
        for (uint64_t k = 0; k < changes; k++) {
            size_t at = weft_random_bits(7, round, 2 * k + 1) % (sizeof small - 1);
            text[at] = letters[weft_random_bits(7, round, 2 * k + 2) % (sizeof letters - 1)];
        }
        if (round % 5 == 0)
            text[weft_random_bits(7, round, 100) % sizeof small] = '\0';
        weft_graph *g;
        weft_error_clear(&err);
        if (weft_graph_parse(text, &config, &g, &err)) {
            assert_true(err.n_items > 0);
            assert_null(g);
            continue;
        }
        weft_text out = {0};
        weft_graph_print(g, WEFT_PRINT_WHOLE, &out);
        weft_graph_print(g, 0, &out);
        assert_false(out.out_of_memory);
        weft_graph_verify(g, &err); /* may say what it likes */
        weft_text_release(&out);
        weft_graph_destroy(g);
        read++;
    }
    assert_true(read > 100 && read < 2900);
    weft_error_release(&err);
    weft_ops_release(&ops);
}

static void out_of_memory(void **state)
{
    (void)state;
    weft_ops ops;
    weft_error err = {0};
    weft_graph *g = NULL;
    assert_int_equal(standard_ops_init(&ops, NULL, NULL, 0, &err), WEFT_OK);
    weft_graph_config config = small_config(&ops);
    weft_status s = WEFT_ERR_MEMORY;
    int failed = 0;
    for (long n = 1; s; n++) {
        weft_error_clear(&err);
        weft_alloc_fail_at(n);
        s = weft_graph_parse(small, &config, &g, &err);
        weft_alloc_fail_at(0);
        if (s && s != WEFT_ERR_MEMORY)
            fail_msg("allocation %ld: %s", n, weft_error_text(&err));
        failed += s != WEFT_OK;
    }
    assert_true(failed > 5);
    failed = 0;
    for (long n = 1;; n++) {
        weft_text text = {0};
        weft_alloc_fail_at(n);
        weft_graph_print(g, 0, &text);
        weft_alloc_fail_at(0);
        bool whole = !text.out_of_memory;
        weft_text_release(&text);
        if (whole)
            break;
        failed++;
    }
    assert_true(failed > 5);
    weft_graph_destroy(g);
    weft_error_release(&err);
    weft_ops_release(&ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),
        cmocka_unit_test(on_a_mesh),
        cmocka_unit_test(writing),
        cmocka_unit_test(before_placement),
        cmocka_unit_test(lowers_the_same),
        cmocka_unit_test(every_kind_of_attribute),
        cmocka_unit_test(each_block_once),
        cmocka_unit_test(blocks_that_differ),
        cmocka_unit_test(chunks_once),
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(two_kinds_are_refused),
        cmocka_unit_test(noise),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
