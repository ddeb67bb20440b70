/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of tensors: what they share with each piece, row by row, with few and large reads. */
#include "io/internal.h"

#include <inttypes.h>
#include <string.h>

enum { ROOM = 1 << 20, LONG_ROW = 64 << 10, SMALL_GAP = 32 << 10, ALIGNMENT = 64 };

/* What a box and a piece share, cut into rows that are dense in the file and in the box. */
typedef struct shared_box {
    weft_folder *folder;
    store_file *file;
    const store_type *type;
    weft_dtype dtype;
    int64_t width, to_width; /* of an element */
    int64_t data;            /* where the piece's data begins in the file */
    uint8_t *to;
    int n_outer; /* dims over which rows are counted */
    int64_t count[WEFT_MAX_DIMS], from_step[WEFT_MAX_DIMS], to_step[WEFT_MAX_DIMS];
    int64_t from_first, to_first; /* elements */
    int64_t row, n_rows;          /* elements; how many */
    uint8_t *buffer;              /* [room] or NULL */
    int64_t room;
} shared_box;

typedef struct row_place {
    int64_t from, to; /* elements from the piece's and the box's begin on */
} row_place;

static row_place place_row(const shared_box *b, int64_t row)
{
    row_place place = {b->from_first, b->to_first};
    for (int d = b->n_outer - 1; d >= 0; d--) {
        int64_t i = row % b->count[d];
        row /= b->count[d];
        place.from += i * b->from_step[d];
        place.to += i * b->to_step[d];
    }
    return place;
}

/* False: they share nothing. */
static bool share(shared_box *b, const store_entry *piece, const int64_t *lo, const int64_t *size)
{
    if (!store_boxes_meet(piece->n_dims, piece->lo, piece->size, lo, size))
        return false;
    int64_t from_step = 1, to_step = 1;
    bool dense = true;
    b->row = 1;
    b->n_rows = 1;
    for (int d = piece->n_dims - 1; d >= 0; d--) {
        int64_t begin = piece->lo[d] > lo[d] ? piece->lo[d] : lo[d];
        int64_t end_piece = piece->lo[d] + piece->size[d], end_box = lo[d] + size[d];
        int64_t count = (end_piece < end_box ? end_piece : end_box) - begin;
        b->from_first += (begin - piece->lo[d]) * from_step;
        b->to_first += (begin - lo[d]) * to_step;
        b->count[d] = count;
        b->from_step[d] = from_step;
        b->to_step[d] = to_step;
        if (dense) {
            b->row *= count;
            b->n_outer = d;
        } else {
            b->n_rows *= count;
        }
        dense = dense && count == piece->size[d] && count == size[d];
        from_step *= piece->size[d];
        to_step *= size[d];
    }
    return true;
}

static weft_status read_long_row(shared_box *b, row_place place, weft_error *err)
{
    uint8_t *to = b->to + place.to * b->to_width;
    int64_t at = b->data + place.from * b->width;
    if (b->type->dtype == b->dtype)
        return store_fetch(b->folder, b->file, at, b->row * b->width, to, err);
    int64_t most = b->room / b->width;
    for (int64_t done = 0; done < b->row;) {
        int64_t n = b->row - done < most ? b->row - done : most;
        weft_status status =
            store_fetch(b->folder, b->file, at + done * b->width, n * b->width, b->buffer, err);
        if (status != WEFT_OK)
            return status;
        store_convert(b->type, b->dtype, b->buffer, to + done * b->to_width, n);
        done += n;
    }
    return WEFT_OK;
}

/* How many rows from `first` on are read in one go, gaps included; and how many elements that
 * spans. */
static int64_t count_near(const shared_box *b, int64_t first, int64_t *span)
{
    int64_t begin = place_row(b, first).from, n = 1;
    int64_t most_gap = (SMALL_GAP > b->row * b->width ? SMALL_GAP : b->row * b->width) / b->width;
    *span = b->row;
    for (; first + n < b->n_rows; n++) {
        int64_t next = place_row(b, first + n).from - begin;
        if (next - *span > most_gap || (next + b->row) * b->width > b->room)
            break;
        *span = next + b->row;
    }
    return n;
}

static weft_status read_short_rows(shared_box *b, weft_error *err)
{
    int64_t n = 0, span = 0;
    for (int64_t first = 0; first < b->n_rows; first += n) {
        n = count_near(b, first, &span);
        int64_t begin = place_row(b, first).from;
        weft_status status = store_fetch(b->folder, b->file, b->data + begin * b->width,
                                         span * b->width, b->buffer, err);
        if (status != WEFT_OK)
            return status;
        for (int64_t i = 0; i < n; i++) {
            row_place place = place_row(b, first + i);
            store_convert(b->type, b->dtype, b->buffer + (place.from - begin) * b->width,
                          b->to + place.to * b->to_width, b->row);
        }
    }
    return WEFT_OK;
}

static weft_status read_rows(shared_box *b, weft_error *err)
{
    weft_status status = WEFT_OK;
    bool is_long = b->row * b->width >= LONG_ROW || (b->n_rows == 1 && b->type->dtype == b->dtype);
    int64_t span = (place_row(b, b->n_rows - 1).from + b->row - b->from_first) * b->width;
    b->room = span < ROOM ? span : ROOM;
    if (!is_long || b->type->dtype != b->dtype) {
        b->buffer = weft_alloc_aligned(ALIGNMENT, (size_t)b->room);
        if (!b->buffer)
            return weft_fail_memory(err);
    }
    if (!is_long)
        status = read_short_rows(b, err);
    for (int64_t i = 0; i < b->n_rows && is_long && status == WEFT_OK; i++)
        status = read_long_row(b, place_row(b, i), err);
    weft_free_aligned(b->buffer);
    return status;
}

static weft_status check_box(const weft_folder *folder, const weft_stored *t, const int64_t *lo,
                             const int64_t *size, weft_error *err)
{
    for (int d = 0; d < t->n_dims; d++) {
        if (lo[d] < 0 || size[d] < 0 || lo[d] > t->size[d] || size[d] > t->size[d] - lo[d])
            return weft_fail(err, WEFT_ERR_INTERNAL, (weft_where){folder->path, 0},
                             "tensor \"%s\": %" PRId64 " elements from %" PRId64
                             " on were asked for, but dim %d has %" PRId64,
                             t->name, size[d], lo[d], d, t->size[d]);
    }
    return WEFT_OK;
}

weft_status weft_folder_read(weft_folder *folder, const char *name, const int64_t *lo,
                             const int64_t *size, weft_dtype dtype, void *to, weft_error *err)
{
    weft_where at = {folder->path, 0};
    const weft_stored *stored = weft_folder_find(folder, name);
    if (!stored)
        return weft_fail(err, WEFT_ERR_INPUT, at, "there is no tensor \"%s\" in it", name);
    const store_tensor *t = (const void *)stored; /* its first member */
    if ((unsigned)dtype >= WEFT_DTYPES)
        return weft_fail(err, WEFT_ERR_INTERNAL, at,
                         "tensor \"%s\" was asked for in an impossible dtype", name);
    if (!store_converts(t->type, dtype))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "tensor \"%s\" is stored as %s, which cannot be read as %s", name,
                         stored->type, weft_dtype_name(dtype));
    weft_status status = check_box(folder, stored, lo, size, err);
    for (int i = 0; i < stored->n_pieces && status == WEFT_OK; i++) {
        const store_part *part = &t->parts[i];
        shared_box b = {
            .folder = folder, .file = part->file, .type = t->type, .dtype = dtype, .to = to};
        b.width = t->type->bits / 8;
        b.to_width = (int64_t)weft_dtype_size(dtype);
        b.data = part->file->header.data + part->entry->begin;
        if (share(&b, part->entry, lo, size))
            status = read_rows(&b, err);
    }
    return status;
}
