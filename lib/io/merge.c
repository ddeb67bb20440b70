/* SPDX-License-Identifier: Apache-2.0 */
/* Of the tensors of all files, the tensors of the folder. */
#include "io/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BAD(folder, err, ...)                                                                      \
    weft_fail(err, WEFT_ERR_INPUT, (weft_where){(folder)->path, 0}, __VA_ARGS__)

static int by_name(const void *a, const void *b)
{
    const store_part *x = a, *y = b;
    int order = strcmp(x->entry->name, y->entry->name);
    if (order == 0)
        order = strcmp(x->file->name, y->file->name);
    return order;
}

static int by_low(const void *a, const void *b, void *dim)
{
    const store_part *x = a, *y = b;
    int64_t p = x->entry->lo[*(int *)dim], q = y->entry->lo[*(int *)dim];
    return p < q ? -1 : p > q;
}

static weft_status check_same(const weft_folder *folder, const store_part *a, const store_part *b,
                              weft_error *err)
{
    if (a->entry->n_dims != b->entry->n_dims)
        return BAD(folder, err, "tensor \"%s\" has %d dims in %s and %d in %s", a->entry->name,
                   a->entry->n_dims, a->file->name, b->entry->n_dims, b->file->name);
    if (strcmp(a->entry->type_name, b->entry->type_name) != 0)
        return BAD(folder, err, "tensor \"%s\" is %s in %s and %s in %s", a->entry->name,
                   a->entry->type_name, a->file->name, b->entry->type_name, b->file->name);
    return WEFT_OK;
}

/* The dim along which the fewest pieces lie side by side. */
static int best_dim(const store_part *parts, int n, const weft_stored *t)
{
    int best = 0;
    double best_depth = 0;
    for (int d = 0; d < t->n_dims; d++) {
        double depth = 0;
        for (int i = 0; i < n; i++)
            depth += (double)parts[i].entry->size[d] / (double)(t->size[d] ? t->size[d] : 1);
        if (d == 0 || depth < best_depth) {
            best = d;
            best_depth = depth;
        }
    }
    return best;
}

static weft_status check_overlap(const weft_folder *folder, store_part *parts, int n,
                                 const weft_stored *t, weft_error *err)
{
    int dim = best_dim(parts, n, t);
    if (t->n_dims > 0)
        qsort_r(parts, (size_t)n, sizeof *parts, by_low, &dim);
    for (int i = 0; i < n; i++) {
        const store_entry *a = parts[i].entry;
        for (int j = i + 1; j < n; j++) {
            const store_entry *b = parts[j].entry;
            if (t->n_dims > 0 && b->lo[dim] >= a->lo[dim] + a->size[dim])
                break;
            if (store_boxes_meet(t->n_dims, a->lo, a->size, b->lo, b->size))
                return BAD(folder, err,
                           "tensor \"%s\" is in both %s and %s; take the files that do not belong "
                           "together apart",
                           t->name, parts[i].file->name, parts[j].file->name);
        }
    }
    return WEFT_OK;
}

static weft_status check_hole(const weft_folder *folder, const store_part *parts, int n,
                              const weft_stored *t, weft_error *err)
{
    int64_t whole = 0, there = 0, volume = 0;
    if (!store_volume(t->n_dims, t->size, &whole))
        return BAD(folder, err, "tensor \"%s\" has too many elements to count", t->name);
    for (int i = 0; i < n; i++) {
        if (!store_volume(t->n_dims, parts[i].entry->size, &volume) ||
            __builtin_add_overflow(there, volume, &there))
            return BAD(folder, err, "tensor \"%s\" has too many elements to count", t->name);
    }
    if (there != whole)
        return BAD(folder, err,
                   "of tensor \"%s\" %" PRId64 " of %" PRId64
                   " elements are there: a file is missing",
                   t->name, there, whole);
    return WEFT_OK;
}

static weft_status merge(const weft_folder *folder, store_part *parts, int n, store_tensor *out,
                         weft_error *err)
{
    const store_entry *first = parts[0].entry;
    weft_dtype dtype = first->type ? first->type->dtype : WEFT_DTYPES;
    *out = (store_tensor){.stored = {first->name, dtype, first->n_dims, {0}, n, first->type_name},
                          .type = first->type,
                          .parts = parts};
    weft_stored *t = &out->stored;
    for (int i = 0; i < n; i++) {
        weft_status status = check_same(folder, &parts[0], &parts[i], err);
        if (status != WEFT_OK)
            return status;
        for (int d = 0; d < t->n_dims; d++)
            t->size[d] =
                parts[i].entry->whole[d] > t->size[d] ? parts[i].entry->whole[d] : t->size[d];
    }
    weft_status status = check_overlap(folder, parts, n, t, err);
    return status == WEFT_OK ? check_hole(folder, parts, n, t, err) : status;
}

static store_part *collect(weft_folder *folder, int64_t *n)
{
    *n = 0;
    for (int f = 0; f < folder->n_files; f++)
        *n += folder->files[f].header.n;
    store_part *parts = weft_pool_alloc(&folder->pool, (size_t)(*n + 1) * sizeof *parts);
    store_part *to = parts;
    for (int f = 0; f < folder->n_files && parts; f++) {
        store_file *file = &folder->files[f];
        for (int i = 0; i < file->header.n; i++)
            *to++ = (store_part){&file->header.entries[i], file};
    }
    return parts;
}

/* Notes what is wrong with the first few tensors only: the rest mostly says the same. */
weft_status store_merge(weft_folder *folder, weft_error *err)
{
    enum { ENOUGH = 8 };
    int64_t n = 0;
    int bad = 0;
    store_part *parts = collect(folder, &n);
    folder->tensors = weft_pool_alloc(&folder->pool, (size_t)(n + 1) * sizeof *folder->tensors);
    if (!parts || !folder->tensors)
        return weft_fail_memory(err);
    qsort(parts, (size_t)n, sizeof *parts, by_name);
    weft_status first = WEFT_OK;
    for (int64_t i = 0, end = 0; i < n && bad < ENOUGH; i = end) {
        for (end = i + 1; end < n && strcmp(parts[end].entry->name, parts[i].entry->name) == 0;)
            end++;
        weft_status status =
            merge(folder, parts + i, (int)(end - i), &folder->tensors[folder->n_tensors++], err);
        bad += status != WEFT_OK;
        first = first == WEFT_OK ? status : first;
    }
    return first;
}
