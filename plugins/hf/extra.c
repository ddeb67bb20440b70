/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors beside the model's own: those of adapters, of further heads, of a plugin's buffers. They
 * have no place in Hugging Face's form, so that who converts says what becomes of them. */
#include "hf.h"

#include <string.h>

enum { MOST_NAMED = 20 };

weft_status hf_extras_add(hf_extras *x, const weft_stored *t, weft_error *err)
{
    if (x->n == x->capacity) {
        int capacity = x->capacity ? 2 * x->capacity : 64;
        const weft_stored **more = weft_realloc(x->list, (size_t)capacity * sizeof *more);
        if (!more)
            return weft_fail_memory(err);
        x->list = more;
        x->capacity = capacity;
    }
    x->list[x->n++] = t;
    return WEFT_OK;
}

static bool is_known(const weft_stored *t)
{
    return t->dtype != WEFT_DTYPES || strcmp(t->type, "F16") == 0;
}

static weft_status refuse(const hf_extras *x, weft_where at, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < x->n && i < MOST_NAMED; i++)
        s = weft_fail(err, WEFT_ERR_INPUT, at, "tensor '%s' does not belong to the model",
                      x->list[i]->name);
    if (x->n > MOST_NAMED)
        weft_fail(err, WEFT_ERR_INPUT, at, "%d more tensors do not belong to the model",
                  x->n - MOST_NAMED);
    return s;
}

weft_status hf_extras_settle(hf_extras *x, hf_extra how, const char *where, weft_error *err)
{
    const weft_where at = {where, 0};
    weft_status s = WEFT_OK;
    if (how == HF_EXTRA_LEAVE_OUT)
        x->n = 0;
    for (int i = 0; i < x->n && how == HF_EXTRA_EXPORT; i++)
        if (!is_known(x->list[i]))
            s = weft_fail(err, WEFT_ERR_INPUT, at, "tensor '%s' is %s, which weft does not have",
                          x->list[i]->name, x->list[i]->type);
    return how == HF_EXTRA_REFUSE ? refuse(x, at, err) : s;
}

void hf_extras_release(hf_extras *x)
{
    weft_free(x->list);
    *x = (hf_extras){0};
}

/* ---- copied as they are ---- */

weft_piece hf_extra_piece(const weft_stored *t, weft_dtype wanted)
{
    const bool real = t->dtype == WEFT_DTYPES || weft_dtype_is_float(t->dtype);
    weft_piece p = {.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims};
    if (real && wanted != WEFT_DTYPES)
        p.dtype = wanted;
    else if (t->dtype == WEFT_DTYPES)
        p.dtype = WEFT_F32; /* f16: f32 holds it exactly */
    for (int d = 0; d < t->n_dims; d++)
        p.whole[d] = p.size[d] = t->size[d];
    return p;
}

weft_status hf_extra_write(weft_folder *folder, const weft_piece *p, weft_shard *shard, int at,
                           weft_error *err)
{
    const int64_t bytes = (int64_t)weft_dtype_size(p->dtype);
    hf_boxes b;
    if (weft_piece_bytes(p) == 0)
        return WEFT_OK;
    hf_boxes_init(&b, p->size, p->n_dims, (size_t)bytes);
    void *data = weft_alloc((size_t)(hf_boxes_most(&b) * bytes));
    weft_status s = data ? WEFT_OK : weft_fail_memory(err);
    while (!s && hf_boxes_next(&b)) {
        s = weft_folder_read(folder, p->name, b.lo, b.box, p->dtype, data, err);
        s = s ? s : weft_shard_write(shard, at, b.at * bytes, data, b.count * bytes, err);
    }
    weft_free(data);
    return s;
}
