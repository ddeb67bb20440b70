/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that run as one: which do, where they stand, and that nothing else about a program
 * changes. */
#include "../../lib/plan_run.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { LAYERS = 4, WEIGHTS = 9 }; /* of a llama block: q k v o, gate up down, two norms */

#define MODEL                                                                                      \
    "[train]\nsteps = 2\nseq_len = 16\nglobal_batch = 8\nmicro_batch = 4\n"                        \
    "[llama3]\ndim = 32\nn_layers = 4\nn_heads = 4\nn_kv_heads = 2\nhead_dim = 8\nffn_dim = "      \
    "48\nvocab_size = 64\n"

typedef struct found {
    int instructions, parts, most_parts;
} found;

static bool does(const weft_instruction *in, weft_move move)
{
    return in->kind == WEFT_COLLECTIVE && in->node->steps[0].move == move;
}

static int parts_of(const weft_instruction *in)
{
    return in->parts ? in->n_ins : 1;
}

static found count(const plan_run *p, weft_part part, weft_move move)
{
    found f = {0};
    const weft_program *program = weft_lowered_program(p->plan->lowered[WEFT_MODE_TRAIN], part, 0);
    for (int i = 0; i < program->n; i++) {
        if (!does(&program->list[i], move))
            continue;
        int n = parts_of(&program->list[i]);
        f.instructions++;
        f.parts += n;
        f.most_parts = n > f.most_parts ? n : f.most_parts;
    }
    return f;
}

static void start(plan_run *p, const char *plugins, const char *sections, int ranks)
{
    weft_text text = {0};
    weft_text_print(&text, "%s%s", MODEL, sections);
    plan_run_start(p, plugins, weft_text_get(&text),
                   &(weft_plan_options){.ranks = ranks, .train_only = true});
    weft_text_release(&text);
}

/* Embedding, each block and the final norm are gathered in the forward; the head in the backward,
 * and there the blocks again. Each is reduced once.
 */
static void one_per_block(void **state)
{
    (void)state;
    plan_run p;
    start(&p, "llama3 local bf16 fsdp adamw", "", 4);
    found f = count(&p, WEFT_PART_F, WEFT_ALL_GATHER);
    assert_int_equal(f.parts, LAYERS * WEIGHTS + 2);
    assert_int_equal(f.most_parts, WEIGHTS);
    assert_int_equal(f.instructions, LAYERS + 2);
    f = count(&p, WEFT_PART_B, WEFT_ALL_GATHER);
    assert_int_equal(f.parts, LAYERS * WEIGHTS + 1);
    assert_int_equal(f.instructions, LAYERS + 1);
    f = count(&p, WEFT_PART_B, WEFT_REDUCE_SCATTER);
    assert_int_equal(f.parts, LAYERS * WEIGHTS + 3);
    assert_int_equal(f.instructions, LAYERS + 2);
    plan_run_release(&p);
    start(&p, "llama3 local bf16 fsdp adamw", "[fsdp]\ngroup = none\n", 4);
    assert_int_equal(count(&p, WEFT_PART_B, WEFT_REDUCE_SCATTER).instructions,
                     LAYERS * WEIGHTS + 3);
    assert_int_equal(count(&p, WEFT_PART_F, WEFT_ALL_GATHER).most_parts, 1);
    plan_run_release(&p);
}

static int over(const plan_run *p, weft_part part, weft_move move, const char *axis)
{
    const weft_lowered *l = p->plan->lowered[WEFT_MODE_TRAIN];
    const weft_program *program = weft_lowered_program(l, part, 0);
    int n = 0;
    for (int i = 0; i < program->n; i++) {
        const weft_instruction *in = &program->list[i];
        n += does(in, move) && in->node->steps[0].n_axes == 1 &&
             strcmp(l->graph->config.mesh.axis[in->node->steps[0].axes[0]].name, axis) == 0;
    }
    return n;
}

/* Each level is one per block, on the way in and on the way back; the backward gathers within a
 * copy alone, but for the head, whose forward runs there. */
static void two_levels(void **state)
{
    (void)state;
    plan_run p;
    start(&p, "llama3 local bf16 fsdp adamw",
          "[fsdp]\ndegree = 2\nreplicate = 2\ntwo_level = micro_batch\n", 4);
    assert_int_equal(over(&p, WEFT_PART_F, WEFT_ALL_GATHER, "dp_replicate"), LAYERS + 2);
    assert_int_equal(over(&p, WEFT_PART_F, WEFT_ALL_GATHER, "dp_shard"), LAYERS + 2);
    assert_int_equal(over(&p, WEFT_PART_B, WEFT_ALL_GATHER, "dp_replicate"), 1);
    assert_int_equal(over(&p, WEFT_PART_B, WEFT_ALL_GATHER, "dp_shard"), LAYERS + 1);
    assert_int_equal(over(&p, WEFT_PART_B, WEFT_REDUCE_SCATTER, "dp_shard"), LAYERS + 2);
    assert_int_equal(over(&p, WEFT_PART_B, WEFT_REDUCE_SCATTER, "dp_replicate"), LAYERS + 2);
    plan_run_release(&p);
    start(&p, "llama3 local bf16 fsdp adamw",
          "[fsdp]\ndegree = 2\nreplicate = 2\ntwo_level = step\n", 4);
    assert_int_equal(over(&p, WEFT_PART_BEGIN, WEFT_ALL_GATHER, "dp_replicate"), LAYERS + 2);
    assert_int_equal(over(&p, WEFT_PART_F, WEFT_ALL_GATHER, "dp_replicate"), 0);
    assert_int_equal(over(&p, WEFT_PART_B, WEFT_REDUCE_SCATTER, "dp_replicate"), 0);
    assert_int_equal(over(&p, WEFT_PART_STEP_END, WEFT_REDUCE_SCATTER, "dp_replicate"), LAYERS + 2);
    plan_run_release(&p);
}

/* Instruction of the gather of block b and of the first computation that belongs to it. */
static void find_block(const plan_run *p, weft_part part, int block, int *gather, int *compute)
{
    const weft_program *program = weft_lowered_program(p->plan->lowered[WEFT_MODE_TRAIN], part, 0);
    *gather = *compute = -1;
    for (int i = program->n - 1; i >= 0; i--) {
        const weft_instruction *in = &program->list[i];
        if (in->node->block != block)
            continue;
        if (does(in, WEFT_ALL_GATHER))
            *gather = i;
        else if (in->kind == WEFT_COMPUTE && !in->node->outs[0]->weight)
            *compute = i;
    }
    assert_true(*gather >= 0 && *compute >= 0);
}

static void gathers_run_ahead(void **state)
{
    (void)state;
    for (int ahead = 0; ahead <= 2; ahead++) {
        char section[64];
        plan_run p;
        snprintf(section, sizeof section, "[fsdp]\nprefetch = %d\n", ahead);
        start(&p, "llama3 local bf16 fsdp adamw", section, 4);
        for (int b = 1; b < LAYERS; b++) {
            int gather, mine, compute, before, earlier;
            find_block(&p, WEFT_PART_F, b, &gather, &mine);
            find_block(&p, WEFT_PART_F, b - 1, &earlier, &compute);
            assert_true(gather < mine && earlier < gather);
            assert_int_equal(gather<compute, ahead> 0);
            if (b < 2)
                continue;
            find_block(&p, WEFT_PART_F, b - 2, &before, &compute);
            assert_int_equal(gather<compute, ahead> 1);
        }
        for (int b = 0; b + 1 < LAYERS; b++) { /* the other way round */
            int gather, mine, compute, earlier;
            find_block(&p, WEFT_PART_B, b, &gather, &mine);
            find_block(&p, WEFT_PART_B, b + 1, &earlier, &compute);
            assert_true(gather < mine && earlier < gather);
            assert_int_equal(gather<compute, ahead> 0);
        }
        plan_run_release(&p);
    }
}

/* Moves of weights and gradients are on a queue of their own, and whoever reads their results waits
 * for them. */
static void own_queue(void **state)
{
    (void)state;
    plan_run p;
    start(&p, "llama3 local bf16 tp fsdp adamw", "[tp]\ndegree = 2\n", 4);
    const weft_program *program =
        weft_lowered_program(p.plan->lowered[WEFT_MODE_TRAIN], WEFT_PART_F, 0);
    int moved = 0, waited = 0, others = 0;
    for (int i = 0; i < program->n; i++) {
        const weft_instruction *in = &program->list[i];
        bool weights = in->kind == WEFT_COLLECTIVE && weft_instruction_out(in, 0)->weight;
        assert_int_equal(in->queue, weights);
        moved += weights;
        others += in->kind == WEFT_COLLECTIVE && !weights;
        for (int k = 0; k < in->n_waits; k++)
            waited += program->list[in->waits[k]].queue != in->queue;
    }
    assert_true(moved >= LAYERS && waited >= LAYERS && others > 0);
    plan_run_release(&p);
}

/* What is summed once a step is summed at once: the norms' gradients over tp; replicated gradients
 * by size. */
static void small_sums_at_once(void **state)
{
    (void)state;
    plan_run p;
    start(&p, "llama3 local tp adamw", "[tp]\ndegree = 2\n", 2);
    found f = count(&p, WEFT_PART_STEP_END, WEFT_ALL_REDUCE);
    assert_int_equal(f.most_parts, 2 * LAYERS + 1);
    plan_run_release(&p);
    start(&p, "llama3 local fsdp adamw", "[fsdp]\nzero = 0\n", 2);
    f = count(&p, WEFT_PART_STEP_END, WEFT_ALL_REDUCE);
    assert_int_equal(f.most_parts, LAYERS * WEIGHTS + 3);
    plan_run_release(&p);
}

/* As many as there are: more than a node may have operands. */
static void small_sums_of_many_blocks(void **state)
{
    (void)state;
    plan_run p;
    plan_run_start(&p, "llama3 local fsdp adamw",
                   "[train]\nsteps = 2\nseq_len = 16\nglobal_batch = 8\nmicro_batch = 4\n[llama3]\n"
                   "dim = 8\nn_layers = 20\nn_heads = 2\nn_kv_heads = 2\nhead_dim = 4\nffn_dim = "
                   "8\nvocab_size = 8\n[fsdp]\nzero = 0\n",
                   &(weft_plan_options){.ranks = 2, .train_only = true});
    found f = count(&p, WEFT_PART_STEP_END, WEFT_ALL_REDUCE);
    assert_int_equal(f.most_parts, 20 * WEIGHTS + 3);
    plan_run_release(&p);
}

/* Scales of rows that ranks hold unevenly are gathered with all others', and a set that is put
 * needs what still waited: everything stands once, behind what it reads. */
static void uneven_rows(void **state)
{
    (void)state;
    for (int degree = 2; degree <= 7; degree++)
        for (int hp = 0; hp < 2; hp++) {
            plan_run p;
            char sections[512];
            snprintf(sections, sizeof sections,
                     "[train]\nsteps = 2\nseq_len = 16\nglobal_batch = 8\nmicro_batch = 4\n"
                     "[llama3]\ndim = 30\nn_layers = 2\nn_heads = 2\nn_kv_heads = 1\n"
                     "head_dim = 6\nffn_dim = 15\nvocab_size = 259\n[tp]\ndegree = 2\n"
                     "[fsdp]\ndegree = %d\n[float8]\nrecipe = %s\nhead = yes\nmultiple = 1\n",
                     degree, hp ? "rowwise_gw_hp" : "rowwise");
            plan_run_start(&p, "llama3 local float8 fsdp tp adamw", sections,
                           &(weft_plan_options){.ranks = 2 * degree, .train_only = true});
            const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
            for (int a = 0; a < l->n_programs; a++)
                for (int i = 0; i < l->programs[a].n; i++)
                    for (int k = 0; k < l->programs[a].list[i].n_waits; k++)
                        assert_true(l->programs[a].list[i].waits[k] < i);
            plan_run_release(&p);
        }
}

/* ---- beside the computation, on a device that computes later ---- */

static bool reads(const weft_instruction *in, const weft_instruction *gather)
{
    for (int i = 0; i < in->n_ins; i++)
        for (int r = 0; r < gather->n_outs; r++)
            if (weft_instruction_in(in, i) == weft_instruction_out(gather, r))
                return true;
    return false;
}

/* The first that waits for instruction k; p->n: nobody here. */
static int first_waiter(const weft_program *p, int k)
{
    for (int i = k + 1; i < p->n; i++)
        for (int w = 0; w < p->list[i].n_waits; w++)
            if (p->list[i].waits[w] == k)
                return i;
    return p->n;
}

/* Where another block's attention has its gradient, behind k; p->n: nowhere. */
static int next_block(const weft_program *p, int k)
{
    for (int i = k + 1; i < p->n; i++)
        if (p->list[i].kind == WEFT_COMPUTE &&
            strcmp(p->list[i].node->op->name, "attention_dx") == 0)
            return i;
    return p->n;
}

static void check_waits(const weft_program *p, int *gathers, int *reductions)
{
    for (int k = 0; k < p->n; k++) {
        const weft_instruction *in = &p->list[k];
        const int waiter = first_waiter(p, k);
        if (in->kind != WEFT_COLLECTIVE || in->queue != WEFT_QUEUE_COLLECTIVES || waiter == p->n)
            continue;
        if (does(in, WEFT_ALL_GATHER) && in->node->outs[0]->weight) {
            if (!reads(&p->list[waiter], in))
                fail_msg("%s waits for %s and does not read it",
                         p->list[waiter].node->outs[0]->name, in->node->outs[0]->name);
            (*gathers)++;
        } else if (next_block(p, k) < p->n) {
            if (waiter < next_block(p, k))
                fail_msg("%s waits for %s before the next block is through",
                         p->list[waiter].node->outs[0]->name, in->node->outs[0]->name);
            (*reductions)++;
        }
    }
}

/* Whoever waits for a gather reads it, and a block's gradients are reduced while the next one
 * computes: memory that they are made from is not used again before. */
static void nobody_waits_too_soon(void **state)
{
    (void)state;
    static const char *const sections[] = {"", "[fsdp]\nreshard = no\n",
                                           "[tp]\ndegree = 2\n[fsdp]\ndegree = 2\n"};
    for (int i = 0; i < 3; i++) {
        plan_run p;
        int gathers = 0, reductions = 0;
        start(&p,
              i < 2 ? "llama3 later local bf16 fsdp adamw"
                    : "llama3 later local bf16 tp fsdp adamw",
              sections[i], 4);
        const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
        for (int a = 0; a < l->n_programs; a++)
            check_waits(&l->programs[a], &gathers, &reductions);
        assert_true(gathers >= LAYERS - 1);
        assert_true(reductions >= LAYERS - 1);
        plan_run_release(&p);
    }
}

/* A rank's share of all that is summed at once is not the sum of its shares of each: of a number
 * alone every rank would have all of it. */
static void small_sums_are_priced_together(void **state)
{
    (void)state;
    plan_run p;
    int seen = 0;
    start(&p, "llama3 local fsdp adamw", "[fsdp]\nzero = 0\n", 8);
    const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    const weft_program *end = weft_lowered_program(l, WEFT_PART_STEP_END, 0);
    for (int i = 0; i < end->n; i++) {
        const weft_instruction *in = &end->list[i];
        int64_t elements = 0, bytes = 0;
        if (in->kind != WEFT_COLLECTIVE || !in->parts || in->node->steps->move != WEFT_ALL_REDUCE)
            continue;
        for (int k = 0; k < in->n_ins; k++) {
            if (weft_part_goes_alone(l->graph, in->parts[k]))
                continue;
            elements += weft_tensor_count(&in->tensors[k]);
            bytes += weft_part_sent_bytes(l->graph, in, k);
        }
        assert_int_equal(bytes, 2 * 7 * ((elements + 7) / 8) * 4);
        seen += in->n_ins > 1;
    }
    assert_true(seen > 0);
    plan_run_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_per_block),
        cmocka_unit_test(two_levels),
        cmocka_unit_test(gathers_run_ahead),
        cmocka_unit_test(own_queue),
        cmocka_unit_test(small_sums_at_once),
        cmocka_unit_test(small_sums_of_many_blocks),
        cmocka_unit_test(uneven_rows),
        cmocka_unit_test(nobody_waits_too_soon),
        cmocka_unit_test(small_sums_are_priced_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
