/* SPDX-License-Identifier: Apache-2.0 */
/* The token file: header, tokens (none if the files are tokens already), document offsets, one
 * record a source file, identity text, checksums of the blocks that tokens and offsets lie in.
 * Numbers in the machine's byte order. */
#include "build.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC      "weft tokens\r\n\x1a" /* shows conversions of line ends, as PNG's does */
#define VERSION    3u /* change it whenever the format or what tokens mean changes */
#define ORDER_MARK 0x0102030405060708u
enum {
    TOKENS_AT = TEXT_BLOCKS_AT,
    CHECKED_AT_OPEN = 32 << 20 /* bytes of tokens and offsets: milliseconds, and a damaged file of
                                  this size is made again rather than ending the run */
};

typedef struct header {
    char magic[16];
    uint64_t byte_order;
    uint32_t version, width;
    int64_t n_tokens, n_documents, n_files, n_skipped, n_bytes;
    int64_t offsets_at, records_at, identity_at, identity_bytes, sums_at, file_bytes;
    uint64_t tail_checksum; /* of records, identity and sums */
    uint64_t checksum;      /* of all fields above */
} header;

typedef struct record {
    int64_t size, mtime_s, mtime_ns;
    uint64_t hash;
} record;

static uint64_t header_checksum(const header *h)
{
    return weft_sum(h, offsetof(header, checksum));
}

/* ---- reading ---- */

/* Whether [at, at + count * width) lies between the first token and the end of the file. */
static bool section_fits(const header *h, int64_t at, int64_t count, int64_t width)
{
    return at >= TOKENS_AT && at <= h->file_bytes && at % 8 == 0 && count >= 0 &&
           (width == 0 || count <= (h->file_bytes - at) / width);
}

static const char *check_header(const header *h, size_t bytes)
{
    if (bytes < TOKENS_AT || memcmp(h->magic, MAGIC, sizeof MAGIC))
        return TEXT_DAMAGED;
    if (h->byte_order != ORDER_MARK || h->version != VERSION)
        return "another version of weft made it";
    if (h->checksum != header_checksum(h) || h->file_bytes != (int64_t)bytes ||
        (h->width != 0 && h->width != 2 && h->width != 4))
        return TEXT_DAMAGED;
    if (!section_fits(h, TOKENS_AT, h->n_tokens, h->width) || h->n_documents < 0 ||
        !section_fits(h, h->offsets_at, h->n_documents + 1, 8) ||
        !section_fits(h, h->records_at, h->n_files, sizeof(record)) ||
        !section_fits(h, h->identity_at, h->identity_bytes, 1) ||
        !section_fits(h, h->sums_at, text_blocks_count(h->records_at), 8))
        return TEXT_DAMAGED;
    return NULL;
}

static const char *check_origin(const char *map, const header *h, const weft_text *identity,
                                const text_files *files)
{
    const char *tail = map + h->records_at;
    if (h->tail_checksum != weft_sum(tail, (size_t)(h->file_bytes - h->records_at)))
        return TEXT_DAMAGED;
    if (h->n_files != (int64_t)files->n || h->identity_bytes != (int64_t)identity->size ||
        memcmp(map + h->identity_at, identity->data, identity->size))
        return "it was made from other files or settings";
    const record *records = (const void *)tail;
    for (size_t i = 0; i < files->n; i++) {
        const text_file *file = &files->list[i];
        if (records[i].size != file->size || records[i].mtime_s != file->mtime_s ||
            records[i].mtime_ns != file->mtime_ns)
            return "its files have changed";
    }
    return NULL;
}

static weft_status fill_cache(text_cache *cache, const char *path, const char *map, const header *h,
                              text_files *files, weft_error *err)
{
    const record *records = (const void *)(map + h->records_at);
    text_cache made = {
        .path = weft_strdup(path),
        .checked = text_blocks_alloc(h->records_at),
        .sums = (const void *)(map + h->sums_at),
        .blocks_end = h->records_at,
        .map = map,
        .map_bytes = (size_t)h->file_bytes,
        .width = h->width,
        .tokens = h->width ? map + TOKENS_AT : NULL,
        .n_tokens = h->n_tokens,
        .n_documents = h->n_documents,
        .n_skipped = h->n_skipped,
        .n_bytes = h->n_bytes,
        .offsets = (const void *)(map + h->offsets_at),
    };
    if (!made.path || !made.checked) {
        weft_free(made.path);
        weft_free(made.checked);
        return weft_fail_memory(err);
    }
    for (size_t i = 0; i < files->n; i++)
        files->list[i].hash = records[i].hash;
    *cache = made;
    return WEFT_OK;
}

/* NULL, or what is wrong with a file that is mapped at `map`. */
static const char *check_file(const char *map, size_t bytes, const weft_text *identity,
                              const text_files *files)
{
    const header *h = (const void *)map;
    const char *why = check_header(h, bytes);
    if (!why)
        why = check_origin(map, h, identity, files);
    if (!why && h->records_at - TOKENS_AT <= CHECKED_AT_OPEN &&
        !text_blocks_match(map, h->records_at, (const void *)(map + h->sums_at)))
        why = TEXT_DAMAGED;
    return why;
}

weft_status text_token_file_map(text_cache *cache, const char *path, const weft_text *identity,
                                text_files *files, const char **why, weft_error *err)
{
    struct stat st;
    char *map = MAP_FAILED;
    weft_status status = WEFT_OK;
    *why = NULL;
    /* What is no file will do: it gives way to one. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) {
        *why = "there is none";
        return WEFT_OK;
    }
    if (fd < 0 || fstat(fd, &st)) {
        status = text_fail_errno(err, WEFT_ERR_IO, "read", path);
        goto done;
    }
    if (st.st_size < TOKENS_AT) {
        *why = TEXT_DAMAGED;
        goto done;
    }
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        status = text_fail_errno(err, WEFT_ERR_IO, "map", path);
        goto done;
    }
    *why = check_file(map, (size_t)st.st_size, identity, files);
    if (!*why)
        status = fill_cache(cache, path, map, (const void *)map, files, err);
done:
    if (map != MAP_FAILED && (status || *why))
        munmap(map, (size_t)st.st_size);
    if (fd >= 0)
        close(fd);
    return status;
}

void text_cache_release(text_cache *cache)
{
    if (cache->map)
        munmap((void *)(uintptr_t)cache->map, cache->map_bytes);
    weft_free(cache->checked);
    weft_free(cache->path);
    *cache = (text_cache){0};
}

/* ---- making ---- */

/* Offsets are collected in a file of their own, since their number is known last; it has no name,
 * so it is gone with its descriptor. */
static weft_status open_scratch(const char *path, int *fd, weft_error *err)
{
    char *name = weft_format("%s.offsets", path);
    if (!name)
        return weft_fail_memory(err);
    weft_status status = WEFT_OK;
    *fd = weft_open_to_write(name, WEFT_WRITE_AGAIN); /* ours alone: we hold `path` locked */
    if (*fd < 0)
        status = text_fail_errno(err, WEFT_ERR_IO, "create", name);
    else if (unlink(name))
        status = text_fail_errno(err, WEFT_ERR_IO, "remove", name);
    weft_free(name);
    return status;
}

/* Appends the whole of `from` at `at`; buffer is spare memory. */
static weft_status copy_file(int from, int64_t bytes, int to, const char *path, int64_t at,
                             char *buffer, size_t room, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int64_t done = 0; !status && done < bytes; done += (int64_t)room) {
        size_t n = bytes - done < (int64_t)room ? (size_t)(bytes - done) : room;
        status = text_read_at(from, path, buffer, n, done, err);
        if (!status)
            status = text_write_at(to, path, buffer, n, at + done, err);
    }
    return status;
}

/* Adds the sums of all that lies before h->records_at, read back. */
static weft_status add_sums(int fd, const char *path, const header *h, weft_text *tail,
                            weft_error *err)
{
    weft_status status = WEFT_OK;
    char *block = weft_alloc(TEXT_BLOCK);
    if (!block)
        return weft_fail_memory(err);
    for (int64_t at = TOKENS_AT; !status && at < h->records_at; at += TEXT_BLOCK) {
        int64_t left = h->records_at - at;
        size_t n = left < TEXT_BLOCK ? (size_t)left : TEXT_BLOCK;
        status = text_read_at(fd, path, block, n, at, err);
        uint64_t sum = status ? 0 : weft_sum(block, n);
        weft_text_add_bytes(tail, &sum, sizeof sum);
    }
    weft_free(block);
    return status;
}

/* Records, identity and sums, at h->records_at; sets the rest of the header but its checksum. */
static weft_status write_tail(int fd, const char *path, header *h, const weft_text *identity,
                              const text_files *files, weft_error *err)
{
    weft_text tail = {0};
    for (size_t i = 0; i < files->n; i++) {
        const text_file *file = &files->list[i];
        record r = {.size = file->size,
                    .mtime_s = file->mtime_s,
                    .mtime_ns = file->mtime_ns,
                    .hash = file->hash};
        weft_text_add_bytes(&tail, &r, sizeof r);
    }
    h->identity_at = h->records_at + (int64_t)tail.size;
    h->identity_bytes = (int64_t)identity->size;
    weft_text_add_bytes(&tail, identity->data, identity->size);
    while (tail.size % 8 && !tail.out_of_memory)
        weft_text_add_bytes(&tail, "", 1);
    h->sums_at = h->records_at + (int64_t)tail.size;
    weft_status status = add_sums(fd, path, h, &tail, err);
    h->file_bytes = h->records_at + (int64_t)tail.size;
    if (!status && tail.out_of_memory)
        status = weft_fail_memory(err);
    if (!status) {
        h->tail_checksum = weft_sum(tail.data, tail.size);
        status = text_write_at(fd, path, tail.data, tail.size, h->records_at, err);
    }
    weft_text_release(&tail);
    return status;
}

/* All that follows the tokens, then the header, then everything to disk. */
static weft_status finish(const text_build *build, int fd, int scratch, const char *path,
                          const weft_text *identity, const text_files *files, weft_error *err)
{
    header h = {
        .magic = MAGIC,
        .byte_order = ORDER_MARK,
        .version = VERSION,
        .width = build->tokens ? (uint32_t)build->tokens->width : 0,
        .n_tokens = build->n_tokens,
        .n_documents = build->n_documents,
        .n_files = (int64_t)files->n,
        .n_skipped = build->n_skipped,
        .n_bytes = build->n_bytes,
    };
    weft_status status = build->tokens ? text_writer_flush(build->tokens, err) : WEFT_OK;
    if (!status)
        status = text_writer_flush(build->offsets, err);
    if (status)
        return status;
    int64_t tokens_end = TOKENS_AT + h.n_tokens * (int64_t)h.width;
    h.offsets_at = (tokens_end + 7) / 8 * 8;
    h.records_at = h.offsets_at + (h.n_documents + 1) * 8;
    if (ftruncate(fd, tokens_end)) /* documents that were dropped may lie behind it */
        return text_fail_errno(err, WEFT_ERR_IO, "write", path);
    char *spare = build->offsets->buffer;
    status =
        copy_file(scratch, (h.n_documents + 1) * 8, fd, path, h.offsets_at, spare, TOKENS_AT, err);
    if (!status)
        status = write_tail(fd, path, &h, identity, files, err);
    h.checksum = header_checksum(&h);
    if (!status)
        status = text_write_at(fd, path, &h, sizeof h, 0, err);
    if (!status && fsync(fd))
        status = text_fail_errno(err, WEFT_ERR_IO, "write", path);
    return status;
}

weft_status text_token_file_make(const text_plugin *text, text_source *source, int fd,
                                 const char *path, const weft_text *identity, weft_error *err)
{
    int scratch = -1;
    text_writer tokens = {0}, offsets = {0};
    text_build build = {.text = text,
                        .source = source,
                        .tokens = source->bins.n ? NULL : &tokens,
                        .offsets = &offsets};
    size_t width = text->tokenizer->vocab_size <= 1 << 16 ? 2 : 4;
    weft_status status = open_scratch(path, &scratch, err);
    if (!status && build.tokens)
        status = text_writer_init(&tokens, fd, path, TOKENS_AT, width, err);
    if (!status)
        status = text_writer_init(&offsets, scratch, path, 0, 8, err);
    if (!status)
        status = text_build_run(&build, &source->files, err);
    if (!status)
        status = finish(&build, fd, scratch, path, identity, &source->files, err);
    text_writer_release(&offsets);
    text_writer_release(&tokens);
    if (scratch >= 0)
        close(scratch);
    return status;
}
