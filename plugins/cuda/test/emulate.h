/* SPDX-License-Identifier: Apache-2.0 */
/* A grid of blocks of threads on the host, one block after another, one thread at a time: a thread
 * runs until it ends or waits for others. The order of threads between barriers is the caller's
 * choice, so that results which depend on it are seen. */
#ifndef WEFT_CUDA_EMULATE_H
#define WEFT_CUDA_EMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct emulate_size {
    unsigned x, y, z;
} emulate_size;

typedef struct emulate_launch {
    void (*kernel)(const void *args);
    const void *args;
    emulate_size grid, block;
    size_t shared_bytes; /* dynamic */
    size_t args_bytes;   /* 0: unknown */
    uint64_t order;      /* 0: threads and blocks from the first to the last; 1: from the last to
                            the first; else this seed's dice, again and again: which block is next,
                            which warps go on, and in which order their threads */
    const struct emulate_watch *watch; /* or NULL */
    uint64_t last_blocks;              /* 0: all; else so many, and no others */
} emulate_launch;

/* Is told what happens, between the accesses to memory that it sees itself (races.c). */
typedef struct emulate_watch {
    void (*launch)(const emulate_launch *launch, const unsigned char *shared);
    void (*block)(void); /* one begins */
    void (*barrier)(void);
    void (*warp_barrier)(int warp);
    void (*matrix_row)(const void *row, int warp); /* ldmatrix reads 16 bytes for a whole warp */
    void (*atomic)(const void *to, size_t size);
    void (*copy)(const void *to, const void *from, size_t size); /* from NULL: zeros */
} emulate_watch;

/* Runs it. NULL, or what the kernel did wrong: a barrier that not all threads of a block reach, or
 * not the same one; lanes of a warp that do different things together. */
const char *emulate_run(const emulate_launch *launch);
/* Operations of all matrix instructions so far. */
double emulate_flops(void);

/* ---- for target.h ---- */

const emulate_size *emulate_thread_index(void);
const emulate_size *emulate_block_index(void);
const emulate_size *emulate_block_size(void);
const emulate_size *emulate_grid_size(void);
unsigned char *emulate_dynamic_shared(void);
void emulate_barrier(const char *file, int line);
void emulate_warp_barrier(const char *file, int line);
void emulate_shuffle(const void *mine, void *theirs, size_t size, int lane, const char *file,
                     int line);
/* Until the thread has waited there is something else there: what is read too early shows. */
void emulate_copy_ahead(void *to, const void *from, bool there, int line);
void emulate_copies_wait(void);
void emulate_ldmatrix(uint32_t *r, const void *row, bool transposed, int line);
void emulate_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, int line);
int32_t emulate_atomic_min(int32_t *to, int32_t x);

/* ---- for a watch ---- */

int emulate_thread(void);
/* Is it on the stack of a thread, a parameter of the kernel's, or the emulator's own? */
bool emulate_is_private(const void *p);
/* The launch ends with this, if it is the first thing that is wrong. */
void emulate_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
#endif
