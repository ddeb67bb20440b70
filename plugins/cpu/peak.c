/* SPDX-License-Identifier: Apache-2.0 */
/* The device's rate of matrix products: the best that was ever measured while nothing disturbed it,
 * by CPU model, threads, dtype and way of multiplying. Kept in a text file; each run looks once
 * more, so that a number from a busy machine does not stay. */
#include "tiles.h"

#include <inttypes.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/files.h>
#include <weft/random.h>

static const double guess_s = 0.005, one_s = 0.02; /* to guess the rate; the longest product */
static const double first_s = 0.05, again_s = 0.02;
static const double undisturbed = 0.95; /* of the time, every thread had a core */

/* ---- measuring ---- */

typedef struct bench {
    cpu_matmul_shape shape;
    cpu_matmul *matmul; /* NULL: by AMX, which is our own */
    char *data;
    size_t matrix; /* bytes */
    int64_t n;
    int threads;
    double *busy; /* of each thread */
} bench;

/* Any numbers but zeros, which may be multiplied faster. Of bf16 they are the upper halves. */
static void fill(char *data, size_t bytes, weft_dtype dtype)
{
    uint32_t bits = 1;
    size_t size = weft_dtype_size(dtype);
    for (size_t i = 0; i + size <= bytes; i += size) {
        bits = bits * 1664525 + 1013904223;
        float x = (float)(bits >> 8) / (float)(1 << 23) - 1;
        memcpy(data + i, (const char *)&x + sizeof x - size, size);
    }
}

static void bench_end(bench *b)
{
    weft_free(b->busy);
    weft_free_aligned(b->data);
    cpu_matmul_destroy(b->matmul);
}

static bool bench_begin(bench *b, weft_dtype dtype, int64_t n, int threads)
{
    cpu_matmul_shape s = {.m = n,
                          .n = n,
                          .k = n,
                          .a_row = n,
                          .a_col = 1,
                          .b_row = 1,
                          .b_col = n,
                          .c_row = n,
                          .ab = dtype,
                          .c = dtype};
    const bool own = dtype == WEFT_BF16 && cpu_may_use_amx();
    size_t scratch =
        own ? cpu_tiles_scratch(&cpu_gemm_amx, &s, threads) : cpu_matmul_scratch(&s, threads);
    *b = (bench){
        .shape = s, .n = n, .threads = threads, .matrix = (size_t)(n * n) * weft_dtype_size(dtype)};
    if (scratch == SIZE_MAX ||
        (!own && cpu_matmul_create(&s, threads, &b->matmul, NULL) != WEFT_OK))
        return false;
    b->busy = weft_alloc_zero((size_t)threads, sizeof *b->busy);
    b->data = weft_alloc_aligned(64, 3 * b->matrix + scratch);
    if (!b->busy || !b->data) {
        bench_end(b);
        return false;
    }
    fill(b->data, 2 * b->matrix, dtype);
    return true;
}

static double thread_time(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0
               ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec
               : 0;
}

/* The least that one of the threads has worked since it was asked last: a thread that another
 * process kept from its core made the others wait for it. */
static double least_busy(const bench *b)
{
    double least = 1e30;
    cpu_team before = cpu_team_begin(b->threads);
#pragma omp parallel num_threads(b->threads) reduction(min : least)
    {
        int me = omp_get_thread_num();
        double now = thread_time();
        least = now - b->busy[me];
        b->busy[me] = now;
    }
    cpu_team_end(before);
    return least;
}

static bool run_once(bench *b, cpu_sample *best)
{
    (void)least_busy(b);
    char *c = b->data + 2 * b->matrix, *scratch = c + b->matrix;
    double t = weft_now();
    if (!b->matmul)
        cpu_tiles_run(&cpu_gemm_amx, &b->shape, b->threads, b->data, b->data + b->matrix, c,
                      scratch);
    else if (cpu_matmul_run(b->matmul, b->data, b->data + b->matrix, c, scratch, NULL) != WEFT_OK)
        return false;
    t = weft_now() - t;
    bool clean = least_busy(b) >= undisturbed * t;
    double rate = t > 0.0 ? 2.0 * (double)(b->n * b->n * b->n) / t : 0.0;
    if (rate > best->rate)
        *best = (cpu_sample){rate, clean};
    return true;
}

/* The best of some n x n products within `seconds`, three at least: the first one warms up. Rate 0
 * if they cannot be made. */
static cpu_sample rate_of(weft_dtype dtype, int64_t n, int threads, double seconds)
{
    bench b;
    cpu_sample best = {0};
    if (!bench_begin(&b, dtype, n, threads))
        return best;
    double start = weft_now();
    for (int i = 0; i < 3 || weft_now() - start < seconds; i++)
        if (!run_once(&b, &best)) {
            best = (cpu_sample){0};
            break;
        }
    bench_end(&b);
    return best;
}

/* The largest product of which a few fit into the time, its size guessed by a small one. The small
 * one's own rate is a stopgap. */
static cpu_sample measure(weft_dtype dtype, int threads, double seconds)
{
    int64_t n = 256;
    cpu_sample small = rate_of(dtype, n, threads, guess_s), large;
    while (small.rate > 0.0 && n < 2048 && 16.0 * (double)(n * n * n) / small.rate < one_s)
        n *= 2;
    large = small.rate > 0.0 ? rate_of(dtype, n, threads, seconds) : small;
    if (large.rate > 0.0 && large.rate >= small.rate)
        return large;
    small.clean = small.clean && large.rate > 0.0;
    return small;
}

/* ---- the cache ---- */

/* What the number depends on; also the head of the file. */
static char *key_of(weft_dtype dtype, const weft_queue *queue)
{
    weft_text model = {0}, library = {0};
    cpu_model_name(&model);
    cpu_matmul_library(&library);
    bool widened = dtype == WEFT_BF16 && queue->products == CPU_PRODUCTS_F32;
    char *key = NULL;
    if (!model.out_of_memory && !library.out_of_memory)
        key = weft_format("weft cpu peak 2\n%s\n%s\n%d threads\n%s%s\n", weft_text_get(&model),
                          weft_text_get(&library), queue->threads, weft_dtype_name(dtype),
                          widened ? " as f32" : "");
    weft_text_release(&model);
    weft_text_release(&library);
    return key;
}

static char *path_of(const char *key, const char *cache_dir)
{
    return weft_format("%s/cpu-peak-%016" PRIx64 ".txt", cache_dir, weft_hash_name(key));
}

char *cpu_peak_path(weft_dtype dtype, const weft_queue *queue, const char *cache_dir)
{
    char *key = key_of(dtype, queue), *path = key && cache_dir ? path_of(key, cache_dir) : NULL;
    weft_free(key);
    return path;
}

/* The file's number; 0 if there is none or it is not what we would have written. */
static double read_cache(const char *path, const char *key)
{
    char *text = NULL, *end = NULL;
    size_t size = 0, skip = strlen(key);
    double rate = 0.0;
    if (weft_read_file(path, &text, &size, NULL) != WEFT_OK)
        return 0.0;
    if (size > skip && strncmp(text, key, skip) == 0) {
        rate = strtod(text + skip, &end);
        if (end == text + skip || strcmp(end, " flop/s\n") != 0 || !(rate > 1e6 && rate < 1e18))
            rate = 0.0;
    }
    weft_free(text);
    return rate;
}

/* Failing to write costs the next start 100 ms, nothing else. */
static void write_cache(const char *cache_dir, const char *path, const char *key, double rate)
{
    char *text = weft_format("%s%.6e flop/s\n", key, rate);
    if (text && weft_make_dirs(cache_dir, NULL) == WEFT_OK)
        (void)weft_write_file(path, text, strlen(text), NULL);
    weft_free(text);
}

/* ---- the rate ---- */

/* What a step reached is a rate, too, but one that may count more than was computed (attention is
 * counted whole): it serves this run and is not kept. */
double cpu_peak_by(cpu_measure *by, weft_dtype dtype, const weft_queue *queue,
                   const weft_host *host, double reached)
{
    const char *cache_dir = host->cache_dir, *from = "the cache";
    if (weft_dtype_is_f8(dtype)) /* widened, always */
        dtype = WEFT_F32;
    if (dtype != WEFT_F32 && dtype != WEFT_BF16)
        return 0.0;
    bool widened = dtype == WEFT_BF16 && queue->products == CPU_PRODUCTS_F32;
    char *key = key_of(dtype, queue), *path = key && cache_dir ? path_of(key, cache_dir) : NULL;
    double kept = path ? read_cache(path, key) : 0.0, rate = kept;
    cpu_sample now = by(widened ? WEFT_F32 : dtype, queue->threads,
                        kept >= reached && kept > 0.0 ? again_s : first_s);
    if (now.rate > rate) {
        rate = now.rate;
        from = now.clean ? "measured" : "measured while the machine was busy, not kept";
        if (path && now.clean)
            write_cache(cache_dir, path, key, rate);
    }
    if (rate > 0.0 && reached > rate) {
        rate = reached;
        from = "what a step reached, not kept";
    }
    weft_log_print(host->log, WEFT_LOG_DEBUG, "cpu: products of %s run at %.4g flop/s (%s)",
                   weft_dtype_name(dtype), rate, from);
    weft_free(path);
    weft_free(key);
    return rate;
}

double cpu_peak(weft_dtype dtype, const weft_queue *queue, const weft_host *host, double reached)
{
    return cpu_peak_by(measure, dtype, queue, host, reached);
}
