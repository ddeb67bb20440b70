/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in files, written and read back: all dtypes, random boxes of random tilings, checksums.
 */
#include "../../lib/store_run.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>

static uint64_t seed = 1;

static int64_t draw(int64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

static void write_file(const char *path, const weft_piece *pieces, int n, bool sharded,
                       const void *const *data, weft_sums *sums)
{
    const char *const metadata[] = {"made_by", "a \"test\"", NULL};
    weft_shard *shard = NULL;
    ok(weft_shard_create(io, path, pieces, n, sharded, metadata, &shard, err));
    for (int i = 0; i < n; i++)
        ok(weft_shard_write(shard, i, 0, data[i], weft_piece_bytes(&pieces[i]), err));
    ok(weft_shard_finish(shard, sums, err));
    weft_shard_destroy(shard);
}

static void equal_sums(const weft_sums *a, const weft_sums *b)
{
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->chunk, b->chunk);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->sum, b->sum, (size_t)a->n * sizeof *a->sum);
}

static void keeps_every_dtype(void **state)
{
    (void)state;
    static const double f64[2] = {1.5, -2e300};
    static const float f32[6] = {0, 1, -2, 3e30F, 4, 5};
    static const uint16_t bf16[3] = {0x3fc0, 0x7f80, 0x8000};
    static const int32_t i32[1] = {-7};
    static const uint8_t u8[5] = {0, 1, 2, 254, 255};
    const weft_piece pieces[] = {
        {"bytes", WEFT_U8, 1, {5}, {0}, {5}},
        {"half", WEFT_BF16, 2, {3, 1}, {0}, {3, 1}},
        {"one", WEFT_I32, 0, {0}, {0}, {0}},
        {"wide", WEFT_F64, 1, {2}, {0}, {2}},
        {"näme \"q\"", WEFT_F32, 2, {2, 3}, {0}, {2, 3}},
        {"e4m3", WEFT_F8E4M3, 1, {5}, {0}, {5}},
        {"e5m2", WEFT_F8E5M2, 1, {5}, {0}, {5}},
        {"e8m0", WEFT_F8E8M0, 1, {5}, {0}, {5}},
    };
    enum { N = sizeof pieces / sizeof pieces[0] };
    const void *const data[N] = {u8, bf16, i32, f64, f32, u8, u8, u8};
    for (int sharded = 0; sharded < 2; sharded++) {
        weft_sums sums, again;
        weft_folder *folder = NULL;
        const char *path = sharded ? "b.safetensors" : "a.safetensors";
        write_file(path, pieces, N, sharded, data, &sums);
        ok(weft_sums_of_file(io, path, &again, err));
        equal_sums(&sums, &again);
        ok(weft_folder_open(io, path, &folder, err));
        ok(weft_folder_verify(folder, path, &sums, err));
        assert_int_equal(weft_folder_count(folder), N);
        assert_string_equal(weft_folder_metadata(folder, "made_by"), "a \"test\"");
        assert_string_equal(weft_folder_metadata(folder, "format"), "pt");
        assert_null(weft_folder_metadata(folder, "nothing"));
        assert_null(weft_folder_find(folder, "nothing"));
        for (int i = 0; i < N; i++) {
            char room[64];
            const weft_stored *t = weft_folder_find(folder, pieces[i].name);
            assert_non_null(t);
            assert_int_equal(t->dtype, pieces[i].dtype);
            assert_int_equal(t->n_dims, pieces[i].n_dims);
            assert_int_equal(t->n_pieces, 1);
            assert_memory_equal(t->size, pieces[i].whole, sizeof(int64_t) * (size_t)t->n_dims);
            ok(weft_folder_read(folder, t->name, pieces[i].lo, pieces[i].size, t->dtype, room,
                                err));
            assert_memory_equal(room, data[i], (size_t)weft_piece_bytes(&pieces[i]));
            if (i > 0)
                assert_true(strcmp(weft_folder_get(folder, i - 1)->name,
                                   weft_folder_get(folder, i)->name) < 0);
        }
        float powers[5];
        ok(weft_folder_read(folder, "e8m0", (int64_t[]){0}, (int64_t[]){5}, WEFT_F32, powers, err));
        for (int i = 0; i < 4; i++)
            assert_true(powers[i] == ldexpf(1, u8[i] - 127));
        assert_true(isnan(powers[4]));
        weft_folder_destroy(folder);
        weft_sums_release(&sums);
        weft_sums_release(&again);
    }
}

/* Where readers map the file, each tensor is aligned. */
static void aligns(void **state)
{
    (void)state;
    static const double data[8];
    const void *const from[] = {data, data, data, data};
    const weft_piece pieces[] = {{"a", WEFT_U8, 1, {3}, {0}, {3}},
                                 {"b", WEFT_BF16, 1, {3}, {0}, {3}},
                                 {"c", WEFT_F32, 1, {3}, {0}, {3}},
                                 {"d", WEFT_F64, 1, {3}, {0}, {3}}};
    write_file("x.safetensors", pieces, 4, true, from, NULL);
    char *text = NULL;
    size_t n = 0;
    uint64_t header = 0;
    ok(weft_io_read_file(io, "x.safetensors", &text, &n, err));
    memcpy(&header, text, 8);
    assert_int_equal((8 + header) % 64, 0);
    assert_int_equal(n, 8 + header + 24 + 12 + 6 + 3);
    assert_non_null(
        strstr(text + 8, "\"d\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]}"));
    assert_non_null(
        strstr(text + 8, "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[42,45]}"));
    weft_free(text);
}

/* What the caller says of the format is not said twice. */
static void keeps_the_callers_format(void **state)
{
    (void)state;
    const weft_piece piece = {"t", WEFT_U8, 1, {1}, {0}, {1}};
    const char *const metadata[] = {"format", "np", NULL};
    weft_shard *shard = NULL;
    weft_folder *folder = NULL;
    ok(weft_shard_create(io, "x.safetensors", &piece, 1, true, metadata, &shard, err));
    ok(weft_shard_write(shard, 0, 0, "1", 1, err));
    ok(weft_shard_finish(shard, NULL, err));
    weft_shard_destroy(shard);
    ok(weft_folder_open(io, "x.safetensors", &folder, err));
    assert_string_equal(weft_folder_metadata(folder, "format"), "np");
    assert_string_equal(weft_folder_metadata(folder, "DCP_VERSION"), "1.0");
    weft_folder_destroy(folder);
}

/* ---- random boxes of random tilings ---- */

enum { MOST = 24, MAX_PIECES = 64 };

typedef struct tiling {
    weft_piece piece[MAX_PIECES];
    int n;
} tiling;

static void cut(tiling *t, weft_piece piece, int depth)
{
    int d = piece.n_dims ? (int)draw(piece.n_dims) : 0;
    if (depth == 0 || piece.n_dims == 0 || piece.size[d] < 2 || t->n > MAX_PIECES / 2) {
        t->piece[t->n++] = piece;
        return;
    }
    weft_piece right = piece;
    int64_t at = 1 + draw(piece.size[d] - 1);
    piece.size[d] = at;
    right.lo[d] += at;
    right.size[d] -= at;
    cut(t, piece, depth - 1);
    cut(t, right, depth - 1);
}

static int64_t count(int n_dims, const int64_t *size)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++)
        n *= size[d];
    return n;
}

/* The i-th element of a box, as a number of the whole tensor. */
static int64_t element(int n_dims, const int64_t *whole, const int64_t *lo, const int64_t *size,
                       int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        at += (lo[d] + i % size[d]) * step;
        i /= size[d];
        step *= whole[d];
    }
    return at;
}

/* Every element is its own number: exact as i32, f32 and f64. */
static void *fill(const weft_piece *p)
{
    char *data = malloc((size_t)weft_piece_bytes(p));
    for (int64_t i = 0; i < count(p->n_dims, p->size); i++) {
        int64_t number = element(p->n_dims, p->whole, p->lo, p->size, i);
        if (p->dtype == WEFT_F32)
            ((float *)(void *)data)[i] = (float)number;
        else if (p->dtype == WEFT_F64)
            ((double *)(void *)data)[i] = (double)number;
        else
            ((int32_t *)(void *)data)[i] = (int32_t)number;
    }
    return data;
}

static void check_box(weft_folder *folder, const weft_piece *whole, weft_dtype as)
{
    int64_t lo[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS];
    for (int d = 0; d < whole->n_dims; d++) {
        lo[d] = draw(whole->whole[d] + 1);
        size[d] = draw(whole->whole[d] - lo[d] + 1);
    }
    int64_t n = count(whole->n_dims, size);
    size_t width = weft_dtype_size(as);
    char *to = malloc((size_t)n * width + 1);
    to[(size_t)n * width] = 99; /* one past the end stays */
    ok(weft_folder_read(folder, "t", lo, size, as, to, err));
    assert_int_equal(to[(size_t)n * width], 99);
    for (int64_t i = 0; i < n; i++) {
        int64_t number = element(whole->n_dims, whole->whole, lo, size, i);
        double got = as == WEFT_F32   ? (double)((float *)(void *)to)[i]
                     : as == WEFT_F64 ? ((double *)(void *)to)[i]
                                      : ((int32_t *)(void *)to)[i];
        if (got != (double)number)
            fail_msg("element %" PRId64 " is %g, not %" PRId64, i, got, number);
    }
    free(to);
}

static void random_boxes(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_I32};
        weft_piece whole = {.name = "t", .dtype = dtypes[draw(3)], .n_dims = (int)draw(5)};
        tiling t = {.n = 0};
        char dir[16], path[64];
        weft_sums sums[MAX_PIECES];
        for (int d = 0; d < whole.n_dims; d++)
            whole.size[d] = whole.whole[d] =
                1 + draw(whole.n_dims == 1 ? 100000 : MOST / whole.n_dims);
        cut(&t, whole, (int)draw(6));
        snprintf(dir, sizeof dir, "r%d", round);
        ok(weft_io_make_dirs(io, dir, err));
        for (int i = 0; i < t.n; i++) {
            void *data = fill(&t.piece[i]);
            snprintf(path, sizeof path, "%s/%d.safetensors", dir, i);
            write_file(path, &t.piece[i], 1, true, (const void *const *)&data, &sums[i]);
            free(data);
        }
        weft_folder *folder = NULL;
        ok(weft_folder_open(io, dir, &folder, err));
        assert_int_equal(weft_folder_find(folder, "t")->n_pieces, t.n);
        for (int i = 0; i < t.n; i++) {
            snprintf(path, sizeof path, "%d.safetensors", i);
            if (round % 2)
                ok(weft_folder_verify(folder, path, &sums[i], err));
            weft_sums_release(&sums[i]);
        }
        for (int i = 0; i < 40; i++)
            check_box(folder, &whole,
                      whole.dtype == WEFT_I32 ? WEFT_I32
                      : i % 2                 ? WEFT_F32
                                              : WEFT_F64);
        weft_folder_destroy(folder);
    }
}

/* ---- how files are read ---- */

static void fill_counting(float *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)i;
}

static void reads_few_times(void **state)
{
    (void)state;
    enum { ROWS = 1000, COLUMNS = 2000 };
    float *data = malloc(sizeof *data * ROWS * COLUMNS), *to = malloc(sizeof *to * ROWS * COLUMNS);
    fill_counting(data, ROWS * COLUMNS);
    const weft_piece piece = {"t", WEFT_F32, 2, {ROWS, COLUMNS}, {0}, {ROWS, COLUMNS}};
    write_file("t.safetensors", &piece, 1, false, (const void *const *)&data, NULL);
    weft_folder *folder = NULL;
    ok(weft_folder_open(io, "/", &folder, err));
    /* The whole tensor, then whole rows: one read, no byte more. */
    fault_fs_arm(disk, FAULT_NONE, 0, 0);
    ok(weft_folder_read(folder, "t", piece.lo, piece.size, WEFT_F32, to, err));
    assert_memory_equal(to, data, sizeof *data * ROWS * COLUMNS);
    assert_int_equal(weft_folder_bytes_read(folder), 4 * ROWS * COLUMNS);
    assert_true(fault_fs_calls(disk) <= 3);
    fault_fs_arm(disk, FAULT_NONE, 0, 0);
    ok(weft_folder_read(folder, "t", (int64_t[]){10, 0}, (int64_t[]){500, COLUMNS}, WEFT_F32, to,
                        err));
    assert_int_equal(fault_fs_calls(disk), 1);
    assert_memory_equal(to, data + 10 * COLUMNS, sizeof *data * 500 * COLUMNS);
    /* One column: 8 MB through 1 MiB of memory. */
    fault_fs_arm(disk, FAULT_NONE, 0, 0);
    ok(weft_folder_read(folder, "t", (int64_t[]){0, 7}, (int64_t[]){ROWS, 1}, WEFT_F32, to, err));
    assert_true(fault_fs_calls(disk) <= 9);
    for (int i = 0; i < ROWS; i++)
        assert_true(to[i] == data[i * COLUMNS + 7]);
    /* Most of each row: all rows together, gaps and all. */
    fault_fs_arm(disk, FAULT_NONE, 0, 0);
    ok(weft_folder_read(folder, "t", (int64_t[]){0, 0}, (int64_t[]){ROWS, COLUMNS - 1}, WEFT_F32,
                        to, err));
    assert_true(fault_fs_calls(disk) <= 9);
    for (int i = 0; i < ROWS; i++)
        assert_memory_equal(to + i * (COLUMNS - 1), data + i * COLUMNS, sizeof *to * (COLUMNS - 1));
    /* Other floats through memory, too. */
    double *wide = malloc(sizeof *wide * ROWS * COLUMNS);
    ok(weft_folder_read(folder, "t", piece.lo, piece.size, WEFT_F64, wide, err));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(wide[i] == (double)data[i]);
    free(wide);
    weft_folder_destroy(folder);
    free(data);
    free(to);
}

/* Wide gaps are not read. */
static void reads_few_bytes(void **state)
{
    (void)state;
    enum { ROWS = 20, COLUMNS = 50000 };
    float *data = malloc(sizeof *data * ROWS * COLUMNS), to[ROWS * 3];
    fill_counting(data, ROWS * COLUMNS);
    const weft_piece piece = {"t", WEFT_F32, 2, {ROWS, COLUMNS}, {0}, {ROWS, COLUMNS}};
    write_file("t.safetensors", &piece, 1, false, (const void *const *)&data, NULL);
    weft_folder *folder = NULL;
    ok(weft_folder_open(io, "t.safetensors", &folder, err));
    ok(weft_folder_read(folder, "t", (int64_t[]){0, 100}, (int64_t[]){ROWS, 3}, WEFT_F32, to, err));
    assert_int_equal(weft_folder_bytes_read(folder), sizeof to);
    for (int i = 0; i < ROWS * 3; i++)
        assert_true(to[i] == data[i / 3 * COLUMNS + 100 + i % 3]);
    weft_folder_destroy(folder);
    free(data);
}

/* More files than are open at once, by several threads, chunks checked. */
enum { N_FILES = 100, FILE_ROWS = 3, FILE_COLUMNS = 500 };

static void *read_rows(void *arg)
{
    weft_folder *folder = arg;
    float to[FILE_COLUMNS];
    for (int64_t i = 0; i < N_FILES * FILE_ROWS; i++) {
        int64_t row = i * 7 % (N_FILES * FILE_ROWS);
        if (weft_folder_read(folder, "t", (int64_t[]){row, 0}, (int64_t[]){1, FILE_COLUMNS},
                             WEFT_F32, to, NULL) != WEFT_OK)
            return arg;
        for (int c = 0; c < FILE_COLUMNS; c++) {
            if (to[c] != (float)(row * FILE_COLUMNS + c))
                return arg;
        }
    }
    return NULL;
}

static void write_rows(weft_sums sums[N_FILES])
{
    char path[32];
    for (int i = 0; i < N_FILES; i++) {
        const weft_piece piece = {"t",
                                  WEFT_F32,
                                  2,
                                  {N_FILES * FILE_ROWS, FILE_COLUMNS},
                                  {i * FILE_ROWS, 0},
                                  {FILE_ROWS, FILE_COLUMNS}};
        void *data = fill(&piece);
        snprintf(path, sizeof path, "%d.safetensors", i);
        write_file(path, &piece, 1, true, (const void *const *)&data, &sums[i]);
        free(data);
    }
}

static void threads_share_a_folder(void **state)
{
    (void)state;
    weft_sums sums[N_FILES];
    weft_folder *folder = NULL;
    char path[32];
    write_rows(sums);
    ok(weft_folder_open(io, "", &folder, err));
    for (int i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%d.safetensors", i);
        if (i % 3)
            ok(weft_folder_verify(folder, path, &sums[i], err));
        weft_sums_release(&sums[i]);
    }
    pthread_t threads[4];
    void *bad = NULL;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_rows, folder), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    assert_true(fault_fs_open_files(disk) <= 64 + 4);
    weft_folder_destroy(folder);
}

static weft_folder *watched;
static bool is_inside; /* of a read */

/* Before a file is read all others are: more than may be open at once. */
static ssize_t read_others_first(void *ctx, int fd, void *to, size_t n, off_t at)
{
    if (watched && !is_inside) {
        is_inside = true;
        assert_null(read_rows(watched));
        is_inside = false;
    }
    return io->pread(ctx, fd, to, n, at);
}

static void keeps_open_what_is_read(void **state)
{
    weft_sums sums[N_FILES];
    weft_io others_first = *io;
    float to[FILE_COLUMNS];
    (void)state;
    others_first.pread = read_others_first;
    write_rows(sums);
    for (int i = 0; i < N_FILES; i++)
        weft_sums_release(&sums[i]);
    weft_folder *folder = NULL;
    ok(weft_folder_open(&others_first, "", &folder, err));
    watched = folder;
    for (int64_t row = 0; row < N_FILES * FILE_ROWS; row += 10) {
        ok(weft_folder_read(folder, "t", (int64_t[]){row, 0}, (int64_t[]){1, FILE_COLUMNS},
                            WEFT_F32, to, err));
        for (int c = 0; c < FILE_COLUMNS; c++)
            assert_true(to[c] == (float)(row * FILE_COLUMNS + c));
    }
    watched = NULL;
    weft_folder_destroy(folder);
}

/* ---- conversion ---- */

static double value_of(uint64_t bits)
{
    double d = 0;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* What bf16 a double becomes, found by trying its neighbours. */
static uint16_t nearest_bf16(double d)
{
    uint16_t best = 0;
    double best_distance = INFINITY;
    for (uint32_t h = 0; h < 0x7f80; h++) {
        double distance = fabs(fabs(d) - (double)weft_bf16_to_f32((uint16_t)h));
        if (distance < best_distance || (distance == best_distance && h % 2 == 0)) {
            best = (uint16_t)h;
            best_distance = distance;
        }
    }
    return (uint16_t)(best | (signbit(d) ? 0x8000 : 0));
}

static void converts_floats(void **state)
{
    (void)state;
    enum { N = 64 };
    double data[N], to_f64[N];
    float to_f32[N];
    uint16_t to_bf16[N];
    for (int i = 0; i < N; i++)
        data[i] = value_of((uint64_t)draw(2) << 63 | (uint64_t)(1023 - 100 + draw(200)) << 52 |
                           (uint64_t)draw(1 << 30) << (i % 2 ? 22 : 0));
    data[0] = 1 + 0x1p-8;           /* a tie, down to even */
    data[1] = 1 + 0x1p-8 + 0x1p-40; /* just above it: f32 would make a tie of it */
    data[2] = 1 + 0x3p-8 - 0x1p-40; /* just below a tie that goes up */
    data[3] = -data[1];
    data[4] = 1e-300;
    const weft_piece piece = {"t", WEFT_F64, 1, {N}, {0}, {N}};
    const void *from = data;
    weft_folder *folder = NULL;
    write_file("t.safetensors", &piece, 1, false, &from, NULL);
    ok(weft_folder_open(io, "t.safetensors", &folder, err));
    ok(weft_folder_read(folder, "t", piece.lo, piece.size, WEFT_F64, to_f64, err));
    ok(weft_folder_read(folder, "t", piece.lo, piece.size, WEFT_F32, to_f32, err));
    ok(weft_folder_read(folder, "t", piece.lo, piece.size, WEFT_BF16, to_bf16, err));
    assert_memory_equal(to_f64, data, sizeof data);
    for (int i = 0; i < N; i++) {
        assert_true(to_f32[i] == (float)data[i]);
        assert_int_equal(to_bf16[i], nearest_bf16(data[i]));
    }
    refused(weft_folder_read(folder, "t", piece.lo, piece.size, WEFT_I32, to_f32, err),
            "t.safetensors: tensor \"t\" is stored as F64, which cannot be "
            "read as i32");
    weft_folder_destroy(folder);
}

/* bf16 and f32 become each other by blocks: of any length, and no more than that is written. */
static void converts_parts_of_blocks(void **state)
{
    enum { N = 150 };
    static const int64_t counts[] = {1, 63, 64, 65, 128, N};
    const weft_piece pieces[] = {{"f", WEFT_F32, 1, {N}, {0}, {N}},
                                 {"h", WEFT_BF16, 1, {N}, {0}, {N}}};
    float f[N], to_f[N + 1];
    uint16_t h[N], to_h[N + 1];
    (void)state;
    for (int i = 0; i < N; i++) {
        const uint32_t bits = draw(1 << 16) << 16 | draw(1 << 16); /* infinities and NaN, too */
        memcpy(&f[i], &bits, sizeof bits);
        h[i] = (uint16_t)draw(1 << 16);
    }
    f[0] = NAN;
    f[64] = -INFINITY;
    weft_folder *folder = NULL;
    write_file("t.safetensors", pieces, 2, false, (const void *const[]){f, h}, NULL);
    ok(weft_folder_open(io, "t.safetensors", &folder, err));
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        const int64_t n = counts[k], lo = N - n;
        to_f[n] = 7;
        to_h[n] = 7;
        ok(weft_folder_read(folder, "f", &lo, &n, WEFT_BF16, to_h, err));
        ok(weft_folder_read(folder, "h", &lo, &n, WEFT_F32, to_f, err));
        for (int64_t i = 0; i < n; i++) {
            const float wide = weft_bf16_to_f32(h[lo + i]);
            assert_int_equal(to_h[i], weft_f32_to_bf16(f[lo + i]));
            assert_memory_equal(&to_f[i], &wide, sizeof wide);
        }
        assert_true(to_f[n] == 7);
        assert_int_equal(to_h[n], 7);
    }
    weft_folder_destroy(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_disk(converts_parts_of_blocks),
        with_disk(keeps_every_dtype),
        with_disk(aligns),
        with_disk(keeps_the_callers_format),
        with_disk(random_boxes),
        with_disk(reads_few_times),
        with_disk(reads_few_bytes),
        with_disk(threads_share_a_folder),
        with_disk(keeps_open_what_is_read),
        with_disk(converts_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
