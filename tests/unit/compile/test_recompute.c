/* SPDX-License-Identifier: Apache-2.0 */
/* What ac marks, which stays marked whichever pass puts a value behind it later; and what bf16
 * leaves wide. */
#include "../../lib/planned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static bool stays_in_block(const weft_value *v)
{
    for (int i = 0; i < v->n_uses; i++)
        if (v->uses[i].node->block != v->node->block)
            return false;
    return true;
}

/* The narrowed copies of wide sums: kept, they would take what ac is there to save. */
static int count_narrowed(const char *passes, const char *axes)
{
    planned p;
    int n = 0;
    planned_spec spec = {.axes = axes, .passes = passes, .placed_only = true};
    if (planned_init(&p, &spec))
        fail_msg("%s", weft_error_text(&p.err));
    for (const weft_node *node = weft_graph_first(p.g); node; node = node->next) {
        const weft_value *v = node->n_outs ? node->outs[0] : NULL;
        if (node->block < 0 || strcmp(node->op->name, "cast") != 0 || v->weight ||
            !stays_in_block(v))
            continue;
        if (!v->recompute)
            fail_msg("%s: %s is kept", passes, v->name);
        n++;
    }
    planned_release(&p);
    return n;
}

static void narrowed_copies(void **state)
{
    static const char *const orders[] = {
        "ac bf16 tp:reduce_dtype=f32", "ac tp:reduce_dtype=f32 bf16",
        "bf16 ac tp:reduce_dtype=f32", "bf16 tp:reduce_dtype=f32 ac",
        "tp:reduce_dtype=f32 ac bf16", "tp:reduce_dtype=f32 bf16 ac"};
    (void)state;
    int n = count_narrowed(orders[0], "tp=2");
    assert_true(n > 0);
    for (size_t i = 1; i < sizeof orders / sizeof orders[0]; i++)
        assert_int_equal(count_narrowed(orders[i], "tp=2"), n);
}

static void start(planned *p, const char *passes)
{
    if (planned_init(p, &(planned_spec){.axes = "tp=1", .passes = passes, .placed_only = true}))
        fail_msg("%s", weft_error_text(&p->err));
}

static void every_other_block(void **state)
{
    planned p;
    int n = 0;
    (void)state;
    start(&p, "ac:mode=every");
    for (const weft_node *node = weft_graph_first(p.g); node; node = node->next) {
        if (!node->n_outs || !node->outs[0]->recompute)
            continue;
        assert_int_equal(node->block % 2, 0);
        n++;
    }
    assert_true(n > 0);
    planned_release(&p);
}

/* What an op gives beside its result are sums that a backward divides by. */
static void statistics_stay_wide(void **state)
{
    planned p;
    int n = 0;
    (void)state;
    start(&p, "bf16");
    for (const weft_node *node = weft_graph_first(p.g); node; node = node->next)
        for (int i = 1; i < node->n_outs; i++, n++) {
            assert_int_equal(node->outs[0]->dtype, WEFT_BF16);
            assert_int_equal(node->outs[i]->dtype, WEFT_F32);
        }
    assert_true(n > 0);
    planned_release(&p);
}

/* Numbers that stand for many tokens: the losses of a head's parts, and their sum. */
static void scalars_stay_wide(void **state)
{
    planned p;
    int sums = 0;
    (void)state;
    planned_spec spec = {.axes = "tp=1", .passes = "bf16", .chunk = 8, .placed_only = true};
    if (planned_init(&p, &spec))
        fail_msg("%s", weft_error_text(&p.err));
    for (const weft_node *node = weft_graph_first(p.g); node; node = node->next)
        for (int i = 0; i < node->n_outs; i++) {
            const weft_value *v = node->outs[i];
            if (v->n_dims > 0 || v->dtype == WEFT_I32)
                continue;
            if (v->dtype != WEFT_F32)
                fail_msg("%s is narrow", v->name);
            sums += node->n_ins > 1 && strcmp(node->op->name, "add") == 0;
        }
    assert_true(sums > 0);
    planned_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrowed_copies), cmocka_unit_test(every_other_block),
        cmocka_unit_test(statistics_stay_wide), cmocka_unit_test(scalars_stay_wide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
