/* SPDX-License-Identifier: Apache-2.0 */
/* What the processor can do. Asking it touches no state, so every launch may; AMX
 * alone is asked for once, as a rank begins. */
#include "cpu.h"
#include "matmul.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

cpu_isa cpu_isa_get(void)
{
    /* One bit more than the kernels use of each level, as the operating system must save the
     * registers too: the builtin checks that. */
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return CPU_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return CPU_ISA_AVX2;
    return CPU_ISA_GENERIC;
}

static bool leaf7(unsigned sub, unsigned out[4])
{
    return __get_cpuid_count(7, sub, &out[0], &out[1], &out[2], &out[3]) != 0;
}

/* oneDNN may be told to know less than the CPU (DNNL_MAX_CPU_ISA), and below AVX-512 it does bf16
 * slowly or not at all. */
bool cpu_can_bf16(void)
{
    cpu_matmul_shape s = {.m = 32,
                          .n = 32,
                          .k = 32,
                          .a_row = 32,
                          .a_col = 1,
                          .b_row = 1,
                          .b_col = 32,
                          .c_row = 32,
                          .ab = WEFT_BF16,
                          .c = WEFT_BF16};
    return cpu_isa_get() == CPU_ISA_AVX512 && cpu_matmul_scratch(&s, 1) != SIZE_MAX;
}

bool cpu_has_amx(void)
{
    unsigned r[4];
    return cpu_can_bf16() && leaf7(0, r) && (r[3] >> 22 & 1) &&
           (r[3] >> 24 & 1); /* AMX-BF16, AMX-TILE */
}

/* Linux gives the registers of tiles, 8 KiB a thread, to whoever asks. */
bool cpu_may_use_amx(void)
{
#ifdef __linux__
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return cpu_has_amx() && cpu_has_bf16_dots() &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

bool cpu_has_bf16(void)
{
    unsigned r[4];
    return cpu_has_amx() || (cpu_can_bf16() && leaf7(1, r) && (r[0] >> 5 & 1)); /* AVX512-BF16 */
}

bool cpu_has_bf16_dots(void)
{
    return cpu_isa_get() == CPU_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
}

void cpu_model_name(weft_text *text)
{
    union {
        unsigned r[12];
        char name[49];
    } v = {{0}};
    if ((unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) {
        weft_text_add(text, "x86-64");
        return;
    }
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &v.r[4 * i], &v.r[4 * i + 1], &v.r[4 * i + 2],
                         &v.r[4 * i + 3]))
            return;
    v.name[48] = '\0';
    size_t n = strlen(v.name), skip = strspn(v.name, " ");
    while (n > skip && v.name[n - 1] == ' ')
        n--;
    weft_text_add_bytes(text, v.name + skip, n - skip);
}

#else

cpu_isa cpu_isa_get(void)
{
    return CPU_ISA_GENERIC;
}
bool cpu_can_bf16(void)
{
    return false;
}
bool cpu_has_amx(void)
{
    return false;
}
bool cpu_may_use_amx(void)
{
    return false;
}
bool cpu_has_bf16(void)
{
    return false;
}
bool cpu_has_bf16_dots(void)
{
    return false;
}
void cpu_model_name(weft_text *text)
{
    weft_text_add(text, "unknown CPU");
}

#endif

const char *cpu_isa_name(cpu_isa isa)
{
    return isa == CPU_ISA_AVX512 ? "AVX-512" : isa == CPU_ISA_AVX2 ? "AVX2" : "no wide vectors";
}

const cpu_launchers *cpu_launchers_get(cpu_isa isa)
{
#if defined(__x86_64__) && defined(__GNUC__)
    cpu_isa have = cpu_isa_get();
    if (isa > have)
        isa = have;
    if (isa == CPU_ISA_AVX512)
        return &cpu_launchers_avx512;
    if (isa == CPU_ISA_AVX2)
        return &cpu_launchers_avx2;
#endif
    (void)isa;
    return &cpu_launchers_generic;
}

int cpu_threads(const weft_call *call)
{
    return call->threads > 0 ? call->threads : 1;
}

int cpu_threads_for(const weft_call *call, double operations)
{
    double grain = call->queue && call->queue->grain > 0 ? call->queue->grain : CPU_GRAIN;
    double shares = operations / grain;
    int threads = cpu_threads(call);
    return shares < 2 ? 1 : shares < threads ? (int)shares : threads;
}
