/* SPDX-License-Identifier: Apache-2.0 */
/* Times by a roofline, against sums made by hand. */
#include "plan_run.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static void assert_seconds(double got, double want)
{
    if (fabs(got - want) > 1e-9 * want)
        fail_msg("%.12g s, not %.12g s", got, want);
}

/* ---- what is sent: 4 ranks of tp, 8 of dp, and 8 devices a host ---- */

static const weft_mesh mesh = {.n_axes = 2,
                               .axis = {{.name = "tp", .size = 4}, {.name = "dp", .size = 8}}};
static const weft_device_rates links = {
    .host = 8, .link = 100, .link_s = 1, .net = 10, .net_s = 1000};

static void assert_reach(int n_axes, int first, int n, int near, int hosts)
{
    const int axes[] = {first, 1 - first};
    const weft_reach at = weft_reach_of(&links, &mesh, axes, n_axes);
    assert_int_equal(at.n, n);
    assert_int_equal(at.near, near);
    assert_int_equal(at.hosts, hosts);
}

static void ranks_fill_hosts_in_order(void **state)
{
    (void)state;
    assert_reach(1, 0, 4, 4, 1);
    assert_reach(1, 1, 8, 2, 4);
    assert_reach(2, 0, 32, 8, 4);
    const weft_device_rates unknown = {0};
    const int dp = 1;
    assert_int_equal(weft_reach_of(&unknown, &mesh, &dp, 1).hosts, 1);
}

/* 100 bytes a rank, or a piece. */
static double send(weft_move move, int n_axes, int axis)
{
    const weft_step step = {.move = move, .n_axes = n_axes, .axes = {axis, 1 - axis}};
    return weft_roofline_send(&links, &mesh, &step, 25, WEFT_F32);
}

static void rings_take_bytes_and_hops(void **state)
{
    (void)state;
    assert_seconds(send(WEFT_ALL_GATHER, 1, 0), 3 + 3);
    assert_seconds(send(WEFT_REDUCE_SCATTER, 1, 0), 3 + 3);
    assert_seconds(send(WEFT_ALL_REDUCE, 1, 0), 1.5 + 2 * 3);
    assert_seconds(send(WEFT_SHIFT, 1, 0), 1 + 1);
    assert_seconds(send(WEFT_ALL_TO_ALL, 1, 0), 3 + 1);
    assert_seconds(send(WEFT_SLICE, 1, 0), 0);
    /* two ranks of it on each of four hosts: out of each go the shares of both */
    assert_seconds(send(WEFT_ALL_GATHER, 1, 1), 700 / 20.0 + 4 + 3 * 1000);
    assert_seconds(send(WEFT_ALL_REDUCE, 1, 1), 175 / 20.0 + 2 * (4 + 3 * 1000));
    assert_seconds(send(WEFT_BROADCAST, 1, 1), 100 / 20.0 + 4 + 3 * 1000);
    assert_seconds(send(WEFT_SEND, 1, 1), 10 + 1000);
    assert_seconds(send(WEFT_ALL_TO_ALL, 1, 1), 600 / 10.0 + 1000); /* to six on other hosts */
    /* all eight of a host: their shares are less than the link */
    assert_seconds(send(WEFT_ALL_GATHER, 2, 0), 3100 / 80.0 + 28 + 3 * 1000);
}

/* ---- instructions ---- */

static const weft_instruction *find(const weft_lowered *l, const char *op)
{
    const weft_program *p = weft_lowered_program(l, WEFT_PART_F, 0);
    for (int i = 0; i < p->n; i++)
        if (p->list[i].kind == WEFT_COMPUTE && strcmp(p->list[i].node->op->name, op) == 0)
            return &p->list[i];
    fail_msg("no %s", op);
    return NULL;
}

static void assert_cost(const weft_roofline *r, const weft_lowered *l, const char *op,
                        weft_work work, double seconds, bool known)
{
    const weft_work_cost cost = weft_roofline_cost(r, l, find(l, op));
    assert_int_equal(cost.work, work);
    assert_seconds(cost.seconds, seconds);
    assert_int_equal(cost.known, known);
}

/* 4 samples of 16 places, 32 wide: a product [64 32] [32 32] has 2^17 operations and 5 * 2^12
 * bytes; attention has 2^17, of which a causal mask leaves 17 of 32, and a norm reads 2^11 + 2^5
 * f32 and writes 2^11. */
static void the_slower_of_work_and_bytes(void **state)
{
    (void)state;
    plan_run p;
    plan_run_start(&p, "llama3 adamw",
                   "[train]\nsteps = 2\nseq_len = 16\nglobal_batch = 4\n[llama3]\ndim = 32\n"
                   "n_layers = 1\nn_heads = 4\nffn_dim = 48\nvocab_size = 64\n",
                   &(weft_plan_options){.ranks = 1, .train_only = true});
    const weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    weft_roofline r = {.rates = {.other = 1, .memory = 5 << 10, .launch_s = 1}};
    r.rates.product[WEFT_F32] = 1 << 16;
    r.rates.attention[WEFT_F32] = 1 << 10;
    assert_cost(&r, l, "linear", WEFT_WORK_PRODUCT, 1 + 4, true);
    r.rates.memory = 0; /* unknown */
    assert_cost(&r, l, "linear", WEFT_WORK_PRODUCT, 1 + 2, true);
    assert_cost(&r, l, "attention", WEFT_WORK_ATTENTION, 1 + 128, true);
    r.rates.skips_masked = true;
    assert_cost(&r, l, "attention", WEFT_WORK_ATTENTION, 1 + 68, true);
    r.rates.memory = 4;
    r.rates.other = 1e12;
    assert_cost(&r, l, "rms_norm", WEFT_WORK_OTHER, 1 + (1 << 11) + (1 << 5) + (1 << 11), true);
    r.rates.product[WEFT_F32] = 0;
    assert_cost(&r, l, "linear", WEFT_WORK_PRODUCT, 1 + (5 << 10), false);
    plan_run_release(&p);
}

/* ---- programs ---- */

/* Zeros of so many bytes: a byte a second. */
static weft_instruction zeros(weft_tensor *tensor, int64_t bytes, int queue)
{
    static const weft_node node;
    *tensor = (weft_tensor){.dtype = WEFT_F8E4M3, .n_dims = 1, .size = {bytes}};
    return (weft_instruction){
        .kind = WEFT_ZERO_FILL, .node = &node, .tensors = tensor, .n_outs = 1, .queue = queue};
}

static void queues_go_on_beside_each_other(void **state)
{
    (void)state;
    weft_tensor t[4];
    int first = 0;
    weft_instruction list[] = {zeros(&t[0], 20, 1), zeros(&t[1], 10, 0), zeros(&t[2], 5, 0),
                               zeros(&t[3], 7, 1)};
    list[2].waits = &first;
    list[2].n_waits = 1;
    weft_graph g = {.config.mesh = mesh};
    const weft_lowered l = {.graph = &g};
    weft_program p = {.list = list, .n = 4};
    weft_task_time times[4];
    weft_roofline r = {.rates = {.memory = 1}};
    assert_seconds(weft_roofline_run(&r, &l, &p, times), 27);
    assert_seconds(times[2].start, 20);
    assert_seconds(times[3].end, 27);
    r.in_turn = true;
    assert_seconds(weft_roofline_run(&r, &l, &p, times), 42);
    r.in_turn = false;
    p.n_prologue = 1; /* the task before has begun it; the next one's takes as long */
    assert_seconds(weft_roofline_run(&r, &l, &p, times), 27);
    assert_seconds(times[2].start, 10);
}

/* A shard goes round while 10 bytes are computed, and is waited for. */
static void rings_go_on_beside_what_is_computed(void **state)
{
    (void)state;
    weft_tensor t[4];
    weft_step step = {.move = WEFT_SHIFT, .n_axes = 1, .axes = {0}};
    const weft_node shift = {.n_steps = 1, .steps = &step};
    weft_instruction list[] = {zeros(&t[0], 2900, 0), zeros(&t[1], 10, 0), zeros(&t[2], 0, 0),
                               zeros(&t[3], 5, 0)};
    list[0].kind = WEFT_POST_SEND;
    list[2].kind = WEFT_AWAIT;
    list[0].node = list[2].node = &shift;
    weft_graph g = {.config.mesh = mesh};
    const weft_lowered l = {.graph = &g};
    const weft_program p = {.list = list, .n = 4};
    weft_task_time times[4];
    weft_roofline r = {.rates = links};
    r.rates.memory = 1;
    assert_seconds(weft_roofline_run(&r, &l, &p, times), 30 + 5);
    r.in_turn = true;
    assert_seconds(weft_roofline_run(&r, &l, &p, times), 30 + 10 + 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_fill_hosts_in_order),
        cmocka_unit_test(rings_take_bytes_and_hops),
        cmocka_unit_test(the_slower_of_work_and_bytes),
        cmocka_unit_test(queues_go_on_beside_each_other),
        cmocka_unit_test(rings_go_on_beside_what_is_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
