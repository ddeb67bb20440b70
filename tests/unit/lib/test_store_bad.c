/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders that are wrong, each in its own way; and headers with random damage. */
#include "../../lib/store_run.h"

#include <fcntl.h>

/* A file of this header and so many bytes of data. */
static void put(const char *path, const char *header, size_t data_bytes)
{
    uint64_t length = strlen(header);
    char *text = calloc(1, 8 + length + data_bytes + 1);
    memcpy(text, &length, 8);
    memcpy(text + 8, header, length);
    ok(weft_io_write_file(io, path, text, 8 + length + data_bytes, err));
    free(text);
}

static weft_status open_all(const char *path, weft_error *err)
{
    weft_folder *folder = NULL;
    weft_status status = weft_folder_open(io, path, &folder, err);
    assert_true((status == WEFT_OK) == (folder != NULL));
    weft_folder_destroy(folder);
    return status;
}

#define ONE(entry) "{\"t\":" entry "}"

static void refuses_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t bytes;
        const char *words;
    } bad[] = {
        {"[]", 0, "does not begin with {"},
        {"", 0, "does not begin with {"},
        {"{\"t\":", 0, "its header is wrong at byte"},
        {"{} {}", 0, "its header is wrong at byte"},
        {"{\"a\\u0000b\":1}", 0, "its header is wrong at byte"},
        {"{\"a\xff\":1}", 0, "its header is wrong at byte"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"t\":{\"dtype\":\"U8\","
             "\"shape\":[1],\"data_offsets\":[1,2]}"),
         2, "duplicate"},
        {ONE("3"), 0, "tensor \"t\": has no dtype"},
        {ONE("{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}"), 1,
         "tensor \"t\": has no dtype"},
        {ONE("{\"dtype\":\"U8\",\"data_offsets\":[0,1]}"), 1,
         "tensor \"t\": its shape is not a list"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}"), 1,
         "its shape holds something else than whole numbers"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}"), 1,
         "its shape holds something else than whole numbers"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,1]}"), 1,
         "its header is wrong"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":["
             "0,1]}"),
         1, "longer than weft can handle"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,1]}"), 1,
         "too many elements to count"},
        {ONE("{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,1]}"), 1,
         "too many elements to count"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[0,4611686018427387904,4],\"data_offsets\":[0,0]}"), 0,
         "too many elements to count"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[1]}"), 1, "its data_offsets: the list is not a list"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}"), 1,
         "its data_offsets: the list has another number of items"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}"), 1,
         "end before they begin"},
        {ONE("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}"), 4,
         "F32 and its shape need 8 bytes, but its data_offsets span 4"},
        {ONE("{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}"), 1,
         "F4 and its shape end within a byte"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}"), 2,
         "there is a hole of 1 bytes before tensor \"t\""},
        {ONE("{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}"), 2,
         "tensor \"t\" ends 1 bytes after the file does: the file was cut off"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}"), 5,
         "3 bytes lie after the last tensor"},
        {"{}", 1, "1 bytes lie after the last tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "tensors \"a\" and \"b\" overlap"},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "name is empty"},
        {"{\"a\\u001b[2J\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "control characters"},
        {"{\"__metadata__\":7}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":7}}", 0, "__metadata__ holds something else than texts"},
        {"{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\"}}", 0, "DCP_SHARDING_INFO is not JSON"},
        {"{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"[]\"}}", 0,
         "DCP_SHARDING_INFO is not an object"},
#define PIECE(info)                                                                                \
    "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"t\\\":" info                                  \
    "}\"},\"t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
        {PIECE("{}"), 2,
         "tensor \"t\": its saved_offsets in DCP_SHARDING_INFO: the list is not a list"},
        {PIECE("3"), 2, "its saved_offsets in DCP_SHARDING_INFO: the list is not a list"},
        {PIECE("{\\\"saved_offsets\\\":[0,0]}"), 2, "the list has another number of items"},
        {PIECE("{\\\"saved_offsets\\\":[-1]}"), 2, "whole numbers from 0 on"},
        {PIECE("{\\\"saved_offsets\\\":[9223372036854775807]}"), 2,
         "saved_offsets in DCP_SHARDING_INFO are too large"},
        {PIECE("{\\\"saved_offsets\\\":[0],\\\"whole\\\":[1]}"), 2,
         "its whole shape in DCP_SHARDING_INFO: the list is smaller than the piece"},
        {PIECE("{\\\"saved_offsets\\\":[0],\\\"whole\\\":[3]}"), 2,
         "of tensor \"t\" 2 of 3 elements are there: a file is missing"},
        {PIECE("{\\\"saved_offsets\\\":[1]}"), 2,
         "of tensor \"t\" 2 of 3 elements are there: a file is missing"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("bad.safetensors", bad[i].header, bad[i].bytes);
        refused(open_all("bad.safetensors", err), bad[i].words);
        refused(open_all("bad.safetensors", err), "bad.safetensors: ");
        assert_int_equal(fault_fs_open_files(disk), 0);
    }
    put("good.safetensors", PIECE("{\\\"saved_offsets\\\":[0]}"), 2);
    ok(open_all("good.safetensors", err));
    put("good.safetensors", "{}   ", 0);
    ok(open_all("good.safetensors", err));
}

static void refuses_long_names(void **state)
{
    (void)state;
    char header[6000];
    snprintf(header, sizeof header,
             "{\"%05000d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    put("bad.safetensors", header, 1);
    refused(open_all("bad.safetensors", err),
            "bad.safetensors: a tensor's name is too long: \"00000");
}

static void refuses_lengths(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        size_t bytes;
        const char *words;
    } bad[] = {
        {2, 7, "it has only 7 bytes"},
        {2, 0, "it has only 0 bytes"},
        {2, 9, "its header has 2 bytes, but only 1 are there"},
        {100000001, 20, "its header would have 100000001 bytes, more than the 100000000 allowed"},
        {UINT64_MAX, 20, "more than the 100000000 allowed"},
        {(uint64_t)1 << 63, 20, "more than the 100000000 allowed"},
        {100000000, 20, "its header has 100000000 bytes, but only 12 are there"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[64] = "........{}";
        memcpy(text, &bad[i].length, 8);
        ok(weft_io_write_file(io, "bad.safetensors", text, bad[i].bytes, err));
        refused(open_all("bad.safetensors", err), bad[i].words);
    }
}

static void refuses_folders(void **state)
{
    (void)state;
    weft_folder *folder = NULL;
    refused(open_all("none", err), "none: cannot open: No such file or directory");
    ok(weft_io_make_dirs(io, "a/b/c", err));
    refused(open_all("a/b", err), "a/b: there is no .safetensors file in this folder");
    put("a/.hidden.safetensors", "nothing", 0);
    put("a/other", "nothing", 0);
    refused(open_all("a", err), "there is no .safetensors file");
    const char *const leaving[] = {"../x.safetensors", "/x.safetensors", "", "b/..", "b/../../x"};
    for (int i = 0; i < 5; i++)
        refused(weft_folder_open_files(io, "a", &leaving[i], 1, &folder, err),
                "leads out of this folder");
    refused(weft_folder_open_files(io, "a", leaving, 0, &folder, err),
            "no .safetensors file is named");
    const char *missing = "b/x.safetensors";
    refused(weft_folder_open_files(io, "a", &missing, 1, &folder, err),
            "a/b/x.safetensors: cannot open: No such file");
    /* All files that are wrong are named. */
    weft_error err = {0};
    put("a/1.safetensors", "[", 0);
    put("a/2.safetensors", "{}", 0);
    put("a/3.safetensors", "]", 0);
    assert_int_equal(open_all("a", &err), WEFT_ERR_INPUT);
    assert_int_equal(err.n_items, 2);
    assert_non_null(strstr(err.items[1].text, "a/3.safetensors: "));
    weft_error_release(&err);
}

#define PART(type, shape, end, at, whole)                                                          \
    "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"t\\\":{\\\"saved_offsets\\\":" at whole       \
    "}}\"},\"t\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[0," end "]}}"

static void refuses_tilings(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        size_t bytes_a, bytes_b;
        const char *words;
    } bad[] = {
        {PART("U8", "[2]", "2", "[0]", ""), PART("U8", "[2]", "2", "[1]", ""), 2, 2,
         "tensor \"t\" is in both a.safetensors and b.safetensors"},
        {PART("U8", "[2]", "2", "[0]", ""), PART("U8", "[2]", "2", "[3]", ""), 2, 2,
         "of tensor \"t\" 4 of 5 elements are there"},
        {PART("U8", "[2]", "2", "[0]", ""), PART("I8", "[2]", "2", "[2]", ""), 2, 2,
         "tensor \"t\" is U8 in a.safetensors and I8 in b.safetensors"},
        {PART("U8", "[2]", "2", "[0]", ""), PART("U8", "[1,2]", "2", "[0,2]", ""), 2, 2,
         "tensor \"t\" has 1 dims in a.safetensors and 2 in b.safetensors"},
        {PART("U8", "[]", "1", "[]", ""), PART("U8", "[]", "1", "[]", ""), 1, 1, "is in both"},
        {ONE("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"),
         ONE("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"), 1, 1, "is in both"},
        /* The right number of elements, but one corner twice and one never. */
        {PART("U8", "[2,2]", "4", "[0,0]", ""),
         PART("U8", "[2,2]", "4", "[1,1]", ",\\\"whole\\\":[2,4]"), 4, 4, "smaller than the piece"},
        {PART("U8", "[1,4]", "4", "[0,0]", ""),
         PART("U8", "[2,2]", "4", "[0,2]", ",\\\"whole\\\":[2,4]"), 4, 4, "is in both"},
        {PART("U8", "[2]", "2", "[0]", ",\\\"whole\\\":[6]"),
         PART("U8", "[2]", "2", "[2]", ",\\\"whole\\\":[6]"), 2, 2, "4 of 6 elements"},
        {PART("U8", "[0,4611686018427387904]", "0", "[0,0]", ""),
         PART("U8", "[0,3]", "0", "[4611686018427387904,0]", ""), 0, 0, "too many elements"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("a.safetensors", bad[i].a, bad[i].bytes_a);
        put("b.safetensors", bad[i].b, bad[i].bytes_b);
        refused(open_all("", err), bad[i].words);
    }
    /* Pieces of nothing are no harm. */
    put("a.safetensors", PART("U8", "[2]", "2", "[0]", ""), 2);
    put("b.safetensors", PART("U8", "[0]", "0", "[2]", ""), 0);
    ok(open_all("", err));
}

/* Only who reads them is refused; half floats are read as others. */
static void knows_foreign_dtypes(void **state)
{
    (void)state;
    static const char header[] =
        "{\"e\":{\"dtype\":\"F8_E8M0\",\"shape\":[2],\"data_offsets\":[0,2]},\"f\":{\"dtype\":"
        "\"F4\",\"shape\":[4],\"data_offsets\":[2,"
        "4]},\"h\":{\"dtype\":\"F16\",\"shape\":[6],\"data_offsets\":[4,16]},\"i\":{\"dtype\":"
        "\"I64\",\"shape\":[1],\"data_offsets\":"
        "[16,24]},\"x\":{\"dtype\":\"POSIT\",\"shape\":[3],\"data_offsets\":[24,25]}}";
    static const uint16_t halves[6] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0xfc00, 0x8000};
    const int64_t lo[1] = {0}, size[1] = {1}, six[1] = {6};
    float to[8];
    weft_folder *folder = NULL;
    put("x.safetensors", header, 25);
    int fd = io->open(io->ctx, "x.safetensors", O_WRONLY, 0);
    assert_int_equal(
        io->pwrite(io->ctx, fd, halves, sizeof halves, (off_t)(8 + strlen(header) + 4)), 12);
    io->close(io->ctx, fd);
    ok(weft_folder_open(io, "x.safetensors", &folder, err));
    assert_int_equal(weft_folder_find(folder, "i")->dtype, WEFT_DTYPES);
    assert_string_equal(weft_folder_find(folder, "x")->type, "POSIT");
    for (int i = 0; i < weft_folder_count(folder); i++) {
        const weft_stored *t = weft_folder_get(folder, i);
        char words[64];
        snprintf(words, sizeof words, "tensor \"%s\" is stored as %s, which cannot be read as u8",
                 t->name, t->type);
        refused(weft_folder_read(folder, t->name, lo, size, WEFT_U8, to, err), words);
    }
    refused(weft_folder_read(folder, "i", lo, size, WEFT_F32, to, err),
            "is stored as I64, which cannot be read as f32");
    ok(weft_folder_read(folder, "h", lo, six, WEFT_F32, to, err));
    assert_true(to[0] == 1 && to[1] == -2 && to[2] == 0x1p-24F && to[3] == 65504 &&
                to[4] < -3.4e38F && to[5] == 0 && __builtin_signbit(to[5]));
    refused(weft_folder_read(folder, "none", lo, six, WEFT_F32, to, err),
            "there is no tensor \"none\" in it");
    const int64_t bad_lo[][1] = {{-1}, {7}, {6}, {INT64_MAX}},
                  bad_size[][1] = {{1}, {0}, {1}, {INT64_MAX}};
    for (int i = 0; i < 4; i++)
        refused(weft_folder_read(folder, "h", bad_lo[i], bad_size[i], WEFT_F32, to, err),
                "tensor \"h\"");
    weft_folder_destroy(folder);
}

static void refuses_pieces(void **state)
{
    (void)state;
    static const struct {
        weft_piece piece;
        const char *words;
    } bad[] = {
        {{"__metadata__", WEFT_U8, 1, {1}, {0}, {1}}, "must not be called"},
        {{"", WEFT_U8, 1, {1}, {0}, {1}}, "must not be called"},
        {{"t", WEFT_DTYPES, 1, {1}, {0}, {1}}, "impossible dtype"},
        {{"t", WEFT_U8, WEFT_MAX_DIMS + 1, {1}, {0}, {1}}, "impossible dtype or rank"},
        {{"t", WEFT_U8, 1, {5}, {0}, {0}}, "empty or leaves"},
        {{"t", WEFT_U8, 1, {5}, {4}, {2}}, "empty or leaves"},
        {{"t", WEFT_U8, 1, {5}, {-1}, {2}}, "empty or leaves"},
        {{"t", WEFT_F32, 2, {INT64_MAX, 9}, {0}, {INT64_MAX, 9}}, "too many elements"},
        {{"same", WEFT_U8, 1, {1}, {0}, {1}}, "two tensors of one file are called same"},
    };
    weft_shard *shard = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const weft_piece pieces[] = {{"same", WEFT_U8, 1, {1}, {0}, {1}}, bad[i].piece};
        refused(weft_shard_create(io, "x", pieces, 2, true, NULL, &shard, err), bad[i].words);
    }
    const weft_piece part = {"t", WEFT_U8, 1, {5}, {0}, {2}};
    refused(weft_shard_create(io, "x", &part, 1, false, NULL, &shard, err),
            "a piece in a file of whole tensors");
    refused(weft_shard_create(io, "x", &part, 0, true, NULL, &shard, err), "a file of no tensors");
    ok(weft_shard_create(io, "x", &part, 1, true, NULL, &shard, err));
    refused(weft_shard_write(shard, 1, 0, "ab", 2, err), "do not belong there");
    refused(weft_shard_write(shard, 0, 1, "ab", 2, err), "do not belong there");
    refused(weft_shard_write(shard, 0, -1, "ab", 2, err), "do not belong there");
    ok(weft_shard_write(shard, 0, 1, "b", 1, err));
    refused(weft_shard_finish(shard, NULL, err), "1 of 2 bytes of piece 0 were written");
    refused(weft_shard_write(shard, 0, 0, "ab", 2, err), "do not belong there");
    weft_shard_destroy(shard);
    refused(open_all("x", err), "No such file");
    put("x", "{}", 0);
    refused(weft_shard_create(io, "x", &part, 1, true, NULL, &shard, err),
            "x: cannot create this file: File exists");
    ok(open_all("x", err));
}

/* ---- random damage ---- */

static uint64_t seed = 7;

static size_t draw(size_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % below;
}

/* Bytes replaced, moved, repeated and lost. */
static size_t mutate(char *text, size_t n, size_t room)
{
    static const char *const words[] = {"0",
                                        "-1",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "\"",
                                        ",",
                                        ":",
                                        "9223372036854775807",
                                        "18446744073709551616",
                                        "1e9",
                                        "null",
                                        "\\\"",
                                        "\\u0000",
                                        "[[[[[[[[",
                                        "F16",
                                        "BOOL"};
    size_t at = draw(n), much = 1 + draw(8);
    const char *word = words[draw(sizeof words / sizeof words[0])];
    switch (draw(4)) {
    case 0:
        text[at] = (char)draw(256);
        return n;
    case 1:
        much = much < n - at ? much : n - at;
        memmove(text + at, text + at + much, n - at - much);
        return n - much > 0 ? n - much : 1;
    case 2:
        much = strlen(word);
        if (n + much > room)
            return n;
        memmove(text + at + much, text + at, n - at);
        memcpy(text + at, word, much);
        return n + much;
    default:
        much = much < n - at ? much : n - at;
        memmove(text + draw(n - much + 1), text + at, much);
        return n;
    }
}

static void read_all(weft_folder *folder)
{
    static char to[4096];
    for (int i = 0; i < weft_folder_count(folder); i++) {
        const weft_stored *t = weft_folder_get(folder, i);
        const int64_t lo[WEFT_MAX_DIMS] = {0};
        int64_t n = 1;
        for (int d = 0; d < t->n_dims; d++)
            n *= t->size[d];
        assert_true(n >= 0 && n < 1000);
        weft_folder_read(folder, t->name, lo, t->size, WEFT_F32, to, NULL);
    }
}

/* Whatever the header says: an error, or tensors that can be read. */
static void survives_damage(void **state)
{
    (void)state;
    enum { ROUNDS = 20000, ROOM = 2048, DATA = 34 };
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"DCP_SHARDING_INFO\":\"{\\\"a\\\":{\\\"saved_"
        "offsets\\\":[0,0],\\\"whole\\\":[2,3]},"
        "\\\"b\\\":{\\\"saved_offsets\\\":[0]}}\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_"
        "offsets\":[0,24]},\"b\":{\"dtype\":"
        "\"F16\",\"shape\":[5],\"data_offsets\":[24,34]}}";
    int opened = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char text[8 + ROOM + DATA] = {0};
        size_t n = strlen(header);
        memcpy(text + 8, header, n);
        for (size_t i = draw(4); i > 0; i--)
            n = mutate(text + 8, n, ROOM);
        uint64_t length = draw(50) ? n : draw(2 * n);
        memcpy(text, &length, 8);
        memset(text + 8 + n, 0, DATA);
        size_t size = 8 + n + (draw(20) ? DATA : draw(DATA + 1));
        ok(weft_io_write_file(io, "x.safetensors", text, size, err));
        weft_folder *folder = NULL;
        weft_error err = {0};
        weft_status status = weft_folder_open(io, "x.safetensors", &folder, &err);
        assert_true((status == WEFT_OK) == (weft_error_text(&err)[0] == '\0'));
        if (status == WEFT_OK) {
            opened++;
            read_all(folder);
        }
        weft_folder_destroy(folder);
        weft_error_release(&err);
    }
    assert_true(opened > ROUNDS / 10 && opened < ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_disk(refuses_headers), with_disk(refuses_long_names), with_disk(refuses_lengths),
        with_disk(refuses_folders), with_disk(refuses_tilings),    with_disk(knows_foreign_dtypes),
        with_disk(refuses_pieces),  with_disk(survives_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
