/* SPDX-License-Identifier: Apache-2.0 */
/* The format: 8 bytes of header length, a JSON header padded with spaces, then the tensors without
 * gaps. */
#include <weft/files.h>

#include "io/atomic_file.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "safetensors files are little-endian, and tensors are written as they lie in memory");

static const char *const type_name[WEFT_DTYPES] = {
    [WEFT_F32] = "F32",        [WEFT_F64] = "F64",        [WEFT_BF16] = "BF16",
    [WEFT_I32] = "I32",        [WEFT_U8] = "U8",          [WEFT_F8E4M3] = "F8_E4M3",
    [WEFT_F8E5M2] = "F8_E5M2", [WEFT_F8E8M0] = "F8_E8M0",
};

static bool count_bytes(const weft_safetensor *t, size_t *bytes)
{
    if ((unsigned)t->dtype >= WEFT_DTYPES || t->n_dims < 0 || t->n_dims > 6)
        return false;
    *bytes = weft_dtype_size(t->dtype);
    for (int d = 0; d < t->n_dims; d++) {
        if (t->size[d] < 0 || __builtin_mul_overflow(*bytes, (size_t)t->size[d], bytes))
            return false;
    }
    return true;
}

static weft_status check(const char *path, const weft_safetensor *tensors, int n, weft_error *err)
{
    weft_where at = {path, 0};
    size_t total = 0, bytes = 0;
    for (int i = 0; i < n; i++) {
        const char *name = tensors[i].name;
        if (strcmp(name, "__metadata__") == 0)
            return weft_fail(err, WEFT_ERR_INTERNAL, at,
                             "a tensor must not be called __metadata__");
        if (!count_bytes(&tensors[i], &bytes) || __builtin_add_overflow(total, bytes, &total))
            return weft_fail(err, WEFT_ERR_INTERNAL, at, "tensor %s has an impossible type or size",
                             name);
        for (int j = 0; j < i; j++) {
            if (strcmp(tensors[j].name, name) == 0)
                return weft_fail(err, WEFT_ERR_INTERNAL, at, "two tensors are called %s", name);
        }
    }
    return WEFT_OK;
}

static void add_metadata(weft_text *header, const char *const *metadata)
{
    weft_text_add(header, "\"__metadata__\":{");
    for (int i = 0; metadata[i]; i += 2) {
        weft_text_add(header, i ? "," : "");
        weft_text_add_json(header, metadata[i]);
        weft_text_add(header, ":");
        weft_text_add_json(header, metadata[i + 1]);
    }
    weft_text_add(header, "}");
}

static void add_tensor(weft_text *header, const weft_safetensor *t, size_t *offset)
{
    size_t bytes = 0;
    count_bytes(t, &bytes);
    if (header->size > 1)
        weft_text_add(header, ",");
    weft_text_add_json(header, t->name);
    weft_text_print(header, ":{\"dtype\":\"%s\",\"shape\":[", type_name[t->dtype]);
    for (int d = 0; d < t->n_dims; d++)
        weft_text_print(header, "%s%" PRId64, d ? "," : "", t->size[d]);
    weft_text_print(header, "],\"data_offsets\":[%zu,%zu]}", *offset, *offset + bytes);
    *offset += bytes;
}

/* Widest elements first, so that every tensor is aligned for readers that map the file; the same
 * order as write_data's. */
static void build_header(weft_text *header, const weft_safetensor *tensors, int n,
                         const char *const *metadata)
{
    weft_text_add(header, "{");
    if (metadata && metadata[0])
        add_metadata(header, metadata);
    size_t offset = 0;
    for (size_t width = 8; width > 0; width /= 2) {
        for (int i = 0; i < n; i++) {
            if (weft_dtype_size(tensors[i].dtype) == width)
                add_tensor(header, &tensors[i], &offset);
        }
    }
    weft_text_add(header, "}");
    while (header->size % 8 != 0 && !header->out_of_memory)
        weft_text_add(header, " ");
}

static weft_status write_data(weft_atomic_file *file, const weft_safetensor *tensors, int n,
                              weft_error *err)
{
    weft_status status = WEFT_OK;
    for (size_t width = 8; width > 0; width /= 2) {
        for (int i = 0; i < n && status == WEFT_OK; i++) {
            size_t bytes = 0;
            if (weft_dtype_size(tensors[i].dtype) == width && count_bytes(&tensors[i], &bytes))
                status = weft_atomic_file_write(file, tensors[i].data, bytes, err);
        }
    }
    return status;
}

static weft_status write_parts(weft_atomic_file *file, const weft_text *header,
                               const weft_safetensor *tensors, int n, weft_error *err)
{
    uint64_t length = header->size;
    weft_status status = weft_atomic_file_write(file, &length, sizeof length, err);
    if (status == WEFT_OK)
        status = weft_atomic_file_write(file, header->data, header->size, err);
    return status == WEFT_OK ? write_data(file, tensors, n, err) : status;
}

weft_status weft_write_safetensors(const char *path, const weft_safetensor *tensors, int n,
                                   const char *const *metadata, weft_error *err)
{
    weft_status status = check(path, tensors, n, err);
    if (status != WEFT_OK)
        return status;
    weft_atomic_file file;
    weft_text header = {0};
    build_header(&header, tensors, n, metadata);
    if (header.out_of_memory) {
        status = weft_fail_memory(err);
        goto done;
    }
    status = weft_atomic_file_open(&file, path, err);
    if (status != WEFT_OK)
        goto done;
    status = write_parts(&file, &header, tensors, n, err);
    if (status == WEFT_OK)
        status = weft_atomic_file_commit(&file, err);
    else
        weft_atomic_file_abandon(&file);
done:
    weft_text_release(&header);
    return status;
}
