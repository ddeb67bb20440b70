/* SPDX-License-Identifier: Apache-2.0 */
/* A safetensors header: 8 bytes of length, a JSON object, then the tensors' bytes without a gap.
 * Everything in it is doubted. */
#include "io/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100000000, MAX_NAME = 4096 };

typedef struct header_reader {
    const char *path;
    weft_pool *pool;
    json_t *sharding; /* {name: {"saved_offsets": [..]}} or NULL */
    weft_error *err;
} header_reader;

#define BAD(r, ...) weft_fail((r)->err, WEFT_ERR_INPUT, (weft_where){(r)->path, 0}, __VA_ARGS__)

/* A list of n numbers from 0 on; n < 0: as many as there are, up to WEFT_MAX_DIMS. What was wrong,
 * or NULL. */
static const char *get_numbers(const json_t *list, int64_t *to, int *n)
{
    if (!json_is_array(list))
        return "is not a list";
    size_t count = json_array_size(list);
    if (*n >= 0 && count != (size_t)*n)
        return "has another number of items than it should";
    if (count > WEFT_MAX_DIMS)
        return "is longer than weft can handle";
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return "holds something else than whole numbers from 0 on";
        to[i] = json_integer_value(item);
    }
    *n = (int)count;
    return NULL;
}

static weft_status check_name(header_reader *r, const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > MAX_NAME)
        return BAD(r, "a tensor's name is %s: \"%.60s\"", n ? "too long" : "empty", name);
    for (const char *p = name; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 127)
            return BAD(r, "a tensor's name has control characters in it");
    }
    return WEFT_OK;
}

/* The bytes that its shape asks for against those it claims. */
static weft_status check_extent(header_reader *r, const store_entry *e)
{
    int64_t volume = 0, bits = 0;
    if (e->end < e->begin)
        return BAD(r, "tensor \"%s\": its data_offsets end before they begin", e->name);
    if (!store_volume(e->n_dims, e->size, &volume))
        return BAD(r, "tensor \"%s\": its shape has too many elements to count", e->name);
    if (!e->type)
        return WEFT_OK;
    if (__builtin_mul_overflow(volume, (int64_t)e->type->bits, &bits))
        return BAD(r, "tensor \"%s\": its shape has too many elements to count", e->name);
    if (bits % 8 != 0)
        return BAD(r, "tensor \"%s\": %s and its shape end within a byte", e->name, e->type_name);
    if (bits / 8 != e->end - e->begin)
        return BAD(
            r, "tensor \"%s\": %s and its shape need %lld bytes, but its data_offsets span %lld",
            e->name, e->type_name, (long long)(bits / 8), (long long)(e->end - e->begin));
    return WEFT_OK;
}

/* Where it lies in the whole tensor: without a word in the sharding it is the whole. */
static weft_status place_entry(header_reader *r, store_entry *e)
{
    const json_t *info = json_object_get(r->sharding, e->name);
    if (info) {
        const char *wrong = get_numbers(json_object_get(info, "saved_offsets"), e->lo, &e->n_dims);
        if (wrong)
            return BAD(r, "tensor \"%s\": its saved_offsets in DCP_SHARDING_INFO: the list %s",
                       e->name, wrong);
    }
    for (int d = 0; d < e->n_dims; d++) {
        if (__builtin_add_overflow(e->lo[d], e->size[d], &e->whole[d]))
            return BAD(r, "tensor \"%s\": its saved_offsets in DCP_SHARDING_INFO are too large",
                       e->name);
    }
    const json_t *whole = json_object_get(info, "whole");
    if (!whole)
        return WEFT_OK;
    int64_t size[WEFT_MAX_DIMS];
    const char *wrong = get_numbers(whole, size, &e->n_dims);
    for (int d = 0; d < e->n_dims && !wrong; d++) {
        if (size[d] < e->whole[d])
            wrong = "is smaller than the piece";
        e->whole[d] = size[d];
    }
    return wrong ? BAD(r, "tensor \"%s\": its whole shape in DCP_SHARDING_INFO: the list %s",
                       e->name, wrong)
                 : WEFT_OK;
}

static weft_status read_entry(header_reader *r, const char *name, const json_t *value,
                              store_entry *e)
{
    weft_status status = check_name(r, name);
    if (status != WEFT_OK)
        return status;
    const char *type = json_string_value(json_object_get(value, "dtype"));
    if (!type || strlen(type) > 32)
        return BAD(r, "tensor \"%s\": has no dtype", name);
    int64_t offsets[WEFT_MAX_DIMS];
    int two = 2;
    *e = (store_entry){.name = weft_pool_strdup(r->pool, name),
                       .type_name = weft_pool_strdup(r->pool, type),
                       .n_dims = -1};
    if (!e->name || !e->type_name)
        return weft_fail_memory(r->err);
    const char *wrong = get_numbers(json_object_get(value, "shape"), e->size, &e->n_dims);
    if (wrong)
        return BAD(r, "tensor \"%s\": its shape %s", name, wrong);
    wrong = get_numbers(json_object_get(value, "data_offsets"), offsets, &two);
    if (wrong)
        return BAD(r, "tensor \"%s\": its data_offsets: the list %s", name, wrong);
    e->type = store_type_find(type);
    e->begin = offsets[0];
    e->end = offsets[1];
    status = check_extent(r, e);
    return status == WEFT_OK ? place_entry(r, e) : status;
}

static int by_offset(const void *a, const void *b)
{
    const store_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Without a gap, without an overlap, to the last byte. */
static weft_status check_order(header_reader *r, store_header *h, int64_t data_bytes)
{
    int64_t at = 0;
    qsort(h->entries, (size_t)h->n, sizeof *h->entries, by_offset);
    for (int i = 0; i < h->n; i++) {
        const store_entry *e = &h->entries[i];
        if (e->begin < at)
            return BAD(r, "tensors \"%s\" and \"%s\" overlap", h->entries[i - 1].name, e->name);
        if (e->begin > at)
            return BAD(r, "there is a hole of %lld bytes before tensor \"%s\"",
                       (long long)(e->begin - at), e->name);
        if (e->end > data_bytes)
            return BAD(r, "tensor \"%s\" ends %lld bytes after the file does: the file was cut off",
                       e->name, (long long)(e->end - data_bytes));
        at = e->end;
    }
    if (at != data_bytes)
        return BAD(r, "%lld bytes lie after the last tensor", (long long)(data_bytes - at));
    return WEFT_OK;
}

static weft_status read_metadata(header_reader *r, json_t *metadata, store_header *h)
{
    if (metadata && !json_is_object(metadata))
        return BAD(r, "__metadata__ is not an object");
    const char **to = weft_pool_alloc(r->pool, (2 * json_object_size(metadata) + 1) * sizeof *to);
    if (!to)
        return weft_fail_memory(r->err);
    h->metadata = to;
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return BAD(r, "__metadata__ holds something else than texts");
        /* It is read, and may be long. */
        if (strcmp(key, "DCP_SHARDING_INFO") == 0)
            continue;
        to[0] = weft_pool_strdup(r->pool, key);
        to[1] = weft_pool_strdup(r->pool, json_string_value(value));
        if (!to[0] || !to[1]) {
            to[0] = NULL;
            return weft_fail_memory(r->err);
        }
        to += 2;
    }
    const json_t *sharding = json_object_get(metadata, "DCP_SHARDING_INFO");
    if (!sharding)
        return WEFT_OK;
    json_error_t error;
    r->sharding = json_loadb(json_string_value(sharding), json_string_length(sharding),
                             JSON_REJECT_DUPLICATES, &error);
    if (!r->sharding)
        return BAD(r, "DCP_SHARDING_INFO is not JSON: %s", error.text);
    return json_is_object(r->sharding) ? WEFT_OK : BAD(r, "DCP_SHARDING_INFO is not an object");
}

static weft_status read_entries(header_reader *r, json_t *root, int64_t data_bytes, store_header *h)
{
    json_t *metadata = json_object_get(root, "__metadata__");
    weft_status status = read_metadata(r, metadata, h);
    if (status != WEFT_OK)
        return status;
    h->entries = weft_pool_alloc(r->pool, (json_object_size(root) + 1) * sizeof *h->entries);
    if (!h->entries)
        return weft_fail_memory(r->err);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(root, name, value) {
        if (value == metadata)
            continue;
        status = read_entry(r, name, value, &h->entries[h->n]);
        if (status != WEFT_OK)
            return status;
        h->n++;
    }
    return check_order(r, h, data_bytes);
}

weft_status store_header_parse(const char *path, const char *json, size_t length,
                               int64_t data_bytes, weft_pool *pool, store_header *out,
                               weft_error *err)
{
    header_reader r = {path, pool, NULL, err};
    *out = (store_header){.data = 8 + (int64_t)length};
    if (length == 0 || json[0] != '{')
        return BAD(&r, "is not a .safetensors file: its header does not begin with {");
    json_error_t error;
    json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return BAD(&r, "its header is wrong at byte %d: %s", error.position, error.text);
    weft_status status = read_entries(&r, root, data_bytes, out);
    json_decref(r.sharding);
    json_decref(root);
    return status;
}

weft_status store_header_read(const weft_io *io, int fd, const char *path, int64_t bytes,
                              weft_pool *pool, store_header *out, weft_error *err)
{
    weft_where at = {path, 0};
    uint64_t length = 0;
    if (bytes < 8)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "is not a .safetensors file: it has only %lld bytes", (long long)bytes);
    weft_status status = store_read(io, fd, path, &length, 8, 0, err);
    if (status != WEFT_OK)
        return status;
    if (length > MAX_HEADER)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "is not a .safetensors file: its header would have %llu bytes, more than "
                         "the %d allowed",
                         (unsigned long long)length, MAX_HEADER);
    if ((int64_t)length > bytes - 8)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "its header has %llu bytes, but only %lld are there: the file was cut off",
                         (unsigned long long)length, (long long)(bytes - 8));
    char *json = weft_alloc((size_t)length);
    if (!json)
        return weft_fail_memory(err);
    status = store_read(io, fd, path, json, (int64_t)length, 8, err);
    if (status == WEFT_OK)
        status = store_header_parse(path, json, (size_t)length, bytes - 8 - (int64_t)length, pool,
                                    out, err);
    weft_free(json);
    return status;
}
