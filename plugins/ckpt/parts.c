/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of the state this rank writes. What several ranks hold alike is written once: cut by
 * rows among them if it is large, else by one of them in turn. */
#include "ckpt.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { WORTH_CUTTING = 64 << 10 }; /* bytes for each */

bool ckpt_excluded(const weft_params *params, const char *name)
{
    const char *pattern;
    for (int i = 0; params && (pattern = weft_params_word(params, "exclude", i)); i++)
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    return false;
}

bool ckpt_of_model(const weft_state_tensor *t)
{
    return !t->moment || t->buffer;
}

/* False: nothing of it is for this rank. */
static bool find_part(const weft_state_tensor *t, int i, const ckpt_choice *choice, ckpt_part *part)
{
    const weft_tensor *x = &t->tensor;
    int64_t width = (int64_t)weft_dtype_size(x->dtype), count = weft_tensor_count(x);
    if (!count || t->elsewhere || (choice->model_only && !ckpt_of_model(t)) ||
        ckpt_excluded(choice->params, t->name))
        return false;
    bool convert = choice->dtype < WEFT_DTYPES && weft_dtype_is_float(x->dtype);
    *part = (ckpt_part){.tensor = t, .file = !ckpt_of_model(t)};
    part->piece = (weft_piece){
        .name = t->name, .dtype = convert ? choice->dtype : x->dtype, .n_dims = x->n_dims};
    memcpy(part->piece.whole, x->whole, sizeof x->whole);
    memcpy(part->piece.lo, x->lo, sizeof x->lo);
    memcpy(part->piece.size, x->size, sizeof x->size);
    if (t->replicas <= 1)
        return true;
    if (!x->n_dims || x->size[0] < t->replicas ||
        count * width < (int64_t)t->replicas * WORTH_CUTTING)
        return i % t->replicas == t->replica;
    int64_t rows = x->size[0], from = rows * t->replica / t->replicas,
            to = rows * (t->replica + 1) / t->replicas;
    part->piece.lo[0] += from;
    part->piece.size[0] = to - from;
    part->offset = count / rows * from * width;
    return true;
}

/* One file after the other, each from its beginning to its end (which has the widest elements
 * first): checksums are made as it is written. */
static int in_file_order(const void *a_, const void *b_)
{
    const ckpt_part *a = a_, *b = b_;
    size_t wide_a = weft_dtype_size(a->piece.dtype), wide_b = weft_dtype_size(b->piece.dtype);
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    if (wide_a != wide_b)
        return wide_a > wide_b ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

weft_status ckpt_parts_init(ckpt_parts *parts, const weft_state_view *state,
                            const ckpt_choice *choice, weft_error *err)
{
    *parts =
        (ckpt_parts){.list = weft_alloc_zero((size_t)state->n_tensors + 1, sizeof *parts->list)};
    if (!parts->list)
        return weft_fail_memory(err);
    for (int i = 0; i < state->n_tensors; i++) {
        ckpt_part *part = &parts->list[parts->n];
        if (!find_part(&state->tensors[i], i, choice, part))
            continue;
        part->index = parts->n;
        parts->bytes += weft_piece_bytes(&part->piece);
        parts->n++;
    }
    qsort(parts->list, (size_t)parts->n, sizeof *parts->list, in_file_order);
    for (int i = 0; i < parts->n; i++)
        parts->list[i].index = parts->n_of[parts->list[i].file]++;
    return WEFT_OK;
}

void ckpt_parts_release(ckpt_parts *parts)
{
    weft_free(parts->list);
    *parts = (ckpt_parts){0};
}
