/* SPDX-License-Identifier: Apache-2.0 */
#include "read_safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <weft/op.h>

struct safetensors {
    char *bytes;
    size_t size;
    json_t *header;
    weft_safetensor *list; /* by offset */
    int n;
};

static const struct {
    const char *name;
    weft_dtype dtype;
} dtypes[] = {{"F32", WEFT_F32},        {"F64", WEFT_F64},       {"BF16", WEFT_BF16},
              {"I32", WEFT_I32},        {"U8", WEFT_U8},         {"F8_E4M3", WEFT_F8E4M3},
              {"F8_E5M2", WEFT_F8E5M2}, {"F8_E8M0", WEFT_F8E8M0}};

static weft_status bad(const char *path, const char *what, const char *name, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0}, "not a safetensors file: %s%s%s",
                     what, *name ? " of " : "", name);
}

static weft_status read_tensor(const safetensors *f, const char *path, const char *name,
                               const json_t *entry, size_t start, weft_safetensor *t,
                               weft_error *err)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape"),
                 *offsets = json_object_get(entry, "data_offsets");
    *t = (weft_safetensor){
        .name = name, .dtype = WEFT_DTYPES, .n_dims = (int)json_array_size(shape)};
    for (size_t i = 0; dtype && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, dtype) == 0)
            t->dtype = dtypes[i].dtype;
    if (t->dtype == WEFT_DTYPES)
        return bad(path, "unknown dtype", name, err);
    if (!json_is_array(shape) || t->n_dims > 6 || json_array_size(offsets) != 2)
        return bad(path, "shape or data_offsets", name, err);
    for (int d = 0; d < t->n_dims; d++)
        t->size[d] = json_integer_value(json_array_get(shape, (size_t)d));
    json_int_t from = json_integer_value(json_array_get(offsets, 0)),
               to = json_integer_value(json_array_get(offsets, 1));
    int64_t bytes = safetensor_count(t) * (int64_t)weft_dtype_size(t->dtype);
    if (from < 0 || to < from || to - from != bytes || (size_t)to > f->size - start)
        return bad(path, "data_offsets", name, err);
    t->data = f->bytes + start + from;
    return (start + (size_t)from) % weft_dtype_size(t->dtype) ? bad(path, "alignment", name, err)
                                                              : WEFT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const char *x = ((const weft_safetensor *)a)->data, *y = ((const weft_safetensor *)b)->data;
    return (x > y) - (x < y);
}

static weft_status parse(safetensors *f, const char *path, weft_error *err)
{
    uint64_t header = 0;
    for (size_t i = 0; i < 8 && f->size >= 8; i++)
        header |= (uint64_t)(unsigned char)f->bytes[i] << (8 * i);
    if (f->size < 8 || header > f->size - 8)
        return bad(path, "it is too short", "", err);
    f->header = json_loadb(f->bytes + 8, (size_t)header, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(f->header))
        return bad(path, "its header is not a JSON object", "", err);
    f->list = weft_alloc_zero(json_object_size(f->header) + 1, sizeof *f->list);
    if (!f->list)
        return weft_fail_memory(err);
    const char *name;
    json_t *entry;
    json_object_foreach(f->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        weft_status s = read_tensor(f, path, name, entry, 8 + (size_t)header, &f->list[f->n], err);
        if (s)
            return s;
        f->n++;
    }
    qsort(f->list, (size_t)f->n, sizeof *f->list, by_offset);
    const char *at = f->bytes + 8 + header;
    for (int i = 0; i < f->n; i++) {
        if (f->list[i].data != at)
            return bad(path, "a hole before the data", f->list[i].name, err);
        at += (size_t)safetensor_count(&f->list[i]) * weft_dtype_size(f->list[i].dtype);
    }
    return at == f->bytes + f->size ? WEFT_OK : bad(path, "bytes behind the last tensor", "", err);
}

weft_status safetensors_read(const char *path, safetensors **out, weft_error *err)
{
    *out = NULL;
    safetensors *f = weft_alloc_zero(1, sizeof *f);
    if (!f)
        return weft_fail_memory(err);
    weft_status s = weft_read_file(path, &f->bytes, &f->size, err);
    s = s ? s : parse(f, path, err);
    if (s)
        safetensors_destroy(f);
    else
        *out = f;
    return s;
}

void safetensors_destroy(safetensors *f)
{
    if (!f)
        return;
    json_decref(f->header);
    weft_free(f->list);
    weft_free(f->bytes);
    weft_free(f);
}

const weft_safetensor *safetensors_find(const safetensors *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->list[i].name, name) == 0)
            return &f->list[i];
    return NULL;
}

const weft_safetensor *safetensors_at(const safetensors *f, int i)
{
    return i >= 0 && i < f->n ? &f->list[i] : NULL;
}

const char *safetensors_metadata(const safetensors *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}

int64_t safetensor_count(const weft_safetensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->n_dims; d++)
        n *= t->size[d];
    return n;
}

double safetensor_get(const weft_safetensor *t, int64_t i)
{
    union {
        const void *in;
        void *out;
    } data = {t->data};
    return weft_tensor_get(&(weft_tensor){.data = data.out, .dtype = t->dtype}, i);
}
