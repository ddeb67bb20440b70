/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms of products that were timed: what is found, agreed upon and kept. */
#ifndef WEFT_CUDA_CHOICES_H
#define WEFT_CUDA_CHOICES_H

#include "blas.h"
#include "device.h"

/* Of a product on a machine: how fast algorithms are is a matter of the GPU, which of them there
 * are of the library. As bytes, between ranks. */
typedef struct cuda_choice {
    cuda_product product;
    uint64_t machine; /* cuda_machine_hash */
    cublasLtMatmulAlgo_t algorithm;
    int64_t known; /* cuda_known */
} cuda_choice;

/* Nothing: heuristics choose. */
typedef enum cuda_known { CUDA_UNKNOWN, CUDA_KEPT, CUDA_TIMED } cuda_known;

/* "NVIDIA H100 80GB HBM3, cuBLASLt 130000, ...": freed by weft_free. */
char *cuda_machine(const cuda *c);

/* ---- choices.c: a text file of the user's cache folder, one for each machine ---- */

/* NULL: there is no cache folder, or no memory. */
char *cuda_choices_path(const char *cache_dir, const char *machine);
/* What the file has for this machine, fresh memory; none if it is not there. One that is not as it
 * was written, or of another machine, counts for nothing, and the log says so. */
weft_status cuda_choices_read(const char *path, const char *machine, const weft_log *log,
                              cuda_choice **list, int *n, weft_error *err);
/* Failing to write costs the next run the time of timing, nothing else: the log says so. */
void cuda_choices_write(const char *cache_dir, const char *path, const char *machine,
                        const cuda_choice *list, int n, const weft_log *log);

/* ---- timing.c ---- */

/* Runs what cuBLASLt puts first on memory of its own, and chooses the fastest. Without room for
 * that nothing is known, which is no error. */
weft_status cuda_choose_by_time(cuda *c, const cuda_matmul *m, cuda_choice *out, weft_error *err);
/* The least of a few times of one product, behind a first one; 0: there is no room. */
weft_status cuda_time_product(cuda *c, const cuda_matmul *m, double *seconds, weft_error *err);

#endif
