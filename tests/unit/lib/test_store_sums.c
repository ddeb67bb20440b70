/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums: the same however a file was written; what was changed since then is found, and named,
 * when it is read. */
#include "../../lib/store_run.h"

#include <fcntl.h>

enum { A = 5 << 20, B = 1 << 20, CHUNK = WEFT_SUM_CHUNK };

static const weft_piece pieces[] = {{"a", WEFT_U8, 1, {A}, {0}, {A}},
                                    {"b", WEFT_F32, 2, {256, 1024}, {0}, {256, 1024}}};

static uint8_t *known[2]; /* the pieces' bytes */

static int make_data(void **state)
{
    (void)state;
    uint32_t x = 1;
    for (int piece = 0; piece < 2; piece++) {
        int64_t n = weft_piece_bytes(&pieces[piece]);
        known[piece] = malloc((size_t)n);
        for (int64_t i = 0; i < n; i++)
            known[piece][i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    }
    return 0;
}

static int free_data(void **state)
{
    (void)state;
    free(known[0]);
    free(known[1]);
    return 0;
}

/* Which parts of which pieces, in which order; b lies first in the file. */
typedef struct part {
    int piece;
    int64_t at, n;
} part;

static const part in_order[] = {{1, 0, B}, {0, 0, A}};
static const part in_parts[] = {
    {1, 0, 7}, {1, 7, B - 7}, {0, 0, 3 << 20}, {0, 3 << 20, 1}, {0, (3 << 20) + 1, (2 << 20) - 1}};
static const part backwards[] = {
    {0, 4 << 20, 1 << 20}, {0, 0, 4 << 20}, {1, 100, B - 100}, {1, 0, 100}};
static const part in_between[] = {{1, 0, B}, {0, 4 << 20, 1 << 20}, {0, 0, 4 << 20}};

static void write_parts(const char *path, const part *parts, int n, weft_sums *sums)
{
    weft_shard *shard = NULL;
    ok(weft_shard_create(io, path, pieces, 2, true, NULL, &shard, err));
    for (int i = 0; i < n; i++)
        ok(weft_shard_write(shard, parts[i].piece, parts[i].at, known[parts[i].piece] + parts[i].at,
                            parts[i].n, err));
    ok(weft_shard_finish(shard, sums, err));
    weft_shard_destroy(shard);
}

static void same_in_any_order(void **state)
{
    (void)state;
    static const struct {
        const part *parts;
        int n;
    } orders[] = {{in_order, 2}, {in_parts, 5}, {backwards, 4}, {in_between, 3}};
    char *first = NULL, *text = NULL;
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        weft_sums sums, again;
        write_parts("x.safetensors", orders[i].parts, orders[i].n, &sums);
        ok(weft_io_read_file(io, "x.safetensors", &text, &n, err));
        assert_int_equal(sums.bytes, n);
        assert_int_equal(sums.chunk, CHUNK);
        assert_int_equal(sums.n, 2);
        assert_true(sums.sum[0] == weft_sum(text, CHUNK));
        assert_true(sums.sum[1] == weft_sum(text + CHUNK, n - CHUNK));
        ok(weft_sums_of_file(io, "x.safetensors", &again, err));
        assert_memory_equal(again.sum, sums.sum, 16);
        weft_sums_release(&again);
        weft_sums_release(&sums);
        assert_int_equal(io->unlink(io->ctx, "x.safetensors"), 0);
        if (!first) {
            first = text;
            continue;
        }
        assert_memory_equal(text, first, n);
        weft_free(text);
    }
    weft_free(first);
}

/* What is written in order is not read back. */
static void sums_as_it_goes(void **state)
{
    (void)state;
    weft_sums sums;
    fault_fs_arm(disk, FAULT_NONE, 0, 0);
    write_parts("x.safetensors", in_order, 2, &sums);
    assert_int_equal(fault_fs_calls(disk), 7); /* open, length, header, two tensors, fsync, close */
    weft_sums_release(&sums);
    /* Known value of the empty text, and no chunk of an empty file. */
    assert_true(weft_sum("", 0) == 0x2d06800538d394c2u);
    ok(weft_io_write_file(io, "empty", "", 0, err));
    ok(weft_sums_of_file(io, "empty", &sums, err));
    assert_int_equal(sums.n, 0);
    weft_sums_release(&sums);
}

static void flip(const char *path, int64_t at)
{
    uint8_t byte = 0;
    int fd = io->open(io->ctx, path, O_RDWR, 0);
    assert_true(fd >= 0);
    assert_int_equal(io->pread(io->ctx, fd, &byte, 1, at), 1);
    byte ^= 16;
    assert_int_equal(io->pwrite(io->ctx, fd, &byte, 1, at), 1);
    io->close(io->ctx, fd);
}

static weft_status read_bytes(weft_folder *folder, int64_t lo, int64_t n, weft_error *err)
{
    uint8_t *to = malloc((size_t)n);
    weft_status status = weft_folder_read(folder, "a", &lo, &n, WEFT_U8, to, err);
    if (status == WEFT_OK)
        assert_memory_equal(to, known[0] + lo, (size_t)n);
    free(to);
    return status;
}

static weft_folder *open_checked(const weft_sums *sums)
{
    weft_folder *folder = NULL;
    ok(weft_folder_open(io, "x.safetensors", &folder, err));
    ok(weft_folder_verify(folder, "x.safetensors", sums, err));
    return folder;
}

static void finds_flipped_bits(void **state)
{
    (void)state;
    weft_sums sums;
    write_parts("x.safetensors", in_order, 2, &sums);
    weft_folder *folder = open_checked(&sums);
    ok(read_bytes(folder, 0, A, err));
    weft_folder_destroy(folder);
    /* In the last chunk: reads of the first one do not see it. */
    char words[200];
    snprintf(words, sizeof words,
             "x.safetensors: bytes %d to %lld differ from the bytes that were written (checksum ",
             CHUNK, (long long)sums.bytes - 1);
    for (int64_t at = CHUNK; at < sums.bytes; at += 333333) {
        flip("x.safetensors", at);
        folder = open_checked(&sums);
        ok(read_bytes(folder, 0, 1 << 20, err));
        refused(read_bytes(folder, A - 1, 1, err), words);
        refused(read_bytes(folder, 0, A, err), "restore it from a copy, or use another checkpoint");
        weft_folder_destroy(folder);
        flip("x.safetensors", at);
    }
    /* In a header that still makes sense: another tensor of the same kind. */
    char *text = NULL;
    size_t n = 0;
    ok(weft_io_read_file(io, "x.safetensors", &text, &n, err));
    char *name = strstr(text + 8, "\"a\":{\"dtype\"");
    assert_non_null(name);
    flip("x.safetensors", name + 1 - text);
    folder = open_checked(&sums);
    assert_null(weft_folder_find(folder, "a"));
    assert_non_null(weft_folder_find(folder, "q"));
    /* Its own bytes, in the last chunk, are right. */
    uint8_t to = 0;
    refused(weft_folder_read(folder, "q", (int64_t[]){A - 1}, (int64_t[]){1}, WEFT_U8, &to, err),
            "bytes 0 to 4194303 differ from the bytes that were written");
    weft_folder_destroy(folder);
    weft_free(text);
    weft_sums_release(&sums);
}

static void refuses_sums_that_do_not_fit(void **state)
{
    (void)state;
    weft_sums sums;
    write_parts("x.safetensors", in_order, 2, &sums);
    weft_folder *folder = open_checked(&sums);
    weft_sums bad = sums;
    bad.bytes--;
    refused(weft_folder_verify(folder, "x.safetensors", &bad, err),
            "when it was written; restore it from a copy");
    bad = sums;
    bad.n--;
    refused(weft_folder_verify(folder, "x.safetensors", &bad, err),
            "list of checksums does not fit");
    bad = sums;
    bad.chunk = 0;
    refused(weft_folder_verify(folder, "x.safetensors", &bad, err),
            "list of checksums does not fit");
    bad.chunk = INT64_MAX;
    bad.n = 1;
    refused(weft_folder_verify(folder, "x.safetensors", &bad, err),
            "list of checksums does not fit");
    refused(weft_folder_verify(folder, "y.safetensors", &sums, err),
            "there are checksums of y.safetensors, but no such file");
    ok(read_bytes(folder, 1, 5, err));
    weft_folder_destroy(folder);
    weft_sums_release(&sums);
}

/* A file that is cut off, or replaced, after it was opened. */
/* In its place, as others may; weft_io_write_file would make a new one. */
static void rewrite(const char *path, const char *text, size_t n)
{
    int fd = io->open(io->ctx, path, O_WRONLY | O_TRUNC, 0);
    assert_true(fd >= 0);
    for (size_t done = 0; done < n;) {
        ssize_t put = io->pwrite(io->ctx, fd, text + done, n - done, (off_t)done);
        assert_true(put > 0);
        done += (size_t)put;
    }
    assert_int_equal(io->close(io->ctx, fd), 0);
}

static void notices_changes_while_reading(void **state)
{
    (void)state;
    weft_folder *folder = NULL;
    char *text = NULL;
    size_t n = 0;
    write_parts("x.safetensors", in_order, 2, NULL);
    ok(weft_io_read_file(io, "x.safetensors", &text, &n, err));
    ok(weft_folder_open(io, "x.safetensors", &folder, err));
    rewrite("x.safetensors", text, n - 1);
    refused(read_bytes(folder, 0, 1, err),
            "x.safetensors: somebody changed this file while it was being read");
    rewrite("x.safetensors", text, n);
    ok(read_bytes(folder, 0, A, err));
    rewrite("x.safetensors", text, n - 10);
    ok(read_bytes(folder, 0, A - 10, err));
    refused(read_bytes(folder, 0, A, err), "10 bytes too early: it was cut off");
    weft_folder_destroy(folder);
    weft_free(text);
}

/* Neighbouring boxes do not read a chunk twice. */
static void keeps_chunks(void **state)
{
    (void)state;
    weft_sums sums;
    write_parts("x.safetensors", in_order, 2, &sums);
    weft_folder *folder = open_checked(&sums);
    for (int64_t at = 0; at + 1000 < 3 << 20; at += 1000)
        ok(read_bytes(folder, at, 1000, err));
    assert_int_equal(weft_folder_bytes_read(folder), CHUNK);
    for (int64_t at = A - 100000; at < A; at += 1000)
        ok(read_bytes(folder, at, 1000, err));
    assert_int_equal(weft_folder_bytes_read(folder), sums.bytes);
    ok(read_bytes(folder, 0, A, err));
    assert_int_equal(weft_folder_bytes_read(folder), sums.bytes);
    /* New sums, even the same: read again. */
    ok(weft_folder_verify(folder, "x.safetensors", &sums, err));
    ok(read_bytes(folder, 0, A, err));
    assert_int_equal(weft_folder_bytes_read(folder), 2 * sums.bytes);
    weft_folder_destroy(folder);
    weft_sums_release(&sums);
}

/* A manifest whose sum of itself is right, with these sizes of files. */
static void put_manifest(const int64_t *bytes, int n)
{
    weft_text text = {0};
    uint64_t sum = 1;
    weft_text_add(&text, "{\"format\": \"" WEFT_MANIFEST_FORMAT "\",\n\"files\": [\n");
    weft_text files = {0};
    for (int i = 0; i < n; i++) {
        weft_sums sums = {bytes[i], INT64_MAX, 1, &sum};
        weft_manifest_file_print(&files, i ? "b" : "a", &sums);
    }
    weft_text_add(&text, weft_text_get(&files));
    weft_text_add(&text, "]");
    weft_manifest_seal(&text);
    ok(weft_io_write_file(io, "/manifest.json", text.data, text.size, err));
    weft_text_release(&files);
    weft_text_release(&text);
}

static void refuses_sizes_that_cannot_be_added(void **state)
{
    (void)state;
    weft_manifest m;
    put_manifest((const int64_t[]){INT64_MAX - 1, 1}, 2);
    ok(weft_manifest_read(io, "", &m, err));
    assert_true(m.bytes == INT64_MAX);
    weft_manifest_release(&m);
    put_manifest((const int64_t[]){INT64_MAX - 1, 2}, 2);
    refused(weft_manifest_read(io, "", &m, err), "contradicts itself");
    weft_manifest_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_disk(same_in_any_order),
        with_disk(sums_as_it_goes),
        with_disk(finds_flipped_bits),
        with_disk(refuses_sums_that_do_not_fit),
        with_disk(notices_changes_while_reading),
        with_disk(keeps_chunks),
        with_disk(refuses_sizes_that_cannot_be_added),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
