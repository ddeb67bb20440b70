/* SPDX-License-Identifier: Apache-2.0 */
/* For stores and who loads weights: state is filled, wherever it lies. */
#include <string.h>
#include <weft/service.h>

enum { PIECE_BYTES = 4 << 20 };

weft_status weft_state_fill(const weft_state_view *state, int i,
                            weft_status (*read)(void *ctx, const weft_state_tensor *tensor,
                                                const int64_t *lo, const int64_t *size, void *to,
                                                weft_error *err),
                            void *ctx, weft_error *err)
{
    const weft_state_tensor *t = &state->tensors[i];
    const weft_tensor *x = &t->tensor;
    const int64_t count = t->elsewhere ? 0 : weft_tensor_count(x);
    if (count == 0)
        return WEFT_OK;
    if (x->data)
        return read(ctx, t, x->lo, x->size, x->data, err);
    const int64_t rows = x->n_dims ? x->size[0] : 1,
                  row = count / rows * (int64_t)weft_dtype_size(x->dtype),
                  most = row < PIECE_BYTES ? PIECE_BYTES / row : 1,
                  step = most < rows ? most : rows;
    int64_t lo[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS];
    memcpy(lo, x->lo, sizeof lo);
    memcpy(size, x->size, sizeof size);
    void *piece = weft_alloc((size_t)(step * row));
    weft_status s = piece ? WEFT_OK : weft_fail_memory(err);
    for (int64_t at = 0; at < rows && !s; at += step) {
        const int64_t n = at + step < rows ? step : rows - at;
        lo[0] = x->lo[0] + at;
        size[0] = n;
        s = read(ctx, t, lo, size, piece, err);
        s = s ? s : state->write(state, i, at * row, n * row, piece, err);
    }
    weft_free(piece);
    return s;
}
