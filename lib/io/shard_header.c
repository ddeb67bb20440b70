/* SPDX-License-Identifier: Apache-2.0 */
/* What a file that is to be written says about its pieces, and where they will lie. */
#include "io/shard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int64_t weft_piece_bytes(const weft_piece *piece)
{
    int64_t bytes = (int64_t)weft_dtype_size(piece->dtype);
    for (int d = 0; d < piece->n_dims; d++)
        bytes *= piece->size[d];
    return bytes;
}

#define BROKEN(path, err, ...) weft_fail(err, WEFT_ERR_INTERNAL, (weft_where){path, 0}, __VA_ARGS__)

static weft_status check_piece(const char *path, const weft_piece *p, bool sharded, int64_t *total,
                               weft_error *err)
{
    int64_t volume = 0, bytes = 0;
    if (strcmp(p->name, "__metadata__") == 0 || !*p->name)
        return BROKEN(path, err, "a tensor must not be called \"%s\"", p->name);
    if ((unsigned)p->dtype >= WEFT_DTYPES || p->n_dims < 0 || p->n_dims > WEFT_MAX_DIMS)
        return BROKEN(path, err, "tensor %s has an impossible dtype or rank", p->name);
    for (int d = 0; d < p->n_dims; d++) {
        if (p->lo[d] < 0 || p->size[d] < 1 || p->lo[d] > p->whole[d] ||
            p->size[d] > p->whole[d] - p->lo[d])
            return BROKEN(path, err, "tensor %s: dim %d of its piece is empty or leaves the tensor",
                          p->name, d);
        if (!sharded && p->size[d] != p->whole[d])
            return BROKEN(path, err, "tensor %s: a piece in a file of whole tensors", p->name);
    }
    if (!store_volume(p->n_dims, p->size, &volume) ||
        __builtin_mul_overflow(volume, (int64_t)weft_dtype_size(p->dtype), &bytes) ||
        __builtin_add_overflow(*total, bytes, total))
        return BROKEN(path, err, "tensor %s has too many elements to count", p->name);
    return WEFT_OK;
}

static int by_name(const void *a, const void *b)
{
    const weft_piece *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static weft_status check_names(const char *path, const weft_piece *pieces, int n, weft_error *err)
{
    weft_status status = WEFT_OK;
    const weft_piece **sorted = weft_alloc((size_t)n * sizeof *sorted);
    if (!sorted)
        return weft_fail_memory(err);
    for (int i = 0; i < n; i++)
        sorted[i] = &pieces[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    for (int i = 1; i < n && status == WEFT_OK; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = BROKEN(path, err, "two tensors of one file are called %s", sorted[i]->name);
    }
    weft_free(sorted);
    return status;
}

weft_status store_check_pieces(const char *path, const weft_piece *pieces, int n, bool sharded,
                               weft_error *err)
{
    int64_t total = 0;
    if (n < 1)
        return BROKEN(path, err, "a file of no tensors");
    for (int i = 0; i < n; i++) {
        weft_status status = check_piece(path, &pieces[i], sharded, &total, err);
        if (status != WEFT_OK)
            return status;
    }
    return check_names(path, pieces, n, err);
}

static void add_numbers(weft_text *text, const char *key, const int64_t *numbers, int n)
{
    weft_text_print(text, "\"%s\":[", key);
    for (int i = 0; i < n; i++)
        weft_text_print(text, "%s%" PRId64, i ? "," : "", numbers[i]);
    weft_text_add(text, "]");
}

/* "whole" is weft's own: without it nobody would miss the last piece. */
static void add_sharding(weft_text *text, const weft_piece *pieces, int n)
{
    weft_text inner = {0};
    weft_text_add(&inner, "{");
    for (int i = 0; i < n; i++) {
        const weft_piece *p = &pieces[i];
        weft_text_add(&inner, i ? "," : "");
        weft_text_add_json(&inner, p->name);
        weft_text_add(&inner, ":{");
        add_numbers(&inner, "saved_offsets", p->lo, p->n_dims);
        weft_text_add(&inner, ",");
        add_numbers(&inner, "whole", p->whole, p->n_dims);
        weft_text_add(&inner, "}");
    }
    weft_text_add(&inner, "}");
    weft_text_add(text, "\"DCP_SHARDING_INFO\":");
    weft_text_add_json(text, weft_text_get(&inner));
    text->out_of_memory = text->out_of_memory || inner.out_of_memory;
    weft_text_release(&inner);
}

static void add_pair(weft_text *text, const char *key, const char *value)
{
    weft_text_add(text, text->data[text->size - 1] == '{' ? "" : ",");
    weft_text_add_json(text, key);
    weft_text_add(text, ":");
    weft_text_add_json(text, value);
}

static void add_metadata(weft_text *text, const weft_piece *pieces, int n, bool sharded,
                         const char *const *metadata)
{
    bool has_format = false;
    weft_text_add(text, "{\"__metadata__\":{");
    if (text->out_of_memory)
        return;
    for (int i = 0; metadata && metadata[i]; i += 2) {
        has_format = has_format || strcmp(metadata[i], "format") == 0;
        add_pair(text, metadata[i], metadata[i + 1]);
    }
    if (!has_format)
        add_pair(text, "format", "pt");
    if (sharded) {
        add_pair(text, "DCP_VERSION", "1.0");
        weft_text_add(text, ",");
        add_sharding(text, pieces, n);
    }
    weft_text_add(text, "}");
}

static void add_tensor(weft_text *text, const weft_piece *p, int64_t *offset)
{
    int64_t span[2] = {*offset, *offset + weft_piece_bytes(p)};
    weft_text_add(text, ",");
    weft_text_add_json(text, p->name);
    weft_text_print(text, ":{\"dtype\":\"%s\",", store_type_name(p->dtype));
    add_numbers(text, "shape", p->size, p->n_dims);
    weft_text_add(text, ",");
    add_numbers(text, "data_offsets", span, 2);
    weft_text_add(text, "}");
    *offset = span[1];
}

/* Widest elements first, so that every tensor is aligned for readers that map the file. The first
 * begins at a multiple of ALIGNMENT: where a processor copies to a place that lies up to 63 bytes
 * behind that of its source, whole pages aside, it may take six times as long. */
enum { ALIGNMENT = 64 };

void store_build_header(weft_text *text, const weft_piece *pieces, int n, bool sharded,
                        const char *const *metadata, int64_t *begin)
{
    int64_t offset = 0;
    add_metadata(text, pieces, n, sharded, metadata);
    for (size_t width = 8; width > 0; width /= 2) {
        for (int i = 0; i < n; i++) {
            if (weft_dtype_size(pieces[i].dtype) != width)
                continue;
            begin[i] = offset;
            add_tensor(text, &pieces[i], &offset);
        }
    }
    begin[n] = offset;
    weft_text_add(text, "}");
    while ((8 + text->size) % ALIGNMENT != 0 && !text->out_of_memory)
        weft_text_add(text, " ");
}
