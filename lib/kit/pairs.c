/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/pairs.h>

#include <string.h>

static const int64_t summed_at_once =
    (int64_t)1 << 18; /* elements of every member: what scratch memory holds */

weft_status weft_pairs_init(weft_pairs *p, int n, int me, weft_swap_all swap, void *group,
                            weft_error *err)
{
    *p = (weft_pairs){.n = n, .me = me, .swap = swap, .group = group};
    p->pieces = weft_alloc_zero((size_t)n, sizeof *p->pieces);
    p->terms = weft_alloc_zero((size_t)n, sizeof *p->terms);
    return p->pieces && p->terms ? WEFT_OK : weft_fail_memory(err);
}

void weft_pairs_release(weft_pairs *p)
{
    weft_free(p->pieces);
    weft_free(p->terms);
    weft_free_aligned(p->scratch);
    *p = (weft_pairs){0};
}

/* ---- moving ---- */

weft_status weft_pairs_all_gather(weft_pairs *p, const void *send, void *recv, int64_t count,
                                  weft_dtype dtype, weft_error *err)
{
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    for (int i = 0; i < p->n; i++)
        p->pieces[i] = (weft_swap){send, (char *)recv + (size_t)i * bytes, bytes, bytes};
    memmove(p->pieces[p->me].recv, send, bytes);
    return p->swap(p->group, err);
}

weft_status weft_pairs_all_to_all(weft_pairs *p, const void *send, void *recv, int64_t count,
                                  weft_dtype dtype, weft_error *err)
{
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    for (int i = 0; i < p->n; i++)
        p->pieces[i] = (weft_swap){(const char *)send + (size_t)i * bytes,
                                   (char *)recv + (size_t)i * bytes, bytes, bytes};
    memcpy(p->pieces[p->me].recv, p->pieces[p->me].send, bytes);
    return p->swap(p->group, err);
}

weft_status weft_pairs_broadcast(weft_pairs *p, int root, void *data, int64_t count,
                                 weft_dtype dtype, weft_error *err)
{
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    for (int i = 0; i < p->n; i++)
        p->pieces[i] = (weft_swap){data, data, p->me == root ? bytes : 0,
                                   i == root && p->me != root ? bytes : 0};
    return p->swap(p->group, err);
}

/* ---- sums ---- */

/* What came from every member, in the order of the group. */
static void combine(const weft_pairs *p, void *out, int64_t n, weft_dtype dtype, weft_reduce op)
{
    for (int r = 0; r < p->n; r++)
        p->terms[r] = p->pieces[r].recv;
    const weft_reduction reduction = {.to = &out,
                                      .from = p->terms,
                                      .n_to = 1,
                                      .n_from = p->n,
                                      .count = n,
                                      .dtype = dtype,
                                      .op = op};
    weft_reduction_run(&reduction);
}

static weft_status reserve(weft_pairs *p, size_t bytes, weft_error *err)
{
    if (bytes <= p->scratch_bytes)
        return WEFT_OK;
    weft_free_aligned(p->scratch);
    p->scratch = weft_alloc_aligned(64, bytes);
    p->scratch_bytes = p->scratch ? bytes : 0;
    return p->scratch ? WEFT_OK : weft_fail_memory(err);
}

static int64_t clamp(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* Member i owns elements [i * part, i * part + part) of `total`, the last ones fewer; out gets the
 * combination of everyone's elements that this one owns. out may be where they are in send. */
static weft_status reduce(weft_pairs *p, const char *send, int64_t total, int64_t part, char *out,
                          weft_dtype dtype, weft_reduce op, weft_error *err)
{
    if (!weft_reduction_takes(dtype))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s cannot be reduced",
                         weft_dtype_name(dtype));
    size_t width = weft_dtype_size(dtype);
    int64_t step = part < summed_at_once ? part : summed_at_once;
    weft_status s = reserve(p, (size_t)p->n * (size_t)step * width, err);
    for (int64_t at = 0; at < part && !s; at += step) {
        int64_t mine = clamp(clamp(total - p->me * part, part) - at, step);
        for (int i = 0; i < p->n; i++) {
            int64_t theirs = clamp(clamp(total - i * part, part) - at, step);
            p->pieces[i] = (weft_swap){send + (size_t)(i * part + at) * width,
                                       p->scratch + (size_t)(i * step) * width,
                                       (size_t)theirs * width, (size_t)mine * width};
        }
        if (mine)
            memcpy(p->pieces[p->me].recv, p->pieces[p->me].send, (size_t)mine * width);
        s = p->swap(p->group, err);
        if (!s && mine)
            combine(p, out + (size_t)at * width, mine, dtype, op);
    }
    return s;
}

weft_status weft_pairs_reduce_scatter(weft_pairs *p, const void *send, void *recv, int64_t count,
                                      weft_dtype dtype, weft_reduce op, weft_error *err)
{
    return reduce(p, send, count * p->n, count, recv, dtype, op, err);
}

/* Everyone combines a part and hands it to all. Its own part of recv is written when the others
 * have it from send already. */
weft_status weft_pairs_all_reduce(weft_pairs *p, const void *send, void *recv, int64_t count,
                                  weft_dtype dtype, weft_reduce op, weft_error *err)
{
    size_t width = weft_dtype_size(dtype);
    int64_t part = (count + p->n - 1) / p->n, mine = clamp(count - p->me * part, part);
    char *own = (char *)recv + (size_t)(p->me * part) * width;
    weft_status s = reduce(p, send, count, part, own, dtype, op, err);
    if (s)
        return s;
    for (int i = 0; i < p->n; i++) {
        int64_t theirs = clamp(count - i * part, part);
        p->pieces[i] = (weft_swap){own, (char *)recv + (size_t)(i * part) * width,
                                   (size_t)mine * width, (size_t)theirs * width};
    }
    return p->swap(p->group, err);
}
