/* SPDX-License-Identifier: Apache-2.0 */
/* As much of NVIDIA's driver as cuDNN wants to see where it plans for a GPU that is not there:
 * kernels can be loaded, all else says that this is a stub. */

enum { SUCCESS = 0, STUB = 34 };

#define NOT_HERE(X)                                                                                \
    X(cuInit)                                                                                      \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxGetLimit)                                                                               \
    X(cuCtxPopCurrent)                                                                             \
    X(cuCtxPushCurrent)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetCount)                                                                            \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuLaunchCooperativeKernel)                                                                   \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchKernelEx)                                                                            \
    X(cuLibraryLoadFromFile)                                                                       \
    X(cuLinkAddData)                                                                               \
    X(cuLinkComplete)                                                                              \
    X(cuLinkCreate)                                                                                \
    X(cuLinkDestroy)                                                                               \
    X(cuModuleGetFunction)                                                                         \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuOccupancyMaxPotentialClusterSize)                                                          \
    X(cuStreamGetCtx)                                                                              \
    X(cuTensorMapEncodeIm2col)                                                                     \
    X(cuTensorMapEncodeTiled)
#define DONE(X)                                                                                    \
    X(cuLibraryUnload) X(cuKernelGetAttribute) X(cuKernelGetFunction) X(cuKernelSetAttribute)

#define STUB_OF(name)                                                                              \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return STUB;                                                                               \
    }
#define SUCCESS_OF(name)                                                                           \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return SUCCESS;                                                                            \
    }
NOT_HERE(STUB_OF)
DONE(SUCCESS_OF)

static int somewhere;

int cuLibraryLoadData(void **library);
int cuLibraryLoadData(void **library)
{
    *library = &somewhere;
    return SUCCESS;
}

int cuLibraryGetKernel(void **kernel);
int cuLibraryGetKernel(void **kernel)
{
    *kernel = &somewhere;
    return SUCCESS;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return STUB;
}
