/* SPDX-License-Identifier: Apache-2.0 */
/* dcp write FOLDER: what four ranks would write. Each element is its own number in the whole tensor
 * (bf16 wherever that is exact). dcp check FOLDER: whether these tensors are in it, whoever wrote
 * them. */
#include <weft/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

/* Tensors, and over how many ranks each dim is cut. */
static const struct {
    weft_piece whole;
    int cuts[2];
} tensors[] = {
    {{"rows", WEFT_F32, 2, {5, 3}, {0}, {5, 3}}, {4, 1}}, /* 2, 2, 1 and 0 rows */
    {{"blocks.0.grid", WEFT_BF16, 2, {5, 7}, {0}, {5, 7}}, {2, 2}},
    {{"wide", WEFT_F64, 1, {9}, {0}, {9}}, {4, 1}},
    {{"one", WEFT_F32, 0, {0}, {0}, {0}}, {1, 1}}, /* only rank 0 has it */
};

enum { N_TENSORS = sizeof tensors / sizeof tensors[0] };

/* False: nothing is left for this rank. */
static bool cut(int tensor, int rank, weft_piece *piece)
{
    *piece = tensors[tensor].whole;
    const int *cuts = tensors[tensor].cuts;
    if (rank >= cuts[0] * cuts[1])
        return false;
    int at[2] = {rank / cuts[1], rank % cuts[1]};
    for (int d = 0; d < piece->n_dims; d++) {
        int64_t chunk = (piece->whole[d] + cuts[d] - 1) / cuts[d],
                left = piece->whole[d] - at[d] * chunk;
        piece->lo[d] = at[d] * chunk;
        piece->size[d] = left < chunk ? left : chunk;
        if (left <= 0)
            return false;
    }
    return true;
}

static int64_t number_of(const weft_piece *p, int64_t i)
{
    int64_t number = 0, step = 1;
    for (int d = p->n_dims - 1; d >= 0; d--) {
        number += (p->lo[d] + i % p->size[d]) * step;
        i /= p->size[d];
        step *= p->whole[d];
    }
    return number;
}

static void put(const weft_piece *p, int64_t i, char *to)
{
    double d = (double)number_of(p, i);
    float f = (float)d;
    uint16_t h = weft_f32_to_bf16(f);
    const void *from = p->dtype == WEFT_F64   ? (const void *)&d
                       : p->dtype == WEFT_F32 ? (const void *)&f
                                              : (const void *)&h;
    memcpy(to, from, weft_dtype_size(p->dtype));
}

static weft_status write_piece(weft_shard *shard, int i, const weft_piece *p, weft_error *err)
{
    int64_t bytes = weft_piece_bytes(p), width = (int64_t)weft_dtype_size(p->dtype);
    char *data = malloc((size_t)bytes);
    if (!data)
        return weft_fail_memory(err);
    for (int64_t k = 0; k < bytes / width; k++)
        put(p, k, data + k * width);
    weft_status status = weft_shard_write(shard, i, 0, data, bytes, err);
    free(data);
    return status;
}

static weft_status write_rank(const char *folder, int rank, weft_error *err)
{
    weft_piece pieces[N_TENSORS];
    weft_shard *shard = NULL;
    char path[4096];
    int n = 0;
    for (int i = 0; i < N_TENSORS; i++)
        n += cut(i, rank, &pieces[n]);
    snprintf(path, sizeof path, "%s/rank-%d.safetensors", folder, rank);
    weft_status status =
        weft_shard_create(weft_io_system(), path, pieces, n, true, NULL, &shard, err);
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = write_piece(shard, i, &pieces[i], err);
    if (status == WEFT_OK)
        status = weft_shard_finish(shard, NULL, err);
    weft_shard_destroy(shard);
    return status;
}

static weft_status write_all(const char *folder, weft_error *err)
{
    weft_status status = weft_io_make_dirs(weft_io_system(), folder, err);
    for (int rank = 0; rank < RANKS && status == WEFT_OK; rank++)
        status = write_rank(folder, rank, err);
    return status;
}

static weft_status check_tensor(weft_folder *folder, const weft_piece *p, weft_error *err)
{
    double data[64];
    weft_where at = {p->name, 0};
    const weft_stored *t = weft_folder_find(folder, p->name);
    if (!t || t->dtype != p->dtype || t->n_dims != p->n_dims ||
        memcmp(t->size, p->whole, sizeof *t->size * (size_t)t->n_dims) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, at, "missing, or of another dtype or shape");
    weft_status status = weft_folder_read(folder, p->name, p->lo, p->size, WEFT_F64, data, err);
    for (int64_t i = 0;
         i < weft_piece_bytes(p) / (int64_t)weft_dtype_size(p->dtype) && status == WEFT_OK; i++) {
        if (data[i] != (double)i)
            status =
                weft_fail(err, WEFT_ERR_INPUT, at, "element %lld is %g", (long long)i, data[i]);
    }
    return status;
}

static weft_status check_all(const char *path, weft_error *err)
{
    weft_folder *folder = NULL;
    weft_status status = weft_folder_open(weft_io_system(), path, &folder, err);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < N_TENSORS && status == WEFT_OK; i++)
        status = check_tensor(folder, &tensors[i].whole, err);
    if (status == WEFT_OK && weft_folder_count(folder) != N_TENSORS)
        status = weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0}, "has %d tensors",
                           weft_folder_count(folder));
    weft_folder_destroy(folder);
    return status;
}

int main(int argc, char **argv)
{
    weft_error err = {0};
    bool writes = argc == 3 && strcmp(argv[1], "write") == 0;
    if (!writes && (argc != 3 || strcmp(argv[1], "check") != 0)) {
        fprintf(stderr, "usage: dcp write|check FOLDER\n");
        return 2;
    }
    weft_status status = writes ? write_all(argv[2], &err) : check_all(argv[2], &err);
    if (status != WEFT_OK)
        fprintf(stderr, "%s\n", weft_error_text(&err));
    weft_error_release(&err);
    return status == WEFT_OK ? 0 : 1;
}
