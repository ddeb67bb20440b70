/* SPDX-License-Identifier: Apache-2.0 */
/* Exact sums and maxima of more ranks than are reduced at once, against one sum after the other: to
 * the bit. NCCL and the device are the host. */
#include "nccl.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { TERMS = 32 /* as in collective.c */, MOST_RANKS = 100 };

/* What every rank sends, one after the other; of each so many bytes. */
static const char *terms;
static size_t bytes_sent;
static int ranks, me; /* me: of a reduce-scatter */

/* ---- NCCL ---- */

/* Where in what a rank sends this rank's pointer points. */
static const char *own_send;

static int all_gather(const void *send, void *recv, size_t count, int type, nccl_comm_t in,
                      void *stream)
{
    (void)type, (void)in, (void)stream;
    size_t at = (size_t)((const char *)send - own_send);
    for (int r = 0; r < ranks; r++)
        memcpy((char *)recv + (size_t)r * count, terms + (size_t)r * bytes_sent + at, count);
    return NCCL_SUCCESS;
}

static size_t first_sent; /* where in its data this rank begins what it sends to itself */

static int send_piece(const void *data, size_t count, int type, int to, nccl_comm_t in,
                      void *stream)
{
    (void)count, (void)type, (void)in, (void)stream;
    if (to == me)
        first_sent = (size_t)((const char *)data - own_send);
    return NCCL_SUCCESS;
}

/* What rank `from` sends to this one: its piece is where this rank's own for itself is. Known when
 * all has been said, at the end of the group. */
static struct piece {
    char *to;
    size_t bytes;
} due[MOST_RANKS];

static int recv_piece(void *data, size_t count, int type, int from, nccl_comm_t in, void *stream)
{
    (void)type, (void)in, (void)stream;
    due[from] = (struct piece){data, count};
    return NCCL_SUCCESS;
}

static int group_start(void)
{
    return NCCL_SUCCESS;
}

static int group_end(void)
{
    for (int r = 0; r < ranks; r++)
        memcpy(due[r].to, terms + (size_t)r * bytes_sent + first_sent, due[r].bytes);
    return NCCL_SUCCESS;
}

weft_status nccl_settle(transport *t, const group *g, const comm *of, int result, const char *what,
                        weft_error *err)
{
    (void)t, (void)g, (void)of, (void)what, (void)err;
    return nccl_is_well(result) ? WEFT_OK : WEFT_ERR_RUN;
}

/* ---- the device ---- */

static void device_free(void *self, void *memory, size_t bytes)
{
    (void)self, (void)bytes;
    weft_free(memory);
}

static void *device_stream(void *self, weft_queue *queue)
{
    (void)self, (void)queue;
    return NULL;
}

static weft_status device_reduce(void *self, weft_queue *queue, const weft_reduction *r,
                                 weft_error *err)
{
    (void)self, (void)queue, (void)err;
    assert_true(r->n_from <= TERMS);
    weft_reduction_run(r);
    return WEFT_OK;
}

/* ---- what is due ---- */

static double get(const char *at, int64_t i, weft_dtype dtype)
{
    return dtype == WEFT_F32 ? (double)((const float *)(const void *)at)[i]
                             : (double)weft_bf16_to_f32(((const uint16_t *)(const void *)at)[i]);
}

/* In f32, term by term in the order of ranks; bf16 is rounded where TERMS of them have been added
 * up, of which the first is the sum so far, and at the end. */
static void assert_reduced(const char *got, int64_t from, int64_t count, weft_dtype dtype,
                           weft_reduce op)
{
    for (int64_t i = 0; i < count; i++) {
        float sum = (float)get(terms, from + i, dtype);
        int n = 1;
        for (int r = 1; r < ranks; r++) {
            float x = (float)get(terms + (size_t)r * bytes_sent, from + i, dtype);
            sum = op == WEFT_REDUCE_SUM ? sum + x : x > sum ? x : sum;
            if (++n < TERMS)
                continue;
            sum = dtype == WEFT_F32 ? sum : weft_bf16_to_f32(weft_f32_to_bf16(sum));
            n = 1;
        }
        sum = dtype == WEFT_F32 ? sum : weft_bf16_to_f32(weft_f32_to_bf16(sum));
        assert_true((float)get(got, i, dtype) == sum);
    }
}

static char *make_terms(int64_t count, weft_dtype dtype)
{
    char *all = weft_alloc((size_t)ranks * bytes_sent);
    assert_non_null(all);
    for (int64_t i = 0; i < count * ranks; i++) {
        float x = (float)(i * 7919 % 10007) / 10007 - 0.4F;
        if (dtype == WEFT_F32)
            ((float *)(void *)all)[i] = x;
        else
            ((uint16_t *)(void *)all)[i] = weft_f32_to_bf16(x);
    }
    return all;
}

/* count: of each rank's data; scattered: rank `me` gets its part of it. */
static void reduce(int n, int64_t count, weft_dtype dtype, weft_reduce op, bool scattered)
{
    static const weft_device device = {.size = sizeof device,
                                       .free = device_free,
                                       .stream = device_stream,
                                       .reduce = device_reduce};
    transport t = {.device = &device,
                   .api = {.ncclAllGather = all_gather,
                           .ncclSend = send_piece,
                           .ncclRecv = recv_piece,
                           .ncclGroupStart = group_start,
                           .ncclGroupEnd = group_end},
                   .scratch = weft_alloc_zero(NCCL_SCRATCH_BYTES, 1),
                   .exact = op == WEFT_REDUCE_SUM}; /* maxima in any case */
    assert_non_null(t.scratch);
    comm of = {0};
    group g = {.t = &t, .n = n, .of = &of};
    int queue;
    weft_error err = {0};
    ranks = n;
    me = n / 2;
    bytes_sent = (size_t)count * weft_dtype_size(dtype);
    char *all = make_terms(count, dtype), *got = weft_alloc_zero(bytes_sent, 1);
    terms = all;
    own_send = all + (size_t)me * bytes_sent;
    int64_t part = scattered ? count / n : count, from = scattered ? part * me : 0;
    weft_status s = scattered ? nccl_reduce_scatter(NULL, &g, own_send, got, part, dtype, op,
                                                    (weft_queue *)(void *)&queue, &err)
                              : nccl_all_reduce(NULL, &g, own_send, got, count, dtype, op,
                                                (weft_queue *)(void *)&queue, &err);
    assert_int_equal(s, WEFT_OK);
    assert_reduced(got, from, part, dtype, op);
    nccl_free_scratch(&t);
    weft_free(all);
    weft_free(got);
}

static void test_many_ranks(void **state)
{
    (void)state;
    static const int counts[] = {2, 31, 32, 33, 63, 64, 65, 94, 95};
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int d = 0; d < 2; d++)
            for (int scattered = 0; scattered < 2; scattered++) {
                reduce(counts[i], 7 * counts[i], dtypes[d], WEFT_REDUCE_SUM, scattered);
                reduce(counts[i], counts[i], dtypes[d], WEFT_REDUCE_MAX, scattered);
            }
}

/* More than scratch memory has room for at once. */
static void test_in_pieces(void **state)
{
    (void)state;
    const int64_t fit = NCCL_SCRATCH_BYTES / NCCL_SCRATCH_QUEUES / 33 / 2;
    reduce(33, fit + 1000, WEFT_BF16, WEFT_REDUCE_SUM, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
