/* SPDX-License-Identifier: Apache-2.0 */
/* Times by a roofline, against sums made by hand. */
#include "../../lib/plan_run.h"
#include "forecast/roofline.h"

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

/* Of six ranks, two of tp and three of dp: three a host are {0 1 2} {3 4 5}, four {0 1 2 3} {4 5}.
 */
static void hosts_end_in_the_middle_of_groups(void **state)
{
    (void)state;
    const weft_mesh six = {.n_axes = 2,
                           .axis = {{.name = "tp", .size = 2}, {.name = "dp", .size = 3}}};
    const int axes[] = {1, 0};
    const struct {
        int host, first, n, near, hosts;
    } cases[] = {{3, 1, 2, 1, 2}, {3, 0, 3, 1, 2}, {3, 0, 6, 3, 2}, {4, 1, 2, 2, 1},
                 {4, 0, 3, 1, 2}, {4, 0, 6, 2, 2}, {1, 0, 6, 1, 6}, {7, 0, 6, 6, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const weft_device_rates rates = {.host = cases[i].host};
        const weft_reach at =
            weft_reach_of(&rates, &six, axes + cases[i].first, cases[i].n == 6 ? 2 : 1);
        if (at.n != cases[i].n || at.near != cases[i].near || at.hosts != cases[i].hosts)
            fail_msg("case %zu: %d ranks, %d near, %d hosts", i, at.n, at.near, at.hosts);
    }
}

/* 100 bytes a rank, or a piece. */
static double send(weft_move move, int n_axes, int axis)
{
    const weft_step step = {.move = move, .n_axes = n_axes, .axes = {axis, 1 - axis}};
    const weft_roofline r = {.rates = links};
    return weft_roofline_send(&r, &mesh, &step, 25, WEFT_F32, WEFT_REDUCE_SUM);
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

/* 100 bytes are sent, or n times as many, and so received. */
static void the_host_is_on_the_way(void **state)
{
    (void)state;
    weft_roofline r = {.rates = links};
    const weft_step gather = {.move = WEFT_ALL_GATHER, .n_axes = 1, .axes = {0}},
                    reduce = {.move = WEFT_ALL_REDUCE, .n_axes = 1, .axes = {1}},
                    shift = {.move = WEFT_SHIFT, .n_axes = 1, .axes = {0}},
                    keep = {.move = WEFT_KEEP, .n_axes = 1, .axes = {0}};
    r.rates.host_link = 50;
    weft_roofline_stage(&r);
    assert_seconds(r.rates.link, 50);
    assert_seconds(weft_roofline_send(&r, &mesh, &gather, 25, WEFT_F32, WEFT_REDUCE_SUM),
                   (1 + 4) * 2 + 6 + 3);
    assert_seconds(weft_roofline_send(&r, &mesh, &reduce, 25, WEFT_F32, WEFT_REDUCE_SUM),
                   (1 + 1) * 2 + 175 / 20.0 + 2 * (4 + 3 * 1000));
    assert_seconds(weft_roofline_send(&r, &mesh, &shift, 25, WEFT_F32, WEFT_REDUCE_SUM),
                   (1 + 1) * 2 + 2 + 1);
    assert_seconds(weft_roofline_send(&r, &mesh, &keep, 25, WEFT_F32, WEFT_REDUCE_SUM), 0);
}

/* An all_reduce as an all_gather of all terms, a reduce_scatter as an all_to_all; then the device
 * reads n terms and writes one. */
static void terms_are_sent_as_they_are(void **state)
{
    (void)state;
    weft_roofline r = {.rates = links, .terms = {[WEFT_REDUCE_SUM] = true}};
    const weft_step reduce = {.move = WEFT_ALL_REDUCE, .n_axes = 1, .axes = {0}},
                    scatter = {.move = WEFT_REDUCE_SCATTER, .n_axes = 1, .axes = {0}};
    r.rates.memory = 50;
    assert_seconds(weft_roofline_send(&r, &mesh, &reduce, 25, WEFT_F32, WEFT_REDUCE_SUM),
                   3 + 3 + 10);
    assert_seconds(weft_roofline_send(&r, &mesh, &scatter, 25, WEFT_F32, WEFT_REDUCE_SUM),
                   3 + 1 + 10);
    assert_seconds(weft_roofline_send(&r, &mesh, &reduce, 25, WEFT_F32, WEFT_REDUCE_MAX),
                   1.5 + 2 * 3);
}

/* A memory of 800 bytes/s: each of four has 200, and copies 100. */
static void ranks_of_one_device_share_it(void **state)
{
    (void)state;
    weft_roofline r = {.rates = links};
    const weft_step gather = {.move = WEFT_ALL_GATHER, .n_axes = 1, .axes = {0}},
                    scatter = {.move = WEFT_REDUCE_SCATTER, .n_axes = 1, .axes = {0}},
                    reduce = {.move = WEFT_ALL_REDUCE, .n_axes = 1, .axes = {0}};
    r.rates.memory = 800;
    r.rates.launch_s = 3;
    r.rates.other = 8;
    r.rates.peak[WEFT_BF16] = r.rates.product[WEFT_BF16] = r.rates.attention[WEFT_BF16] = 16;
    weft_roofline_share(&r, 1);
    assert_seconds(r.rates.memory, 800);
    weft_roofline_share(&r, 4);
    assert_seconds(r.rates.memory, 200);
    assert_seconds(r.rates.launch_s, 12);
    assert_seconds(r.rates.other, 2);
    assert_seconds(r.rates.peak[WEFT_BF16], 4);
    assert_seconds(r.rates.product[WEFT_BF16], 4);
    assert_seconds(r.rates.attention[WEFT_BF16], 4);
    assert_seconds(weft_roofline_send(&r, &mesh, &gather, 25, WEFT_F32, WEFT_REDUCE_SUM), 4);
    assert_seconds(weft_roofline_send(&r, &mesh, &scatter, 25, WEFT_F32, WEFT_REDUCE_SUM), 2.5);
    assert_seconds(weft_roofline_send(&r, &mesh, &reduce, 25, WEFT_F32, WEFT_REDUCE_SUM), 1);
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
    weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    weft_roofline r = {.rates = {.other = 1, .memory = 5 << 10, .launch_s = 1}};
    assert_int_equal(weft_forecast_see(l, NULL, &p.err), WEFT_OK);
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
    /* what a kernel says of itself */
    weft_instruction told = *find(l, "linear");
    told.work = (weft_kernel_work){.launches = 3, .bytes = 80, .dtype = WEFT_BF16};
    r.rates.product[WEFT_BF16] = 1 << 20;
    assert_seconds(weft_roofline_cost(&r, l, &told).seconds, 3 + 80 / 4);
    told.work.before = 60; /* not beside the product */
    assert_seconds(weft_roofline_cost(&r, l, &told).seconds, 3 + 60 / 4 + 20 / 4);
    told.work.before = 0;
    r.rates.product[WEFT_BF16] = 1 << 10;
    assert_seconds(weft_roofline_cost(&r, l, &told).seconds, 3 + (1 << 7));
    plan_run_release(&p);
}

/* ---- lists of tasks ---- */

enum { MOST_TASKS = 5, MOST_INSTRUCTIONS = 5 };

/* A list of tasks, a program each, and when all ran. */
typedef struct course {
    weft_graph g;
    weft_lowered l;
    weft_program programs[MOST_TASKS];
    weft_instruction lists[MOST_TASKS][MOST_INSTRUCTIONS];
    weft_tensor tensors[MOST_TASKS][MOST_INSTRUCTIONS];
    weft_boundary boundaries[2 * MOST_TASKS];
    weft_task tasks[MOST_TASKS];
    weft_task_list list;
    weft_roofline r;
    weft_task_time of[MOST_TASKS], when[MOST_TASKS][MOST_INSTRUCTIONS];
} course;

static void course_start(course *c)
{
    memset(c, 0, sizeof *c);
    c->g.config.mesh = mesh;
    c->r.rates.memory = 1;
    c->list.list = c->tasks;
    c->l = (weft_lowered){
        .graph = &c->g, .tasks = &c->list, .programs = c->programs, .boundaries = c->boundaries};
}

static int add_task(course *c, weft_part part)
{
    const int i = c->list.n++;
    c->tasks[i] = (weft_task){.part = part};
    c->programs[i] = (weft_program){.part = part, .list = c->lists[i]};
    c->l.n_programs++;
    return i;
}

/* Zeros of so many bytes: a byte a second. */
static weft_instruction *add_zeros(course *c, int task, int64_t bytes, int queue)
{
    static const weft_node node;
    weft_program *p = &c->programs[task];
    weft_tensor *t = &c->tensors[task][p->n];
    *t = (weft_tensor){.dtype = WEFT_F8E4M3, .n_dims = 1, .size = {bytes}};
    p->list[p->n] = (weft_instruction){
        .kind = WEFT_ZERO_FILL, .node = &node, .tensors = t, .n_outs = 1, .queue = queue};
    return &p->list[p->n++];
}

static void add_boundary(course *c, int before, int after, weft_boundary_wait *waits, int n)
{
    c->boundaries[c->l.n_boundaries++] =
        (weft_boundary){.before = before, .after = after, .waits = waits, .n_waits = n};
}

static void see(void *self, int task, const weft_instruction *in, const weft_task_time *when)
{
    course *c = self;
    c->when[task][in - c->programs[task].list] = *when;
}

/* Until all is done. */
static double run(course *c)
{
    const weft_course_watch watch = {.self = c, .see = see};
    assert_int_equal(weft_roofline_course(&c->r, &c->l, &watch, c->of, NULL), WEFT_OK);
    return c->of[c->list.n - 1].end;
}

static void queues_go_on_beside_each_other(void **state)
{
    (void)state;
    course c;
    course_start(&c);
    const int f = add_task(&c, WEFT_PART_F);
    add_zeros(&c, f, 20, 1);
    add_zeros(&c, f, 10, 0);
    weft_instruction *third = add_zeros(&c, f, 5, 0);
    add_zeros(&c, f, 7, 1);
    third->waits[0] = 0; /* the first */
    third->n_waits = 1;
    assert_seconds(run(&c), 27);
    assert_seconds(c.when[f][2].start, 20);
    assert_seconds(c.when[f][3].end, 27);
    c.r.in_turn = true;
    assert_seconds(run(&c), 42);
}

/* A forward: 10 s of products and 30 s of sending; a backward: 5 s of sending that need the
 * products, and 8 s and 4 s of products of which the last need what the forward has sent. */
static void tasks_go_on_beside_each_other(void **state)
{
    (void)state;
    course c;
    course_start(&c);
    const int f = add_task(&c, WEFT_PART_F), b = add_task(&c, WEFT_PART_B);
    add_zeros(&c, f, 10, 0);
    add_zeros(&c, f, 30, 1);
    add_zeros(&c, b, 8, 0);
    add_zeros(&c, b, 4, 0);
    add_zeros(&c, b, 5, 1);
    assert_seconds(run(&c), 30 + 12); /* who knows no boundary waits for all */
    weft_boundary_wait waits[] = {{.after = 1, .before = 1}, {.after = 2, .before = 0}};
    add_boundary(&c, f, b, waits, 2);
    assert_seconds(run(&c), 35);
    assert_seconds(c.of[f].end, 10);
    assert_seconds(c.when[b][0].start, 10);
    assert_seconds(c.when[b][1].start, 30);
    assert_seconds(c.when[b][2].start, 30);
    c.boundaries[0].n_waits = 0;
    assert_seconds(run(&c), 35);
    assert_seconds(c.when[b][1].start, 18);
    /* nobody waits longer for what is kept of the first queue */
    add_zeros(&c, f, 0, 0);
    add_zeros(&c, b, 0, 0);
    c.r.captures = true;
    assert_seconds(run(&c), 35);
    /* what is kept of several begins and ends with all in step, whatever it waits for */
    c.r.captures_sent = true;
    assert_seconds(run(&c), 30 + 12);
    assert_seconds(c.when[b][2].start, 30);
    /* ... but not what is looked at */
    c.lists[f][1].fetch = c.lists[b][2].fetch = true;
    assert_seconds(run(&c), 35);
}

/* Behind the next task all of a body is done: 40 s are sent in the first, and nobody needs them. */
static void queues_meet_a_task_late(void **state)
{
    (void)state;
    course c;
    course_start(&c);
    const int f = add_task(&c, WEFT_PART_F), b = add_task(&c, WEFT_PART_B),
              e = add_task(&c, WEFT_PART_STEP_END);
    add_zeros(&c, f, 1, 0);
    add_zeros(&c, f, 40, 1);
    add_zeros(&c, b, 2, 0);
    add_zeros(&c, e, 3, 0);
    add_boundary(&c, f, b, NULL, 0);
    add_boundary(&c, b, e, NULL, 0);
    assert_seconds(run(&c), 43);
    assert_seconds(c.of[b].start, 1);
    assert_seconds(c.when[e][0].start, 40);
    add_zeros(&c, add_task(&c, WEFT_PART_UPDATE), 5, 0); /* before it the host waits */
    c.lists[e][0].queue = 1;
    assert_seconds(run(&c), 40 + 3 + 5);
}

/* A begin makes in 6 s what the forward's prologue sends in 9 s; 4 s of products beside that. */
static void prologues_go_on_beside_the_task_before(void **state)
{
    (void)state;
    course c;
    course_start(&c);
    const int a = add_task(&c, WEFT_PART_BEGIN), f = add_task(&c, WEFT_PART_F),
              b = add_task(&c, WEFT_PART_B);
    add_zeros(&c, a, 6, 0);
    add_zeros(&c, f, 9, 1);
    add_zeros(&c, f, 4, 0);
    c.programs[f].n_prologue = 1;
    add_zeros(&c, b, 11, 1);
    add_zeros(&c, b, 2, 0);
    c.programs[b].n_prologue = 1;
    weft_boundary_wait waits[] = {{.after = 0, .before = 0}};
    add_boundary(&c, a, f, waits, 1);
    c.boundaries[0].prologue = true;
    add_boundary(&c, a, f, NULL, 0);
    add_boundary(&c, a, b, NULL, 0);
    c.boundaries[2].prologue = true;
    add_boundary(&c, f, b, NULL, 0);
    assert_seconds(run(&c), 6 + 9 + 11);
    assert_seconds(c.when[f][0].start, 6);
    assert_seconds(c.when[f][1].start, 6);
    assert_seconds(c.when[b][0].start, 15);
    assert_seconds(c.when[b][1].start, 10);
}

/* A shard goes round while 10 bytes are computed, and is waited for. */
static void rings_go_on_beside_what_is_computed(void **state)
{
    (void)state;
    course c;
    weft_step step = {.move = WEFT_SHIFT, .n_axes = 1, .axes = {0}};
    const weft_node shift = {.n_steps = 1, .steps = &step};
    course_start(&c);
    const int f = add_task(&c, WEFT_PART_F);
    add_zeros(&c, f, 2900, 0);
    weft_instruction *send = add_zeros(&c, f, 2900, 0);
    add_zeros(&c, f, 10, 0);
    weft_instruction *await = add_zeros(&c, f, 0, 0);
    add_zeros(&c, f, 5, 0);
    send[-1].kind = WEFT_POST_RECV;
    send->kind = WEFT_POST_SEND;
    await->kind = WEFT_AWAIT;
    send[-1].node = send->node = await->node = &shift;
    send->transfer = 1;
    c.l.n_transfers = 2;
    c.r.rates = links;
    c.r.rates.memory = 1;
    assert_seconds(run(&c), 30 + 5);
    c.r.in_turn = true;
    assert_seconds(run(&c), 30 + 10 + 5);
}

/* ---- ranks of a pipeline ---- */

static const weft_step step_on = {.move = WEFT_SEND, .n_axes = 1, .axes = {0}, .dim = 0, .to = 1};
static const weft_node sent_on = {.n_steps = 1, .steps = (weft_step *)(uintptr_t)&step_on};

static weft_instruction *add_transfer(course *c, int task, weft_instruction_kind kind)
{
    weft_instruction *in = add_zeros(c, task, 5, 0);
    in->kind = kind;
    in->node = &sent_on;
    c->l.n_transfers = 1;
    return in;
}

static void run_pipeline(course *a, course *b)
{
    weft_lowered *const ranks[] = {&a->l, &b->l};
    weft_task_time *const out[] = {a->of, b->of};
    assert_int_equal(weft_roofline_pipeline(&a->r, ranks, 2, 0, NULL, out, NULL, NULL), WEFT_OK);
}

/* Rank 0 has 10 s of products, puts aside in 2 * 5 s what it sends in 3 + 5 s, and has 4 s more.
 * Rank 1 has 2 s before it needs that, and 6 s behind. */
static void a_stage_waits_for_what_another_sends(void **state)
{
    (void)state;
    course a, b;
    course_start(&a);
    course_start(&b);
    a.r.rates.link = 1;
    a.r.rates.link_s = 3;
    a.r.transfers = true;
    const int f = add_task(&a, WEFT_PART_F);
    add_zeros(&a, f, 10, 0);
    add_transfer(&a, f, WEFT_POST_SEND);
    add_zeros(&a, f, 4, 0);
    add_task(&b, WEFT_PART_F);
    add_transfer(&b, f, WEFT_POST_RECV)->queue = WEFT_QUEUE_TRANSFERS;
    add_zeros(&b, f, 2, 0);
    add_transfer(&b, f, WEFT_AWAIT);
    add_zeros(&b, f, 6, 0);
    b.programs[f].n_prologue = 1;
    run_pipeline(&a, &b);
    assert_seconds(a.of[0].end, 28); /* the host waits for what it has sent */
    assert_seconds(b.of[0].end, 28 + 6);
    assert_seconds(b.of[0].start, 28 - 2);
    assert_int_equal(weft_roofline_course(&a.r, &b.l, NULL, b.of, NULL), WEFT_OK);
    assert_seconds(b.of[0].end, 2 + 6); /* alone */
    /* the second is put aside when the first is through, and comes before it is waited for */
    a.tasks[1] = b.tasks[1] = a.tasks[0];
    a.list.n = b.list.n = 2;
    b.lists[f][1].tensors->size[0] = 60;
    run_pipeline(&a, &b);
    assert_seconds(a.of[0].end, 24);
    assert_seconds(a.of[1].end, 28 + 24);
    assert_seconds(b.of[0].end, 60 + 6);
    assert_seconds(b.of[1].end, 2 * (60 + 6));
    assert_seconds(b.of[1].start, 60 + 6);
}

/* With products of ranks, each send is a launch. */
static void what_is_sent_is_launched(void **state)
{
    (void)state;
    const weft_device_rates rates = {.link = 1, .link_s = 3, .launch_s = 100};
    const weft_roofline r = {.rates = rates};
    course c;
    course_start(&c);
    const weft_instruction *in = add_transfer(&c, add_task(&c, WEFT_PART_F), WEFT_POST_SEND);
    assert_seconds(weft_roofline_transfer(&r, &c.l, in), 100 + 3 + 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_fill_hosts_in_order),
        cmocka_unit_test(hosts_end_in_the_middle_of_groups),
        cmocka_unit_test(rings_take_bytes_and_hops),
        cmocka_unit_test(the_host_is_on_the_way),
        cmocka_unit_test(terms_are_sent_as_they_are),
        cmocka_unit_test(ranks_of_one_device_share_it),
        cmocka_unit_test(the_slower_of_work_and_bytes),
        cmocka_unit_test(queues_go_on_beside_each_other),
        cmocka_unit_test(tasks_go_on_beside_each_other),
        cmocka_unit_test(queues_meet_a_task_late),
        cmocka_unit_test(prologues_go_on_beside_the_task_before),
        cmocka_unit_test(rings_go_on_beside_what_is_computed),
        cmocka_unit_test(a_stage_waits_for_what_another_sends),
        cmocka_unit_test(what_is_sent_is_launched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
