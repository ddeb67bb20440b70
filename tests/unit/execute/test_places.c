/* SPDX-License-Identifier: Apache-2.0 */
/* What transports are told of the places of a group's collectives: the same number where they are
 * the same, and another one where any of them is not. */
#include "../../lib/plan_run.h"
#include "execute/collective.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST = 32 };

typedef struct numbers {
    uint64_t list[MOST];
    int n, n_told;
} numbers;

static weft_status make_group(void *self, const int *ranks, int n, int me, void **group,
                              weft_error *err)
{
    numbers *told = self;
    (void)ranks, (void)n, (void)me, (void)err;
    assert_true(told->n < MOST);
    *group = &told->list[told->n++];
    return WEFT_OK;
}

static void ungroup(void *self, void *group)
{
    (void)self, (void)group;
}

static weft_status places(void *self, void *group, uint64_t digest, weft_error *err)
{
    numbers *told = self;
    (void)err;
    assert_ptr_equal(group, &told->list[told->n_told]); /* in the order of the groups */
    told->list[told->n_told++] = digest;
    return WEFT_OK;
}

static weft_status transfer(void *self, void *group, int peer, void *data, int64_t count,
                            weft_dtype dtype, weft_queue *queue, weft_request **request,
                            weft_error *err)
{
    (void)self, (void)group, (void)peer, (void)data, (void)count, (void)dtype, (void)queue;
    (void)request, (void)err;
    return WEFT_ERR_INTERNAL;
}

static weft_status send(void *self, void *group, int to, const void *data, int64_t count,
                        weft_dtype dtype, weft_queue *queue, weft_request **request,
                        weft_error *err)
{
    return transfer(self, group, to, (void *)(uintptr_t)data, count, dtype, queue, request, err);
}

static weft_status wait_for(void *self, weft_request *request, weft_queue *queue, weft_error *err)
{
    return transfer(self, NULL, 0, NULL, 0, WEFT_U8, queue, &request, err);
}

static weft_status broadcast(void *self, void *group, int root, void *data, int64_t count,
                             weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    return transfer(self, group, root, data, count, dtype, queue, NULL, err);
}

static const weft_transport transport = {.size = sizeof transport,
                                         .name = "test",
                                         .group = make_group,
                                         .ungroup = ungroup,
                                         .places = places,
                                         .send = send,
                                         .recv = transfer,
                                         .wait = wait_for,
                                         .broadcast = broadcast};

static void start(plan_run *p, const char *plugins, const char *sections, int ranks, int rank)
{
    char text[1024];
    snprintf(text, sizeof text,
             "[train]\nsteps = 3\nseq_len = 8\nglobal_batch = 16\nmicro_batch = 8\n[llama3]\n"
             "n_layers = 3\ndim = 16\nn_heads = 4\nvocab_size = 50\n%s",
             sections);
    plan_run_start(p, plugins, text, &(weft_plan_options){.ranks = ranks, .rank = rank});
}

static numbers ask(const plan_run *p)
{
    numbers told = {.n = 0};
    weft_groups g = {.mesh = &p->plan->mesh,
                     .rank = p->plan->rank,
                     .transport = &transport,
                     .transport_self = &told,
                     .transport_by = "test"};
    for (int m = 0; m < WEFT_MODES; m++)
        if (p->plan->lowered[m])
            assert_int_equal(weft_groups_add(&g, p->plan->lowered[m], NULL), WEFT_OK);
    assert_int_equal(weft_groups_tell_places(&g, p->plan->lowered, NULL), WEFT_OK);
    assert_int_equal(told.n_told, told.n);
    assert_true(told.n > 0);
    weft_groups_release(&g);
    return told;
}

/* By rank. */
static numbers numbers_of(const char *plugins, const char *sections, int ranks, int rank)
{
    plan_run p;
    start(&p, plugins, sections, ranks, rank);
    numbers told = ask(&p);
    plan_run_release(&p);
    return told;
}

static int count_equal(const numbers *a, const numbers *b)
{
    int equal = 0;
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++)
        equal += a->list[i] == b->list[i];
    return equal;
}

/* Also with parts of other extents. */
static void ranks_are_told_the_same(void **state)
{
    (void)state;
    numbers first = numbers_of("llama3 cpu tp fsdp adamw", "[tp]\ndegree = 4\n", 12, 0);
    for (int i = 0; i < first.n; i++)
        assert_true(first.list[i] != 0);
    for (int rank = 1; rank < 12; rank++) {
        numbers other = numbers_of("llama3 cpu tp fsdp adamw", "[tp]\ndegree = 4\n", 12, rank);
        assert_int_equal(count_equal(&first, &other), first.n);
    }
}

/* Groups in which ranks only send have nothing to say. */
static void stages_are_told_other_things(void **state)
{
    static const char pp[] = "[pp]\ndegree = 2\n";
    (void)state;
    numbers first = numbers_of("llama3 cpu fsdp pp adamw", pp, 4, 0),
            second = numbers_of("llama3 cpu fsdp pp adamw", pp, 4, 1),
            last = numbers_of("llama3 cpu fsdp pp adamw", pp, 4, 2);
    int none = 0;
    for (int i = 0; i < first.n; i++)
        none += first.list[i] == 0;
    assert_true(none > 0 && none < first.n);
    assert_int_equal(count_equal(&first, &second), first.n);
    assert_int_equal(count_equal(&first, &last), none);
}

/* The buffer of some collective's workspace or result, or one that none touches. */
static weft_buffer *find_buffer(weft_lowered *l, bool sent)
{
    for (int i = 0; i < l->n_buffers; i++) {
        bool touched = false;
        for (int a = 0; a < l->n_programs; a++)
            for (int k = 0; k < l->programs[a].n; k++) {
                const weft_instruction *in = &l->programs[a].list[k];
                if (in->kind != WEFT_COLLECTIVE)
                    continue;
                touched = touched || in->workspace == i;
                for (int t = 0; t < in->n_ins + in->n_outs && !sent; t++)
                    touched = touched || in->buffers[t] == i;
            }
        if (touched == sent && l->buffers[i].base == WEFT_BASE_ARENA)
            return &l->buffers[i];
    }
    fail_msg("there is no such buffer");
    return NULL;
}

static void every_place_counts(void **state)
{
    plan_run p;
    (void)state;
    start(&p, "llama3 cpu fsdp adamw", "", 3, 0);
    weft_lowered *l = p.plan->lowered[WEFT_MODE_TRAIN];
    numbers before = ask(&p), after;
    find_buffer(l, false)->offset += 64;
    after = ask(&p);
    assert_int_equal(count_equal(&before, &after), before.n);
    find_buffer(l, true)->offset += 64;
    after = ask(&p);
    assert_int_equal(count_equal(&before, &after), before.n - 1);
    plan_run_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_told_the_same),
        cmocka_unit_test(stages_are_told_other_things),
        cmocka_unit_test(every_place_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
