/* SPDX-License-Identifier: Apache-2.0 */
/* For transports that can do nothing but send bytes from one member of a group to another: all
 * collectives made of that, with every sum made where its result is needed, from everyone's terms
 * in the order of the group, in f32 (f64 for f64; bf16 is widened and rounded once). So the results
 * have the same bits whichever transport carries them. Memory is the host's. */
#ifndef WEFT_PAIRS_H
#define WEFT_PAIRS_H

#include <weft/service.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What goes to a member and what comes from it. The other member's piece fits. */
typedef struct weft_swap {
    const char *send;
    char *recv;
    size_t send_bytes, recv_bytes; /* 0: nothing */
} weft_swap;

/* The transport's: exchanges pieces[i] with member i, for all i but `me`, whose piece is not
 * touched. Every member calls it at the same time. */
typedef weft_status (*weft_swap_all)(void *group, weft_error *err);

/* A transport's group holds one of these. Functions may be called by one thread at a time. */
typedef struct weft_pairs {
    int n, me;
    weft_swap *pieces; /* [n] */
    weft_swap_all swap;
    void *group;
    const void **terms; /* [n] of a sum */
    char *scratch; /* others' terms of a sum, n * 2^18 elements at most; made at the first one */
    size_t scratch_bytes;
} weft_pairs;

/* Release it in every case. */
weft_status weft_pairs_init(weft_pairs *pairs, int n, int me, weft_swap_all swap, void *group,
                            weft_error *err);
void weft_pairs_release(weft_pairs *pairs);

/* Arguments as those of the functions of weft_transport. */
weft_status weft_pairs_all_gather(weft_pairs *pairs, const void *send, void *recv, int64_t count,
                                  weft_dtype dtype, weft_error *err);
weft_status weft_pairs_reduce_scatter(weft_pairs *pairs, const void *send, void *recv,
                                      int64_t count, weft_dtype dtype, weft_reduce op,
                                      weft_error *err);
weft_status weft_pairs_all_reduce(weft_pairs *pairs, const void *send, void *recv, int64_t count,
                                  weft_dtype dtype, weft_reduce op, weft_error *err);
weft_status weft_pairs_all_to_all(weft_pairs *pairs, const void *send, void *recv, int64_t count,
                                  weft_dtype dtype, weft_error *err);
weft_status weft_pairs_broadcast(weft_pairs *pairs, int root, void *data, int64_t count,
                                 weft_dtype dtype, weft_error *err);

#ifdef __cplusplus
}
#endif
#endif
