/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels ask of the machine they are compiled for: here a GPU, by nvcc. Its twin in test/ has
 * the same names for the host; the text of the kernels is one for both. */
#ifndef WEFT_CUDA_TARGET_H
#define WEFT_CUDA_TARGET_H

#include <stdint.h>

/* A kernel and its only parameter, a struct of args.h, called `a` inside. Large blocks are bound to
 * be two at once, which leaves a thread 128 registers: unbound, ptxas gives it half of that for
 * some GPUs and spills the rest. */
#define WEFT_KERNEL(name, args, threads)                                                           \
    extern "C" __global__ void __launch_bounds__(threads, (threads) > 128 ? 2 : 0)                 \
        weft_##name(const __grid_constant__ args a)

/* Shared memory of the size that the launch says. */
#define WEFT_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

static __device__ inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Of 1 and more; within 1 ulp. */
static __device__ inline float reciprocal_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two numbers as bf16, `lo` in the lower half; to nearest even. */
static __device__ inline uint32_t pack_bf16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

/* 16 bytes of the GPU's memory to shared memory, zeros if they are not `there`: the thread goes on,
 * and has them behind copies_wait, others behind a barrier more. */
static __device__ inline void copy_ahead(void *to, const void *from, bool there)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}

/* For all that this thread has copied. */
static __device__ inline void copies_wait()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Four 8x8 matrices of bf16 from shared memory; lane l gives the address of row l mod 8 of matrix
 * l / 8. */
static __device__ inline void ldmatrix_x4(uint32_t r[4], const void *row)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* The same, each matrix transposed. */
static __device__ inline void ldmatrix_x4_trans(uint32_t r[4], const void *row)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* c[16 8] += a[16 16] b[16 8], bf16 with sums in f32; registers as PTX's mma.m16n8k16 has them. */
static __device__ inline void mma_bf16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
