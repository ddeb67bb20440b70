/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled kernels, in the plugin. */
#include "gpu.h"

#include <string.h>

/* CUDA_FATBINS: the folder that the build puts them into. */
#define EMBED(file)                                                                                \
    __asm__(".section .rodata\n"                                                                   \
            ".balign 64\n"                                                                         \
            ".hidden weft_fatbin_" #file "\n"                                                      \
            ".globl weft_fatbin_" #file "\n"                                                       \
            "weft_fatbin_" #file ":\n"                                                             \
            ".incbin \"" CUDA_FATBINS "/" #file ".fatbin\"\n"                                      \
            ".balign 8\n"                                                                          \
            ".previous\n");                                                                        \
    extern const unsigned char weft_fatbin_##file[];
CUDA_FILES(EMBED)
#undef EMBED

const cuda_module_image cuda_module_images[] = {
#define ENTRY(name) {#name, weft_fatbin_##name},
    CUDA_FILES(ENTRY)
#undef ENTRY
        {NULL, NULL},
};

/* The most that a kernel asks for: attention of the largest heads. */
enum { MOST_SHARED = 96 << 10 };

/* Loaded now: at its first launch that might wait for the GPU, and what that does may wait for
 * another rank. */
static weft_status load(const cuda_driver *d, cuda_kernel k, CUfunction function, const char *name,
                        weft_error *err)
{
    int most = 0;
    weft_status s = cuda_check(d, d->cuFuncLoad(function), name, err);
    if (!s)
        s = cuda_check(
            d, d->cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function),
            name, err);
    if (s || most >= cuda_kernel_threads(k))
        return s;
    return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                     "%s: blocks have %d threads, and on this GPU %d at most", name,
                     cuda_kernel_threads(k), most);
}

static weft_status find_kernel(const cuda_driver *d, const CUmodule *modules, cuda_kernel k,
                               CUfunction *function, weft_error *err)
{
    char name[64] = "weft_";
    int m = 0;
    strncat(name, cuda_kernel_name(k), sizeof name - strlen(name) - 1);
    while (strcmp(cuda_module_images[m].file, cuda_kernel_file(k)) != 0)
        m++;
    weft_status s = cuda_check(d, d->cuModuleGetFunction(function, modules[m], name), name, err);
    s = s ? s : load(d, k, *function, name, err);
    if (s || strncmp(name, "weft_attention_", strlen("weft_attention_")) != 0)
        return s;
    return cuda_check(d,
                      d->cuFuncSetAttribute(*function,
                                            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                            cuda_kernel_threads(k) == 128 ? MOST_SHARED : 0),
                      name, err);
}

weft_status cuda_kernels_load(const cuda_driver *driver, CUmodule *modules, CUfunction *functions,
                              weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; cuda_module_images[i].file && !s; i++)
        s = cuda_check(driver, driver->cuModuleLoadData(&modules[i], cuda_module_images[i].image),
                       "cuModuleLoadData of weft's kernels", err);
    for (int k = 0; k < CUDA_N_KERNELS && !s; k++)
        s = find_kernel(driver, modules, (cuda_kernel)k, &functions[k], err);
    return s;
}
