/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor by pieces that lie together and of which each fits into memory. */
#include "hf.h"

enum { MOST = 32 << 20 };

void hf_boxes_init(hf_boxes *b, const int64_t *size, int n_dims, size_t element)
{
    int64_t behind = (int64_t)element;
    *b = (hf_boxes){.n_dims = n_dims, .step = 1};
    for (int d = 0; d < n_dims; d++)
        b->size[d] = size[d];
    for (int d = 1; d < n_dims; d++)
        behind *= size[d];
    while (b->cut + 1 < n_dims && behind > MOST && size[b->cut + 1] > 0)
        behind /= size[++b->cut];
    if (n_dims > 0 && behind > 0) {
        b->step = behind >= MOST ? 1 : MOST / behind;
        b->step = b->step < size[b->cut] ? b->step : size[b->cut];
    }
}

/* Elements behind dim d. */
static int64_t stride(const hf_boxes *b, int d)
{
    int64_t n = 1;
    while (++d < b->n_dims)
        n *= b->size[d];
    return n;
}

int64_t hf_boxes_most(const hf_boxes *b)
{
    return b->n_dims ? b->step * stride(b, b->cut) : 1;
}

bool hf_boxes_next(hf_boxes *b)
{
    b->at += b->count;
    int64_t rest = b->at;
    if (b->n_dims ? rest >= b->size[0] * stride(b, 0) : rest > 0)
        return false;
    b->count = 1;
    for (int d = 0; d < b->n_dims; d++) {
        int64_t left;
        b->lo[d] = rest / stride(b, d);
        rest %= stride(b, d);
        left = b->size[d] - b->lo[d];
        b->box[d] = d < b->cut ? 1 : d > b->cut || left < b->step ? left : b->step;
        b->count *= b->box[d];
    }
    return true;
}
