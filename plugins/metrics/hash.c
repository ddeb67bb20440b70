/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of the state over global elements: of each one's name, place in the whole and bits, added
 * up. A sum has no order, so the same bits give the same hash however ranks hold them; a part that
 * several ranks hold alike is added by the first of them. */
#include "metrics.h"

#include <string.h>
#include <weft/random.h>

/* Words of other widths would only differ in how they are read. */
static uint64_t bits_of(const void *data, int64_t i, size_t width)
{
    uint64_t wide;
    uint32_t word;
    uint16_t half;
    switch (width) {
    case 8:
        memcpy(&wide, (const char *)data + 8 * i, 8);
        return wide;
    case 4:
        memcpy(&word, (const char *)data + 4 * i, 4);
        return word;
    case 2:
        memcpy(&half, (const char *)data + 2 * i, 2);
        return half;
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* Of neighbours: `first` is the place of the first one in the whole. Each step has an inverse, so
 * different bits of one element never give the same. */
static inline uint64_t sum_row(const void *data, int64_t at, size_t width, uint64_t key,
                               uint64_t first, int64_t n)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = (key + (first + (uint64_t)i) * 0x9e3779b97f4a7c15u) ^
                     (bits_of(data, at + i, width) * 0xc2b2ae3d27d4eb4fu);
        x = (x ^ x >> 31) * 0xd6e8feb86659fd93u;
        sum += x ^ x >> 32;
    }
    return sum;
}

/* The usual width as a constant, which loops are compiled for. */
static uint64_t sum_words(const void *data, int64_t at, size_t width, uint64_t key, uint64_t first,
                          int64_t n)
{
    return width == 4 ? sum_row(data, at, 4, key, first, n)
                      : sum_row(data, at, width, key, first, n);
}

uint64_t metrics_hash_part(const char *name, const weft_tensor *t)
{
    const size_t width = weft_dtype_size(t->dtype);
    const int last = t->n_dims - 1;
    const int64_t row = last < 0 ? 1 : t->size[last];
    const uint64_t key = weft_hash_name(name);
    int64_t rows = 1, place[WEFT_MAX_DIMS] = {0};
    uint64_t sum = 0;
    for (int d = 0; d < last; d++)
        rows *= t->size[d];
    for (int64_t r = 0; row > 0 && r < rows; r++) {
        int64_t first = 0;
        for (int d = 0; d <= last; d++)
            first = first * t->whole[d] + t->lo[d] + place[d];
        sum += sum_words(t->data, r * row, width, key, (uint64_t)first, row);
        for (int d = last - 1; d >= 0 && ++place[d] == t->size[d]; d--)
            place[d] = 0;
    }
    return sum;
}

/* Is this the first of the ranks that hold what it does? */
static bool speaks(const weft_run_view *run, weft_layout layout)
{
    int coord[WEFT_MAX_AXES];
    weft_mesh_coord(run->mesh, run->rank, coord);
    for (int a = 0; a < run->mesh->n_axes; a++)
        if (!weft_layout_byte(layout, a) && coord[a])
            return false;
    return true;
}

static bool is_parameter(const weft_value *v)
{
    return strcmp(v->node->op->name, "parameter") == 0;
}

static weft_status add_own(const weft_run_view *run, metrics_hash *sum, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < run->n_operands && !s; i++) {
        const weft_value *v = run->operands[i].value;
        weft_tensor t;
        if (!speaks(run, v->layout))
            continue;
        s = weft_run_tensor(run, i, &t, err);
        if (!s && t.data)
            *(is_parameter(v) ? &sum->parameters : &sum->states) += metrics_hash_part(v->name, &t);
    }
    return s;
}

/* A rank that fails takes part all the same, or the others would wait for it. */
weft_status metrics_hash_state(const weft_host *host, const weft_run_view *run, metrics_hash *out,
                               weft_error *err)
{
    struct word {
        metrics_hash sum;
        bool failed;
    } mine = {.failed = false}, *all = weft_alloc_zero((size_t)run->ranks, sizeof *all);
    *out = (metrics_hash){0};
    if (!all)
        return weft_fail_memory(err);
    weft_status own = add_own(run, &mine.sum, err);
    mine.failed = own != WEFT_OK;
    weft_status s = host->exchange(host, &mine, sizeof mine, all, err);
    for (int r = 0; r < run->ranks && !s; r++) {
        out->parameters += all[r].sum.parameters;
        out->states += all[r].sum.states;
        if (all[r].failed && !own)
            own = weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "rank %d cannot read its state", r);
    }
    weft_free(all);
    out->known = !own && !s;
    return own ? own : s;
}
