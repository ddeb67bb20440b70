/* SPDX-License-Identifier: Apache-2.0 */
#include "io/internal.h"

#include <fcntl.h>

uint64_t weft_sum(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

void weft_sums_release(weft_sums *sums)
{
    weft_free(sums->sum);
    *sums = (weft_sums){0};
}

weft_status store_summer_init(store_summer *summer, int64_t bytes, weft_error *err)
{
    int64_t n = bytes / WEFT_SUM_CHUNK + (bytes % WEFT_SUM_CHUNK != 0);
    *summer = (store_summer){
        .sums = {bytes, WEFT_SUM_CHUNK, n, weft_alloc_zero((size_t)n, sizeof(uint64_t))}};
    summer->state = XXH3_createState();
    if (!summer->sums.sum || !summer->state) {
        store_summer_release(summer);
        return weft_fail_memory(err);
    }
    XXH3_64bits_reset(summer->state);
    return WEFT_OK;
}

void store_summer_release(store_summer *summer)
{
    XXH3_freeState(summer->state);
    weft_sums_release(&summer->sums);
    *summer = (store_summer){0};
}

void store_summer_add(store_summer *summer, const void *data, int64_t n)
{
    const char *p = data;
    weft_sums *sums = &summer->sums;
    while (n > 0) {
        int64_t end = summer->at / sums->chunk * sums->chunk + sums->chunk;
        int64_t take = (end < sums->bytes ? end : sums->bytes) - summer->at;
        take = take < n ? take : n;
        XXH3_64bits_update(summer->state, p, (size_t)take);
        summer->at += take;
        p += take;
        n -= take;
        if (summer->at == end || summer->at == sums->bytes) {
            sums->sum[(summer->at - 1) / sums->chunk] = XXH3_64bits_digest(summer->state);
            XXH3_64bits_reset(summer->state);
        }
    }
}

weft_status store_summer_read(store_summer *summer, const weft_io *io, int fd, const char *path,
                              weft_error *err)
{
    int64_t left = summer->sums.bytes - summer->at;
    if (left == 0)
        return WEFT_OK;
    int64_t room = left < 1 << 20 ? left : 1 << 20;
    char *buffer = weft_alloc((size_t)room);
    if (!buffer)
        return weft_fail_memory(err);
    weft_status status = WEFT_OK;
    while (left > 0 && status == WEFT_OK) {
        int64_t n = left < room ? left : room;
        status = store_read(io, fd, path, buffer, n, summer->at, err);
        if (status == WEFT_OK)
            store_summer_add(summer, buffer, n);
        left -= n;
    }
    weft_free(buffer);
    return status;
}

static weft_status sum_open_file(const weft_io *io, int fd, const char *path, weft_sums *out,
                                 weft_error *err)
{
    int64_t bytes = 0;
    store_summer summer;
    if (io->size(io->ctx, fd, &bytes) != 0)
        return weft_fail_errno_hint(err, path, "ask for its size", "");
    weft_status status = store_summer_init(&summer, bytes, err);
    if (status != WEFT_OK)
        return status;
    status = store_summer_read(&summer, io, fd, path, err);
    if (status == WEFT_OK) {
        *out = summer.sums;
        summer.sums = (weft_sums){0};
    }
    store_summer_release(&summer);
    return status;
}

weft_status weft_sums_of_file(const weft_io *io, const char *path, weft_sums *out, weft_error *err)
{
    int fd = store_open(io, path, O_RDONLY, 0);
    if (fd < 0)
        return weft_fail_errno_hint(err, path, "open", "");
    weft_status status = sum_open_file(io, fd, path, out, err);
    io->close(io->ctx, fd);
    return status;
}
