/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens that other programs made: ids without anything else (nanoGPT), behind a header
 * (llm.c), or beside an index (Megatron). They are the user's and may change at any time, so they
 * are read and never mapped. */
#include "data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 1024, INDEX_HEAD_BYTES = 34, PIECE_BYTES = 4096 };

static uint64_t little(const unsigned char *s, size_t width)
{
    uint64_t x = 0;
    for (size_t i = width; i-- > 0;)
        x = x << 8 | s[i];
    return x;
}

/* The first bytes of a file; *n: how many there are. */
static weft_status read_head(const char *path, unsigned char *to, size_t room, size_t *n,
                             weft_error *err)
{
    int fd;
    weft_status status = weft_open_file(path, (weft_where){path, 0}, &fd, err);
    if (status)
        return status;
    ssize_t got = 1;
    for (*n = 0; got > 0 && *n<room; *n += got> 0 ? (size_t)got : 0) {
        do
            got = pread(fd, to + *n, room - *n, (off_t)*n);
        while (got < 0 && errno == EINTR);
    }
    if (got < 0)
        status = text_fail_errno(err, WEFT_ERR_IO, "read", path);
    close(fd);
    return status;
}

/* ---- what a file is ---- */

static weft_status read_index_head(text_bin *bin, weft_error *err)
{
    unsigned char head[INDEX_HEAD_BYTES];
    size_t n;
    weft_status status = read_head(bin->index, head, sizeof head, &n, err);
    if (status)
        return status;
    if (n < sizeof head || memcmp(head, "MMIDIDX\0", 9) || little(head + 9, 8) != 1)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){bin->index, 0},
                         "this is not an index of Megatron's, version 1; remove it if %s needs "
                         "none, or make both again",
                         bin->path);
    if (head[17] != 8 && head[17] != 4)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){bin->index, 0},
                         "its tokens have the dtype code %d; weft reads 8 (uint16) and 4 (int32)",
                         head[17]);
    bin->width = head[17] == 8 ? 2 : 4;
    return WEFT_OK;
}

/* llm.c: 256 int32, of them magic, version and number of tokens. */
static weft_status read_llmc_head(text_bin *bin, const unsigned char *head, int64_t bytes, bool *is,
                                  weft_error *err)
{
    uint64_t magic = little(head, 4), version = little(head + 4, 4), n = little(head + 8, 4);
    *is = (magic == 20240520 && version == 1) ||
          (magic == 20240801 && (version == 1 || version == 7));
    if (!*is)
        return WEFT_OK;
    bin->width = magic == 20240520 ? 2 : 4;
    bin->data_at = HEADER_BYTES;
    bin->begins = true;
    if ((int64_t)(n * bin->width) == bytes - HEADER_BYTES)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, (weft_where){bin->path, 0},
                     "the header says %" PRIu64
                     " tokens of %zu bytes, but %lld bytes follow it; is the file complete?",
                     n, bin->width, (long long)(bytes - HEADER_BYTES));
}

static weft_status open_bin(text_bin *bin, const text_plugin *text, int64_t bytes, weft_error *err)
{
    unsigned char head[HEADER_BYTES];
    size_t n;
    bool is = false;
    weft_status status =
        bin->index ? read_index_head(bin, err) : read_head(bin->path, head, sizeof head, &n, err);
    if (!status && !bin->index && n == sizeof head)
        status = read_llmc_head(bin, head, bytes, &is, err);
    if (status)
        return status;
    if (!bin->width)
        bin->width = text->bin_width                          ? text->bin_width
                     : text->tokenizer->vocab_size <= 1 << 16 ? 2
                                                              : 4;
    bin->n_tokens = (bytes - bin->data_at) / (int64_t)bin->width;
    if ((bytes - bin->data_at) % (int64_t)bin->width)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){bin->path, 0},
                         "%lld bytes are no whole number of tokens of %zu bytes; is the file "
                         "complete, and [text] bin_dtype right?",
                         (long long)bytes, bin->width);
    return WEFT_OK;
}

weft_status text_bins_open(text_bins *bins, const text_plugin *text, const text_files *files,
                           weft_error *err)
{
    size_t n = 0;
    int64_t first = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < files->n; i++)
        n += files->list[i].kind == TEXT_BIN;
    *bins = (text_bins){.vocab = (uint32_t)text->tokenizer->vocab_size};
    if (!n)
        return WEFT_OK;
    bins->list = weft_alloc_zero(n, sizeof *bins->list);
    if (!bins->list)
        return weft_fail_memory(err);
    for (size_t i = 0; i < files->n; i++) {
        const text_file *file = &files->list[i];
        if (file->kind != TEXT_BIN)
            continue;
        text_bin *bin = &bins->list[bins->n++];
        bool indexed = i + 1 < files->n && files->list[i + 1].kind == TEXT_INDEX;
        *bin = (text_bin){
            .path = file->path, .index = indexed ? files->list[i + 1].path : NULL, .first = first};
        weft_status now = open_bin(bin, text, file->size, err);
        if (!now && __builtin_add_overflow(first, bin->n_tokens, &first))
            now = weft_fail(err, WEFT_ERR_INPUT, (weft_where){bin->path, 0},
                            "with it the files have more tokens than can be counted");
        status = status ? status : now;
    }
    if (status)
        text_bins_release(bins);
    return status;
}

void text_bins_release(text_bins *bins)
{
    weft_free(bins->list);
    *bins = (text_bins){0};
}

/* ---- reading tokens ---- */

static weft_status fail_shrunk(const text_bin *bin, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_IO, (weft_where){bin->path, 0},
                     "the file has become shorter than the %lld tokens it had when the run began",
                     (long long)bin->n_tokens);
}

/* They were all checked when the run began, but the file is the user's. */
static weft_status check_ids(const text_bin *bin, uint32_t vocab, int64_t at, size_t n,
                             const int32_t *ids, weft_error *err)
{
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)ids[i] >= vocab)
            return weft_fail(err, WEFT_ERR_IO, (weft_where){bin->path, 0},
                             "the file has changed since the run began: token %lld is id %u, and "
                             "the vocabulary has ids 0 to %u",
                             (long long)at + (long long)i, (uint32_t)ids[i], vocab - 1);
    return WEFT_OK;
}

static weft_status read_piece(const text_bin *bin, int fd, int64_t at, size_t n, int32_t *ids,
                              weft_error *err)
{
    unsigned char raw[PIECE_BYTES];
    size_t bytes = n * bin->width;
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, raw + done, bytes - done,
                            bin->data_at + at * (int64_t)bin->width + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return text_fail_errno(err, WEFT_ERR_IO, "read", bin->path);
        if (got == 0)
            return fail_shrunk(bin, err);
        done += (size_t)got;
    }
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(uint32_t)little(raw + i * bin->width, bin->width);
    return WEFT_OK;
}

static weft_status read_bin(const text_bin *bin, uint32_t vocab, int64_t at, int64_t n,
                            int32_t *ids, weft_error *err)
{
    int fd;
    weft_status status = WEFT_OK;
    if (weft_open_file(bin->path, WEFT_NOWHERE, &fd, NULL))
        return text_fail_errno(err, WEFT_ERR_IO, "read", bin->path);
    for (int64_t done = 0, some; !status && done < n; done += some) {
        int64_t room = PIECE_BYTES / (int64_t)bin->width;
        some = n - done < room ? n - done : room;
        status = read_piece(bin, fd, at + done, (size_t)some, ids + done, err);
        if (!status)
            status = check_ids(bin, vocab, at + done, (size_t)some, ids + done, err);
    }
    close(fd);
    return status;
}

weft_status text_bins_read(const text_bins *bins, int64_t at, int64_t n, int32_t *ids,
                           weft_error *err)
{
    size_t low = 0, high = bins->n;
    while (high - low > 1) { /* the last file that begins at or before `at` */
        size_t middle = low + (high - low) / 2;
        if (bins->list[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    weft_status status = WEFT_OK;
    for (; !status && n > 0 && low < bins->n; low++) {
        const text_bin *bin = &bins->list[low];
        int64_t inside = at - bin->first,
                some = bin->n_tokens - inside < n ? bin->n_tokens - inside : n;
        if (some <= 0)
            continue;
        status = read_bin(bin, bins->vocab, inside, some, ids, err);
        at += some;
        ids += some;
        n -= some;
    }
    return status;
}
