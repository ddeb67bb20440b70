/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <dlfcn.h>
#include <string.h>

/* In the order of the table. */
static const char *const names[] = {"ncclGetVersion",
                                    "ncclGetErrorString",
                                    "ncclGetLastError",
                                    "ncclGetUniqueId",
                                    "ncclCommInitRankConfig",
                                    "ncclCommSplit",
                                    "ncclCommGetAsyncError",
                                    "ncclCommFinalize",
                                    "ncclCommDestroy",
                                    "ncclCommAbort",
                                    "ncclGroupStart",
                                    "ncclGroupEnd",
                                    "ncclAllGather",
                                    "ncclReduceScatter",
                                    "ncclAllReduce",
                                    "ncclBroadcast",
                                    "ncclSend",
                                    "ncclRecv",
                                    "ncclCommRegister",
                                    "ncclCommDeregister",
                                    "ncclCommWindowRegister",
                                    "ncclCommWindowDeregister"};
enum { NEWER = 2 /* of them, the last ones, need not be there */ };

weft_status nccl_api_open(nccl_api *api, const char *library, weft_error *err)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *found[sizeof names / sizeof *names];
    _Static_assert(sizeof found == sizeof *api, "a function of nccl_api has no name");
    if (!handle) {
        const char *why = dlerror();
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the transport nccl needs NVIDIA's NCCL, %s, which cannot be opened: %s. "
                         "It was looked for %s. Install it (Debian, Ubuntu: libnccl2; PyPI: "
                         "nvidia-nccl-cu13), or say where it is: [nccl] library",
                         library, why ? why : "no reason is given",
                         strchr(library, '/') ? "there alone"
                                              : "in the folders of LD_LIBRARY_PATH and the "
                                                "system's");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found[i] = dlsym(handle, names[i]);
        if (!found[i] && i + NEWER < sizeof names / sizeof *names)
            return weft_fail(
                err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                "the transport nccl needs %s, which %s does not have: it is not NCCL 2.22 or later",
                names[i], library);
    }
    memcpy(api, found, sizeof found);
    return WEFT_OK;
}
