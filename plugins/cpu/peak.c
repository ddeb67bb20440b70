/* SPDX-License-Identifier: Apache-2.0 */
/* The device's rate of matrix products, measured once per CPU model, threads, dtype and way of
 * multiplying, then read from a text file. */
#include "cpu.h"
#include "onednn.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weft/files.h>
#include <weft/random.h>

static const double first_budget_s = 0.02, budget_s = 0.05;

/* ---- measuring ---- */

/* Best rate of n x n products within `seconds` (two runs at least); 0 if it cannot be measured. */
static double rate_of(weft_dtype dtype, int64_t n, int threads, double seconds)
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
    size_t scratch = cpu_matmul_scratch(&s, threads),
           matrix = (size_t)(n * n) * weft_dtype_size(dtype);
    cpu_matmul *matmul = NULL;
    char *data = NULL;
    double best = 0.0;
    if (scratch == SIZE_MAX || cpu_matmul_create(&s, threads, &matmul, NULL) != WEFT_OK)
        return 0.0;
    data = weft_alloc_aligned(64, 3 * matrix + scratch);
    if (data) {
        memset(data, 0, 3 * matrix + scratch);
        double start = weft_now();
        for (int i = 0; i < 2 || weft_now() - start < seconds; i++) {
            double t = weft_now();
            if (cpu_matmul_run(matmul, data, data + matrix, data + 2 * matrix, data + 3 * matrix,
                               NULL) != WEFT_OK) {
                best = 0.0;
                break;
            }
            t = weft_now() - t;
            double rate = t > 0.0 ? 2.0 * (double)(n * n * n) / t : 0.0;
            best = rate > best ? rate : best;
        }
    }
    weft_free_aligned(data);
    cpu_matmul_destroy(matmul);
    return best;
}

/* The largest product of which a few fit into the time, found by a small one. */
static double measure(weft_dtype dtype, int threads)
{
    int64_t n = 256;
    double rate = rate_of(dtype, n, threads, first_budget_s / 4);
    while (rate > 0.0 && n < 2048 && 16.0 * (double)(n * n * n) / rate < first_budget_s)
        n *= 2;
    if (n == 256)
        return rate;
    double large = rate_of(dtype, n, threads, budget_s);
    return large > rate ? large : rate;
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
        key = weft_format("weft cpu peak\n%s\n%s\n%d threads\n%s%s\n", weft_text_get(&model),
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

double cpu_peak(weft_dtype dtype, const weft_queue *queue, const char *cache_dir)
{
    double rate = 0.0;
    if (dtype != WEFT_F32 && dtype != WEFT_BF16)
        return 0.0;
    char *key = key_of(dtype, queue), *path = key && cache_dir ? path_of(key, cache_dir) : NULL;
    if (path)
        rate = read_cache(path, key);
    if (rate == 0.0) {
        rate = measure(dtype == WEFT_BF16 && queue->products == CPU_PRODUCTS_F32 ? WEFT_F32 : dtype,
                       queue->threads);
        if (path && rate > 0.0)
            write_cache(cache_dir, path, key, rate);
    }
    weft_free(path);
    weft_free(key);
    return rate;
}
