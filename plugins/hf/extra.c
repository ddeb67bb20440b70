/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors beside the model's own: those of adapters, of further heads, of a plugin's buffers. They
 * have no place in Hugging Face's form, so that who converts says what becomes of them. */
#include "hf.h"

#include <string.h>

void hf_say_more(int n, const char *what, weft_where at, weft_error *err)
{
    if (n > HF_MOST_NAMED)
        weft_fail(err, WEFT_ERR_INPUT, at, "%d more tensors %s", n - HF_MOST_NAMED, what);
}

weft_status hf_extras_add(hf_extras *x, const weft_stored *t, weft_error *err)
{
    const weft_stored **more = hf_more(x->list, x->n, &x->capacity, sizeof *more);
    if (!more)
        return weft_fail_memory(err);
    x->list = more;
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
    for (int i = 0; i < x->n && i < HF_MOST_NAMED; i++)
        s = weft_fail(err, WEFT_ERR_INPUT, at, "tensor '%s' does not belong to the model",
                      x->list[i]->name);
    hf_say_more(x->n, "do not belong to the model", at, err);
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

/* f16 is written as f32, which holds it exactly. */
void hf_extras_append(const hf_extras *x, weft_dtype wanted, weft_folder *folder, hf_output *out)
{
    out->own = out->n;
    out->extras = folder;
    for (int i = 0; i < x->n; i++) {
        const weft_stored *t = x->list[i];
        const bool half = t->dtype == WEFT_DTYPES,
                   turns = wanted != WEFT_DTYPES && (half || weft_dtype_is_float(t->dtype));
        out->pieces[out->n++] = hf_piece(t->name,
                                         turns  ? wanted
                                         : half ? WEFT_F32
                                                : t->dtype,
                                         t->size, t->n_dims);
    }
}
