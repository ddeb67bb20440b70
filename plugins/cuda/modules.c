/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled kernels, in the plugin. */
#include "gpu.h"

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
