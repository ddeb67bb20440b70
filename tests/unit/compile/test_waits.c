/* SPDX-License-Identifier: Apache-2.0 */
/* Waits of programs at random: every two instructions that touch the same memory are in some order,
 * by a definition of order that is written down here, and no wait can be left out. */
#include "../../lib/order_proof.h"
#include "compile/program/waits.h"

#include <weft/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST = 40, BUFFERS = 10, OPERANDS = 3, PROGRAMS = 300 };

/* One program, and what its instructions touch. */
typedef struct drawn {
    weft_lowered l;
    weft_program program;
    weft_task_list tasks;
    weft_instruction list[MOST];
    weft_buffer buffers[BUFFERS];
    int operands[MOST][OPERANDS];
} drawn;

static uint64_t dice(uint64_t seed, uint64_t *at, uint64_t sides)
{
    return weft_random_bits(seed, 77, (*at)++) % sides;
}

/* Little memory is touched often, or much of it seldom: by the seed. */
static void draw(drawn *d, uint64_t seed)
{
    static const weft_op op = {.name = "op"};
    static const weft_node node = {.op = &op};
    uint64_t at = 0, room = 4 + dice(seed, &at, 60);
    memset(d, 0, sizeof *d);
    for (int b = 0; b < BUFFERS; b++)
        d->buffers[b] =
            (weft_buffer){.base = dice(seed, &at, 4) ? WEFT_BASE_ARENA : WEFT_BASE_STATE,
                          .offset = (int64_t)dice(seed, &at, room),
                          .bytes = 1 + (int64_t)dice(seed, &at, 4)};
    d->program = (weft_program){.part = WEFT_PART_F, .list = d->list};
    d->program.n = 2 + (int)dice(seed, &at, MOST - 1);
    for (int i = 0; i < d->program.n; i++) {
        weft_instruction *in = &d->list[i];
        *in = (weft_instruction){.node = &node, .event = -1, .workspace = -1};
        in->n_ins = (int)dice(seed, &at, OPERANDS);
        in->n_outs = 1;
        in->buffers = d->operands[i];
        for (int k = 0; k < OPERANDS; k++)
            in->buffers[k] = dice(seed, &at, 12) ? (int)dice(seed, &at, BUFFERS) : -1;
        if (dice(seed, &at, 5) == 0)
            in->workspace = (int)dice(seed, &at, BUFFERS);
    }
    d->l = (weft_lowered){.tasks = &d->tasks,
                          .buffers = d->buffers,
                          .n_buffers = BUFFERS,
                          .programs = &d->program,
                          .n_programs = 1};
}

/* ---- what order means ---- */

static bool touches(const drawn *d, int i, int64_t byte, weft_base base, bool *writes)
{
    const weft_instruction *in = &d->list[i];
    bool touched = false;
    for (int k = 0; k <= in->n_ins + in->n_outs; k++) {
        int b = k < in->n_ins + in->n_outs ? in->buffers[k] : in->workspace;
        if (b < 0 || d->buffers[b].base != base || byte < d->buffers[b].offset ||
            byte >= d->buffers[b].offset + d->buffers[b].bytes)
            continue;
        touched = true;
        *writes = *writes || k >= in->n_ins;
    }
    return touched;
}

/* Some byte is touched by both, and written by one. */
static bool conflict(const drawn *d, int i, int k)
{
    static const weft_base bases[] = {WEFT_BASE_ARENA, WEFT_BASE_STATE};
    for (int b = 0; b < 2; b++)
        for (int64_t byte = 0; byte < 70; byte++) {
            bool writes = false;
            if (touches(d, i, byte, bases[b], &writes) && touches(d, k, byte, bases[b], &writes) &&
                writes)
                return true;
        }
    return false;
}

/* The first two that conflict and are in no order; `but`: as if i did not wait for its wait k. */
static bool in_order(const drawn *d, int but_i, int but_k)
{
    static bool before[MOST][MOST]; /* [i][k]: k is done when i begins */
    memset(before, 0, sizeof before);
    for (int i = 0; i < d->program.n; i++) {
        const weft_instruction *in = &d->list[i];
        for (int k = 0; k < i; k++) {
            bool direct = d->list[k].queue == in->queue;
            for (int w = 0; w < in->n_waits; w++)
                direct = direct || (in->waits[w] == k && (i != but_i || w != but_k));
            for (int j = 0; direct && j < k; j++)
                before[i][j] = before[i][j] || before[k][j];
            before[i][k] = before[i][k] || direct;
        }
        for (int k = 0; k < i; k++)
            if (!before[i][k] && conflict(d, i, k))
                return false;
    }
    return true;
}

/* ---- the test ---- */

static void check_drawn(uint64_t seed, int n_queues, int *n_waits)
{
    static drawn d;
    weft_error err = {0};
    bool waited_for[MOST] = {false};
    draw(&d, seed);
    assert_int_equal(weft_plan_waits(&d.l, n_queues, seed, &err), WEFT_OK);
    if (!in_order(&d, -1, -1))
        fail_msg("program %d on %d queues: some memory is touched in no order", (int)seed,
                 n_queues);
    assert_int_equal(check_order(&d.l, &err), WEFT_OK);
    for (int i = 0; i < d.program.n; i++)
        for (int k = 0; k < d.list[i].n_waits; k++, ++*n_waits) {
            int on = d.list[i].waits[k];
            assert_true(on < i && d.list[on].queue != d.list[i].queue);
            waited_for[on] = true;
            if (in_order(&d, i, k))
                fail_msg("program %d on %d queues: %d need not wait for %d", (int)seed, n_queues, i,
                         on);
            /* what proves plans finds it missing, too */
            int last = d.list[i].waits[--d.list[i].n_waits];
            d.list[i].waits[k] = last;
            assert_int_equal(check_order(&d.l, &err), WEFT_ERR_INTERNAL);
            weft_error_clear(&err);
            d.list[i].waits[k] = on;
            d.list[i].waits[d.list[i].n_waits++] = last;
        }
    for (int i = 0; i < d.program.n; i++)
        assert_int_equal(d.list[i].event >= 0, waited_for[i]);
    weft_error_release(&err);
    weft_pool_release(&d.l.pool);
}

static void any_program(void **state)
{
    (void)state;
    for (int n_queues = 2; n_queues <= WEFT_MOST_QUEUES; n_queues++) {
        int n_waits = 0;
        for (uint64_t seed = 1; seed <= PROGRAMS; seed++)
            check_drawn(seed, n_queues, &n_waits);
        assert_true(n_waits > PROGRAMS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
