/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's libraries, opened at run time. */
#include "gpu.h"

#include <dlfcn.h>
#include <string.h>

weft_status cuda_library_open(void **handle, const char *library, const char *what,
                              const char *remedy, weft_error *err)
{
    *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (*handle)
        return WEFT_OK;
    const char *why = dlerror();
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "the device cuda needs %s, %s, which cannot be opened: %s. It was looked for "
                     "%s. %s",
                     what, library, why ? why : "no reason is given",
                     strchr(library, '/') ? "there alone"
                                          : "in the folders of LD_LIBRARY_PATH and the system's",
                     remedy);
}

weft_status cuda_library_find(void *handle, const char *library, const char *symbol, void **found,
                              weft_error *err)
{
    *found = dlsym(handle, symbol);
    if (*found)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "the device cuda needs %s, which %s does not have: it is too old; this weft "
                     "needs one of CUDA %d or later",
                     symbol, library, CUDA_VERSION / 1000);
}

/* The name of a function behind the macros of cuda.h. */
#define NAME(function)  NAME_(function)
#define NAME_(function) #function

weft_status cuda_driver_open(cuda_driver *driver, const char *library, weft_error *err)
{
    static const char *const names[] = {
#define CUDA_NAME(function) NAME(function),
        CUDA_DRIVER_FUNCTIONS(CUDA_NAME)
#undef CUDA_NAME
    };
    void *handle, *found[sizeof names / sizeof *names];
    weft_status s = cuda_library_open(&handle, library, "NVIDIA's driver",
                                      "It comes with the driver, not with the toolkit: install "
                                      "that, or list cpu instead of cuda",
                                      err);
    for (size_t i = 0; i < sizeof names / sizeof *names && !s; i++)
        s = cuda_library_find(handle, library, names[i], &found[i], err);
    /* All fields are pointers to functions, in the order of the names. */
    _Static_assert(sizeof found == sizeof *driver, "a field of cuda_driver has no name");
    if (!s)
        memcpy(driver, found, sizeof found);
    return s;
}
