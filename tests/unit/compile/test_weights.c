/* SPDX-License-Identifier: Apache-2.0 */
/* The backward in two halves: what W has, what it may not touch, and that nothing is lost. */
#include "../../lib/plan_run.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

#define MODEL "[train]\nsteps = 2\nseq_len = 16\nglobal_batch = 8\nmicro_batch = 2\n"
#define LLAMA                                                                                      \
    "[llama3]\ndim = 32\nn_layers = 6\nn_heads = 4\nn_kv_heads = 2\nhead_dim = 8\nffn_dim = "      \
    "48\nvocab_size = 64\n"
#define GPT2                                                                                       \
    "[gpt2]\ndim = 32\nn_layers = 6\nn_heads = 4\nffn_dim = 48\nvocab_size = 64\nn_positions = "   \
    "16\n"

typedef struct sums {
    double flops[WEFT_PARTS];
    int products, gathers; /* in W */
} sums;

static void start(plan_run *p, const char *plugins, const char *model, const char *sections,
                  int ranks, int rank)
{
    weft_text text = {0};
    char *list = weft_format("%s adamw local", plugins);
    weft_text_print(&text, "%s%s%s", MODEL, model, sections);
    plan_run_start(p, list, weft_text_get(&text),
                   &(weft_plan_options){.ranks = ranks, .rank = rank, .train_only = true});
    weft_text_release(&text);
    weft_free(list);
}

static void check_reads(const weft_node *n)
{
    for (int i = 0; i < n->n_ins; i++) {
        const weft_value *v = n->ins[i];
        if (n->part == WEFT_PART_W && v->weight)
            fail_msg("%s of W reads the weight %s", n->outs[0]->name, v->name);
        if (v->node->part == WEFT_PART_W && n->part < WEFT_PART_W)
            fail_msg("%s reads %s, which is made in W", n->outs[0]->name, v->name);
    }
}

static bool is_held_for(const weft_node *n, const weft_value *v)
{
    for (int i = 0; i < v->n_uses; i++)
        if (v->uses[i].node != n && v->uses[i].node->part == WEFT_PART_W)
            return false;
    return !v->weight && v->node->part < WEFT_PART_W && v->node->scope == WEFT_MICRO_BATCH &&
           !weft_node_is(v->node, WEFT_OP_INPUT);
}

/* But for products, what waits keeps no more alive than its results would take. */
static void check_holds(const weft_graph *g, const weft_node *n)
{
    int64_t held = 0, made = 0;
    if (n->part != WEFT_PART_W || weft_node_is(n, WEFT_OP_MATMUL) || weft_node_accumulates(n))
        return;
    for (int i = 0; i < n->n_ins; i++)
        held += is_held_for(n, n->ins[i]) ? weft_value_part_bytes(g, n->ins[i]) : 0;
    for (int i = 0; i < n->n_outs; i++)
        made += weft_value_part_bytes(g, n->outs[i]);
    if (held > made)
        fail_msg("%s waits, and %lld bytes for it instead of %lld", n->outs[0]->name,
                 (long long)held, (long long)made);
}

static sums sum_up(const plan_run *p)
{
    sums s = {0};
    const weft_lowered *l = p->plan->lowered[WEFT_MODE_TRAIN];
    for (const weft_node *n = p->plan->graphs[WEFT_MODE_TRAIN]->first; n; n = n->next) {
        check_reads(n);
        check_holds(p->plan->graphs[WEFT_MODE_TRAIN], n);
    }
    for (int i = 0; i < l->n_programs; i++)
        for (int k = 0; k < l->programs[i].n; k++) {
            const weft_instruction *in = &l->programs[i].list[k];
            const bool w = l->programs[i].part == WEFT_PART_W;
            s.flops[l->programs[i].part] += in->flops;
            s.products += w && in->kind == WEFT_COMPUTE && weft_node_is(in->node, WEFT_OP_MATMUL);
            s.gathers += w && in->kind == WEFT_COLLECTIVE && in->node->outs[0]->weight;
            if (w && (in->kind == WEFT_POST_SEND || in->kind == WEFT_POST_RECV))
                fail_msg("W sends %s", in->node->outs[0]->name);
        }
    return s;
}

static void nothing_is_lost(void **state)
{
    (void)state;
    static const struct {
        const char *plugins, *model, *sections;
        int ranks;
        int products; /* in W of a rank with three blocks, at least */
    } cases[] = {
        {"llama3 pp", LLAMA, "", 2, 14},
        {"gpt2 pp", GPT2, "", 2, 8},
        {"llama3 bf16 fsdp pp", LLAMA, "[fsdp]\ndegree = 2\n", 4, 14},
        {"llama3 fsdp pp", LLAMA, "[fsdp]\ndegree = 2\nreplicate = 2\n", 8, 14},
        {"llama3 tp pp", LLAMA, "[tp]\ndegree = 2\n", 4, 14},
        {"llama3 cp pp", LLAMA, "[cp]\ndegree = 2\n", 4, 14},
        {"llama3 ac pp", LLAMA, "[ac]\nmode = op\n", 2, 14},
        {"llama3 ac pp", LLAMA, "[ac]\nmode = full\n", 2, 1},
        {"llama3 float8 pp", LLAMA, "", 2, 14},
    };
    static const char *const schedules[] = {"zb_h1", "zbv"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < 2; k++)
            for (int rank = 0; rank < cases[i].ranks; rank += cases[i].ranks - 1) {
                plan_run a, b;
                char *split = weft_format("[pp]\ndegree = 2\nsplit = %s\nschedule = %s\n%s",
                                          k ? "2 3 5" : "3", schedules[k], cases[i].sections);
                char *whole =
                    weft_format("[pp]\ndegree = 2\nsplit = %s\nschedule = bfs\nplacement = %s\n%s",
                                k ? "2 3 5" : "3", k ? "v" : "loop", cases[i].sections);
                start(&a, cases[i].plugins, cases[i].model, split, cases[i].ranks, rank);
                const sums two = sum_up(&a);
                start(&b, cases[i].plugins, cases[i].model, whole, cases[i].ranks, rank);
                const sums one = sum_up(&b);
                const double all = two.flops[WEFT_PART_B] + two.flops[WEFT_PART_W];
                if (fabs(all - one.flops[WEFT_PART_B]) > 1e-9 * all)
                    fail_msg("%s with %s on rank %d: %g and %g operations, not %g",
                             cases[i].plugins, schedules[k], rank, two.flops[WEFT_PART_B],
                             two.flops[WEFT_PART_W], one.flops[WEFT_PART_B]);
                assert_true(one.flops[WEFT_PART_W] == 0);
                plan_run_release(&b);
                if (two.products < cases[i].products)
                    fail_msg("%s with %s: %d products in W", cases[i].plugins, schedules[k],
                             two.products);
                assert_int_equal(two.gathers, 0);
                plan_run_release(&a);
                weft_free(split);
                weft_free(whole);
            }
}

/* Nobody else reads what a stage with the embedding alone receives: it arrives in B all the same.
 */
static void what_comes_over_does_not_wait(void **state)
{
    static const char *const schedules[] = {"zb_h1", "zbv"}, *const splits[] = {"0", "0 3 head"};
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int rank = 0; rank < 2; rank++) {
            plan_run p;
            char *sections = weft_format("[pp]\ndegree = 2\nsplit = %s\nschedule = %s\n", splits[k],
                                         schedules[k]);
            start(&p, "llama3 pp", LLAMA, sections, 2, rank);
            assert_true(sum_up(&p).flops[WEFT_PART_F] > 0 || rank == 0);
            plan_run_release(&p);
            weft_free(sections);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(what_comes_over_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
