/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: every choice has one of its own or is counted as refused, whatever the groups are; and
 * what is sent, multiplied by nothing and combined is each token as often as it chose. */
#include "../moe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { BATCH = 4, SEQ = 6, K = 2, EXPERTS = 8, WIDTH = 3, CHOICES = BATCH * SEQ * K };

/* Who chooses what. */
typedef enum skew { EVEN, ONE, FEW, SKEWS } skew;

typedef struct world {
    int64_t batches, parts, owners;
    double room;
    moe_groups m;
    weft_attr attrs[5];
    int32_t chosen[CHOICES], slot[CHOICES], counts[BATCH * SEQ * EXPERTS];
    double refused[BATCH * SEQ], most[BATCH * SEQ];
} world;

static weft_tensor tensor(void *data, weft_dtype dtype, int n, const int64_t *size)
{
    weft_tensor t = {.data = data, .dtype = dtype, .n_dims = n};
    for (int d = 0; d < n; d++) {
        t.size[d] = t.whole[d] = size[d];
        t.grain[d] = 1;
    }
    return t;
}

static void choose(world *w, skew how, uint64_t seed)
{
    for (int i = 0; i < CHOICES; i++) {
        const int32_t n = how == ONE ? 1 : how == FEW ? 3 : EXPERTS;
        const uint64_t first = weft_random_bits(seed, 1, (uint64_t)(i / K)) % (uint64_t)n;
        w->chosen[i] = (int32_t)((first + (uint64_t)(i % K)) % EXPERTS);
    }
}

static void call_op(const world *w, const weft_op *op, const weft_tensor *ins, int n_ins,
                    const weft_tensor *outs, int n_outs)
{
    weft_error err = {0};
    const weft_call call = {.op = op,
                            .attrs = w->attrs,
                            .n_attrs = 5,
                            .n_ins = n_ins,
                            .n_outs = n_outs,
                            .ins = ins,
                            .outs = outs};
    if (op->plain(&call, &err))
        fail_msg("%s", weft_error_text(&err));
}

static weft_tensor chosen_of(world *w, int32_t *list)
{
    (void)w;
    return tensor(list, WEFT_I32, 3, (int64_t[]){BATCH, SEQ, K});
}

static void assign(world *w)
{
    const weft_attr attrs[] = {{.key = "experts", .kind = WEFT_ATTR_INT, .i = EXPERTS},
                               {.key = "batches", .kind = WEFT_ATTR_INT, .i = w->batches},
                               {.key = "parts", .kind = WEFT_ATTR_INT, .i = w->parts},
                               {.key = "owners", .kind = WEFT_ATTR_INT, .i = w->owners},
                               {.key = "room", .kind = WEFT_ATTR_REAL, .r = w->room}};
    memcpy(w->attrs, attrs, sizeof attrs);
    w->m = moe_groups_of(EXPERTS, w->batches, w->parts, w->owners, w->room, BATCH, SEQ, K);
    const int64_t groups[] = {w->batches, w->parts, EXPERTS};
    const weft_tensor in = chosen_of(w, w->chosen);
    call_op(w, &moe_assign, &in, 1,
            (weft_tensor[]){tensor(w->counts, WEFT_I32, 3, groups), chosen_of(w, w->slot),
                            tensor(w->refused, WEFT_F64, 2, groups),
                            tensor(w->most, WEFT_F64, 2, groups)},
            4);
}

/* The token group of a choice. */
static int64_t group_of(const world *w, int64_t i)
{
    const int64_t b = i / K / SEQ * w->batches / BATCH, s = i / K % SEQ * w->parts / SEQ;
    return b * w->parts + s;
}

static void check_slots(const world *w)
{
    const int64_t each = EXPERTS / w->owners, pairs = w->batches * w->parts * w->owners;
    int32_t *owner = calloc((size_t)(pairs * w->m.slots), sizeof *owner);
    double refused = 0, used = 0;
    for (int64_t i = 0; i < CHOICES; i++) {
        if (w->slot[i] < 0)
            continue;
        const int64_t pair = group_of(w, i) * w->owners + w->chosen[i] / each;
        assert_in_range(w->slot[i], 0, w->m.slots - 1);
        assert_int_equal(owner[pair * w->m.slots + w->slot[i]], 0);
        owner[pair * w->m.slots + w->slot[i]] = 1 + w->chosen[i];
        used++;
    }
    for (int64_t p = 0; p < pairs; p++) /* by expert, without gaps, as many as are counted */
        for (int64_t x = p % w->owners * each, at = 0; x < (p % w->owners + 1) * each; x++)
            for (int64_t n = w->counts[p / w->owners * EXPERTS + x]; n > 0; n--, at++)
                assert_int_equal(owner[p * w->m.slots + at], 1 + x);
    for (int64_t i = 0; i < w->batches * w->parts; i++)
        refused += w->refused[i];
    assert_true(used + refused == CHOICES);
    assert_true(w->room > 0 || refused == 0);
    free(owner);
}

/* dispatch, then combine: each token times the number of its choices that have a slot. */
static void check_way(world *w)
{
    double x[BATCH * SEQ * WIDTH], y[BATCH * SEQ * WIDTH];
    const int64_t rows = w->batches * w->parts * w->owners * w->m.slots;
    double *sent = malloc((size_t)(rows * WIDTH) * sizeof *sent);
    for (int i = 0; i < BATCH * SEQ * WIDTH; i++)
        x[i] = 1 + i;
    const int64_t tokens[] = {BATCH, SEQ, WIDTH},
                  slots[] = {w->batches, w->parts, w->owners, w->m.slots, WIDTH};
    const weft_tensor chosen = chosen_of(w, w->chosen), slot = chosen_of(w, w->slot),
                      buffer = tensor(sent, WEFT_F64, 5, slots),
                      out = tensor(y, WEFT_F64, 3, tokens);
    call_op(w, &moe_dispatch, (weft_tensor[]){tensor(x, WEFT_F64, 3, tokens), chosen, slot}, 3,
            &buffer, 1);
    call_op(w, &moe_combine, (weft_tensor[]){buffer, chosen, slot}, 3, &out, 1);
    for (int i = 0; i < BATCH * SEQ * WIDTH; i++) {
        int found = 0;
        for (int k = 0; k < K; k++)
            found += w->slot[i / WIDTH * K + k] >= 0;
        assert_true(y[i] == found * x[i]);
    }
    free(sent);
}

static void every_choice_counts(void **state)
{
    static const int64_t groups[][3] = {{1, 1, 1}, {2, 1, 2}, {4, 2, 8}, {1, 3, 4}, {4, 6, 8}};
    static const double rooms[] = {0, 1, 1.5};
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
        for (int how = 0; how < SKEWS; how++)
            for (int r = 0; r < 3; r++) {
                world w = {groups[g][0], groups[g][1], groups[g][2], .room = rooms[r]};
                choose(&w, (skew)how, 7 + g);
                assign(&w);
                check_slots(&w);
                check_way(&w);
            }
}

/* All to one expert of four: half of the choices of each token go to each of two experts; with one
 * slot in four of what is needed the others are refused, and the room that would do is said. */
static void refusals_say_the_room(void **state)
{
    world w = {1, 1, 8, .room = 1};
    (void)state;
    choose(&w, ONE, 3);
    assign(&w);
    assert_int_equal(w.m.balanced, 6);
    assert_int_equal(w.m.slots, 8);
    assert_true(w.refused[0] == 2 * (BATCH * SEQ - 8));
    assert_true(w.most[0] == 4);
    w.room = w.most[0];
    assign(&w);
    assert_true(w.refused[0] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_choice_counts),
                                       cmocka_unit_test(refusals_say_the_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
