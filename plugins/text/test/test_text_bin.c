/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens that other programs made, and packed text. */
#include "text_run.h"

#include <zlib.h>
#include <zstd.h>

#define BARE "\nbos = no\neos = no\nvalidation = 0\nshuffle = no\n"

/* For tokens: bos and eos add nothing to them, but part documents. */
#define TOKENS "\nvalidation = 0\nshuffle = no\n"

enum { BOS = 256, EOS = 257, SEQ = 16 };

/* ---- writing them ---- */

static size_t put_little(unsigned char *to, uint64_t x, size_t width)
{
    for (size_t i = 0; i < width; i++)
        to[i] = (unsigned char)(x >> (8 * i));
    return width;
}

static void put_ids(const char *path, const void *head, size_t n_head, const int32_t *ids, size_t n,
                    size_t width)
{
    unsigned char bytes[4096];
    size_t at = n_head;
    memcpy(bytes, head, n_head);
    for (size_t i = 0; i < n; i++)
        at += put_little(bytes + at, (uint64_t)ids[i], width);
    put_bytes(path, bytes, at);
}

static void put_llmc(const char *path, uint64_t magic, uint64_t version, uint64_t says,
                     const int32_t *ids, size_t n, size_t width)
{
    unsigned char head[1024] = {0};
    put_little(head, magic, 4);
    put_little(head + 4, version, 4);
    put_little(head + 8, says, 4);
    put_ids(path, head, sizeof head, ids, n, width);
}

/* Documents of these many sequences, sequences of these many tokens; 0 ends both. */
static void put_index(const char *path, int dtype, size_t width, const int *sizes,
                      const int *documents)
{
    unsigned char bytes[1024];
    size_t at = 0, n = 0, m = 0, pointer = 0;
    while (sizes[n])
        n++;
    while (documents[m])
        m++;
    memcpy(bytes, "MMIDIDX\0\0", 9);
    at = 9 + put_little(bytes + 9, 1, 8);
    bytes[at++] = (unsigned char)dtype;
    at += put_little(bytes + at, n, 8);
    at += put_little(bytes + at, m + 1, 8);
    for (size_t i = 0; i < n; i++)
        at += put_little(bytes + at, (uint64_t)sizes[i], 4);
    for (size_t i = 0; i < n; pointer += width * (size_t)sizes[i++])
        at += put_little(bytes + at, pointer, 8);
    uint64_t sequence = 0;
    for (size_t i = 0; i <= m; sequence += (uint64_t)documents[i++])
        at += put_little(bytes + at, sequence, 8);
    put_bytes(path, bytes, at);
}

/* ---- reading them back ---- */

static const int32_t stream[] = {BOS, 'a', 'b', EOS, BOS, 'c', 'd', 'e', EOS,
                                 BOS, 'f', EOS, BOS, 'g', 'h', 'i', 'j', EOS};
enum { N = sizeof stream / sizeof *stream };

static void expect_stream(run *r)
{
    const text_source *source = &r->text->sources[0];
    int32_t ids[N] = {0};
    assert_int_equal(source->cache.n_tokens, N);
    assert_int_equal(text_source_read(source, 0, N, ids, &r->err), WEFT_OK);
    assert_memory_equal(ids, stream, sizeof ids);
    for (int64_t at = 0; at < N; at++) /* across the ends of files, too */
        for (int64_t n = 0; at + n <= N; n++) {
            memset(ids, 0, sizeof ids);
            assert_int_equal(text_source_read(source, at, n, ids, &r->err), WEFT_OK);
            assert_memory_equal(ids, stream + at, (size_t)n * sizeof *ids);
        }
}

static void expect(const char *ini, const uint64_t *offsets, int64_t n_documents)
{
    for (int again = 0; again < 2; again++) {
        run r;
        run_start(&r, ini);
        assert_int_equal(strstr(weft_text_get(&r.lines), "checking tokens") != NULL,
                         !again); /* read once */
        expect_stream(&r);
        assert_int_equal(r.text->sources[0].cache.n_documents, n_documents);
        for (int64_t d = 0; d < n_documents; d++)
            assert_int_equal(r.text->sources[0].cache.offsets[d], offsets[d]);
        assert_int_equal(r.text->sources[0].cache.offsets[n_documents], N);
        run_end(&r);
    }
}

static const uint64_t documents[] = {0, 4, 9, 12};

static void reads_bare_ids(void **state)
{
    (void)state;
    put_ids("a.bin", "", 0, stream, N, 2);
    expect("path = a.bin" TOKENS, documents, 4);
    put_ids("b.bin", "", 0, stream, N, 4);
    expect("path = b.bin\nbin_dtype = uint32" TOKENS, documents, 4);
    put_ids("c1.bin", "", 0, stream, 5,
            2); /* a document that begins in one file and ends in another */
    put_ids("c2.bin", "", 0, stream + 5, 0, 2);
    put_ids("c3.bin", "", 0, stream + 5, N - 5, 2);
    expect("path = c*.bin" TOKENS, documents, 4);
    assert_int_equal(mkdir("d", 0777), 0);
    assert_int_equal(rename("a.bin", "d/a.bin"), 0);
    expect("path = d" TOKENS, documents, 4);
    assert_int_equal(rename("d/a.bin", "d/a.tokens"), 0);
    expect("path = d/a.tokens\nformat = bin" TOKENS, documents, 4);
}

static void reads_llmc(void **state)
{
    (void)state;
    put_llmc("a.bin", 20240520, 1, N, stream, N, 2);
    expect("path = a.bin" TOKENS, documents, 4);
    put_llmc("b.bin", 20240801, 7, N, stream, N, 4);
    expect("path = b.bin" TOKENS, documents, 4);
    put_llmc("c1.bin", 20240520, 1, 7, stream, 7, 2);
    put_llmc("c2.bin", 20240801, 7, N - 7, stream + 7, N - 7, 4);
    expect("path = c1.bin c2.bin" TOKENS, documents, 4);
    put_llmc("a.bin", 20240520, 1, N + 1, stream, N, 2);
    refuse("path = a.bin", "a.bin: the header says 19 tokens");
}

static void reads_megatron(void **state)
{
    (void)state;
    const uint64_t two[] = {0, 9}, one[] = {0};
    put_ids("a.bin", "", 0, stream, N, 2);
    put_index("a.idx", 8, 2, (int[]){4, 5, 3, 6, 0},
              (int[]){2, 2, 0}); /* its documents count, not the ids */
    expect("path = a.bin" TOKENS, two, 2);
    put_ids("b.bin", "", 0, stream, N, 4);
    put_index("b.idx", 4, 4, (int[]){18, 0}, (int[]){1, 0});
    expect("path = b.bin" TOKENS, one, 1);
    put_index("b.idx", 4, 4, (int[]){9, 9, 0}, (int[]){1, 1, 0}); /* only the index changes */
    expect("path = b.bin" TOKENS, two, 2);
    put_ids("c1.bin", "", 0, stream, 9, 2);
    put_ids("c2.bin", "", 0, stream + 9, N - 9, 2);
    put_index("c1.idx", 8, 2, (int[]){9, 0}, (int[]){1, 0});
    put_index("c2.idx", 8, 2, (int[]){9, 0}, (int[]){1, 0});
    expect("path = c?.bin" TOKENS, two, 2);
}

static void refuses_wrong_indices(void **state)
{
    (void)state;
    put_ids("a.bin", "", 0, stream, N, 2);
    put_index("a.idx", 6, 2, (int[]){18, 0}, (int[]){1, 0});
    refuse("path = a.bin", "dtype code 6; weft reads 8 (uint16) and 4 (int32)");
    put_index("a.idx", 8, 2, (int[]){17, 0}, (int[]){1, 0});
    refuse("path = a.bin", "its sequences have 17 tokens");
    put_index("a.idx", 8, 2, (int[]){10, 9, 0}, (int[]){1, 1, 0});
    refuse("path = a.bin", "reaches over the end");
    put_index("a.idx", 8, 4, (int[]){9, 9, 0}, (int[]){1, 1, 0});
    refuse("path = a.bin", "does not begin where the one before it ends");
    put_index("a.idx", 8, 2, (int[]){9, 9, 0}, (int[]){2, 1, 0});
    refuse("path = a.bin", "a document begins at a sequence that cannot be");
    put_index("a.idx", 8, 2, (int[]){9, 9, 0}, (int[]){1, 1, 0});
    assert_int_equal(truncate("a.idx", 60), 0);
    refuse("path = a.bin", "do not fit into 60 bytes");
    assert_int_equal(truncate("a.idx", 10), 0);
    refuse("path = a.bin", "not an index of Megatron");
    put("a.idx", "some notes about a.bin, more than an index needs");
    refuse("path = a.bin", "not an index of Megatron");
}

static void refuses_wrong_ids(void **state)
{
    (void)state;
    const int32_t ids[] = {1, 2, 3, 258, 5};
    put_ids("a.bin", "", 0, ids, 5, 2);
    refuse("path = a.bin",
           "a.bin: token 3 is id 258, but the vocabulary of tokenizer bytes has ids 0 to 257");
    put_ids("a.bin", "", 0, ids, 3, 4);
    run r;
    run_start(&r, "path = a.bin\nbin_dtype = uint32");
    assert_int_equal(r.text->sources[0].cache.n_tokens, 3);
    run_end(&r);
    put_ids("a.bin", "", 0, (int32_t[]){1, 1 << 20}, 2, 4);
    refuse("path = a.bin\nbin_dtype = uint32", "token 1 is id 1048576");
    refuse("path = a.bin\nbin_dtype = uint32", "bin_dtype");
}

static void refuses_what_is_no_whole_number_of_tokens(void **state)
{
    (void)state;
    put_bytes("a.bin", "abc", 3);
    refuse("path = a.bin", "a.bin: 3 bytes are no whole number of tokens of 2 bytes");
    put("b.txt", "text");
    put_ids("a.bin", "", 0, stream, N, 2);
    refuse("path = a.bin b.txt", "is text and");
    put_ids("a.bin", "", 0, stream, 0, 2);
    refuse("path = a.bin", "all empty");
}

/* The file is the user's: it may shrink or vanish while a run reads it. */
static void names_a_file_that_shrinks(void **state)
{
    (void)state;
    put_ids("a.bin", "", 0, stream, N, 2);
    run r;
    run_start(&r, "path = a.bin" TOKENS);
    assert_int_equal(r.data->begin(r.text, SEQ, 1, &r.err), WEFT_OK);
    int32_t space[4][SEQ];
    weft_sample out = {
        .ids = space[0], .labels = space[1], .positions = space[2], .segments = space[3]};
    assert_int_equal(r.data->sample(r.text, WEFT_SPLIT_TRAIN, 0, &out, &r.err), WEFT_OK);
    assert_int_equal(truncate("a.bin", 20), 0);
    assert_int_equal(r.data->sample(r.text, WEFT_SPLIT_TRAIN, 0, &out, &r.err), WEFT_ERR_IO);
    assert_contains(weft_error_text(&r.err), "a.bin: the file has become shorter");
    weft_error_clear(&r.err);
    assert_int_equal(unlink("a.bin"), 0);
    assert_int_equal(r.data->sample(r.text, WEFT_SPLIT_TRAIN, 0, &out, &r.err), WEFT_ERR_IO);
    assert_contains(weft_error_text(&r.err), "a.bin");
    weft_error_clear(&r.err);
    int32_t wrong[N];
    for (int i = 0; i < N; i++)
        wrong[i] = 999;
    put_ids("a.bin", "", 0, wrong, N, 2);
    assert_int_equal(r.data->sample(r.text, WEFT_SPLIT_TRAIN, 0, &out, &r.err), WEFT_ERR_IO);
    assert_contains(weft_error_text(&r.err),
                    "a.bin: the file has changed since the run began: token 0 is id 999");
    run_end(&r);
}

/* Files without contents, as long as a file can be: nothing of them is read. */
static void refuses_more_tokens_than_can_be_counted(void **state)
{
    (void)state;
    static const char *const names[] = {"a.bin", "b.bin", "c.bin"};
    for (int i = 0; i < 3; i++) {
        int fd = open(names[i], O_RDWR | O_CREAT, 0666);
        assert_true(fd >= 0);
        int rc = ftruncate(fd, INT64_MAX & ~INT64_C(0xffff));
        close(fd);
        if (rc)
            return; /* a file system of smaller files */
    }
    refuse("path = a.bin b.bin c.bin", "c.bin: with it the files have more tokens");
}

/* ---- packed text ---- */

static size_t gzip_of(const void *data, size_t n, unsigned char *out, size_t room)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t made = z.total_out;
    deflateEnd(&z);
    return made;
}

static size_t zstd_of(const void *data, size_t n, unsigned char *out, size_t room)
{
    size_t made = ZSTD_compress(out, room, data, n, 3);
    assert_false(ZSTD_isError(made));
    return made;
}

typedef size_t (*packer)(const void *data, size_t n, unsigned char *out, size_t room);

static void check_packed(packer pack, const char *suffix)
{
    enum { LONG = 1500000 };
    char name[64], ini[200];
    unsigned char *out = malloc(2 * LONG);
    char *text = malloc(LONG + 1);
    assert_non_null(out);
    assert_non_null(text);
    for (int i = 0; i < LONG; i++)
        text[i] = (char)('a' + (i / 3 * (i / 1000 + 7) + i % 5) % 26);
    text[LONG] = '\0';

    snprintf(name, sizeof name, "a.txt%s", suffix);
    snprintf(ini, sizeof ini, "path = %s" BARE, name);
    size_t n = pack(text, LONG, out, 2 * LONG);
    put_bytes(name, out, n);
    run r;
    run_start(&r, ini);
    assert_text(&r, text, LONG);
    run_end(&r);

    for (size_t keep = 0; keep < n;
         keep += keep < 40 || keep > n - 40 ? 1 : n / 13) { /* cut short anywhere */
        if (keep == 1)                                      /* as good as any text */
            continue;
        put_bytes(name, out, keep);
        assert_int_not_equal(run_open(&r, ini), WEFT_OK);
        assert_contains(weft_error_text(&r.err), keep ? name : "all empty");
        run_end(&r);
    }
    out[n / 2] ^= 0x55;
    put_bytes(name, out, n);
    refuse(ini, "broken");

    snprintf(name, sizeof name, "b.jsonl%s",
             suffix); /* several members or frames one behind the other, lines across them */
    snprintf(ini, sizeof ini, "path = %s" BARE, name);
    n = pack("{\"text\": \"on", 12, out, LONG);
    n += pack("", 0, out + n, LONG);
    n += pack("e\"}\n{\"text\": \"two\"}\n", 20, out + n, LONG);
    put_bytes(name, out, n);
    run_start(&r, ini);
    assert_text(&r, "onetwo", 6);
    run_end(&r);

    snprintf(ini, sizeof ini, "path = %s\non_bad = skip" BARE,
             name); /* what lies before the fault stays */
    put_bytes(name, out, n - 5);
    run_start(&r, ini);
    assert_int_equal(r.text->sources[0].cache.n_skipped, 1);
    assert_contains(weft_text_get(&r.lines), "skipped: broken");
    run_end(&r);
    assert_int_equal(mkdir("d", 0777), 0);
    snprintf(ini, sizeof ini, "d/%s", name);
    put_bytes(ini, out, n);
    run_start(&r, "path = d" BARE);
    assert_text(&r, "onetwo", 6);
    run_end(&r);
    free(text);
    free(out);
}

static void reads_gzip(void **state)
{
    (void)state;
    check_packed(gzip_of, ".gz");
}

static void reads_zstd(void **state)
{
    (void)state;
    check_packed(zstd_of, ".zst");
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    unsigned char out[200];
    size_t n = gzip_of("{\"text\": \"one\"}\n", 16, out, sizeof out);
    put_bytes("a.jsonl.gz", out, n);
    put_ids("b.bin", "", 0, stream, N, 2);
    put_index("b.idx", 8, 2, (int[]){9, 9, 0}, (int[]){1, 1, 0});
    weft_status status = WEFT_ERR_MEMORY;
    for (long i = 1; status; i++) {
        assert_true(i < 1000);
        run r;
        assert_int_equal(run_create(&r, "mix = a.jsonl.gz 0.5 b.bin 0.5"), WEFT_OK);
        r.host.log = NULL;
        weft_alloc_fail_at(i);
        status = text_LTX_plugin.open(r.text, &r.err);
        weft_alloc_fail_at(0);
        assert_true(!status || status == WEFT_ERR_MEMORY);
        run_end(&r);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_enter_memory, scratch_leave)
    const struct CMUnitTest tests[] = {
        TEST(reads_bare_ids),
        TEST(reads_llmc),
        TEST(reads_megatron),
        TEST(refuses_wrong_indices),
        TEST(refuses_wrong_ids),
        TEST(refuses_what_is_no_whole_number_of_tokens),
        TEST(names_a_file_that_shrinks),
        cmocka_unit_test_setup_teardown(refuses_more_tokens_than_can_be_counted,
                                        scratch_enter_memory, scratch_leave),
        TEST(reads_gzip),
        TEST(reads_zstd),
        TEST(survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
