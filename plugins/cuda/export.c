/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that other processes can map, for [cuda] memory = exportable: physical memory whose handle
 * can be exported, mapped at addresses that were reserved for it, whole pieces at a time. */
#include "device.h"

/* An older driver does not know them all. */
static bool has(const cuda *c, CUdevice_attribute attribute)
{
    int value = 0;
    return c->driver.cuDeviceGetAttribute(&value, attribute, c->number) == CUDA_SUCCESS && value;
}

static weft_status check_support(const cuda *c, weft_error *err)
{
    static const struct {
        CUdevice_attribute attribute;
        const char *what;
    } needed[] = {{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                   "virtual memory management by CUDA"},
                  {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                   "memory that is exported as a file descriptor"}};
    weft_status s = WEFT_OK;
    for (size_t i = 0; i < sizeof needed / sizeof *needed && !s; i++) {
        int value = 0;
        s = cuda_check(&c->driver,
                       c->driver.cuDeviceGetAttribute(&value, needed[i].attribute, c->number),
                       "cuDeviceGetAttribute", err);
        if (!s && !value)
            return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(c->host->params, "memory"),
                             "[cuda] memory = exportable needs %s, which this GPU and its driver "
                             "do not have; leave it at plain",
                             needed[i].what);
    }
    return s;
}

weft_status cuda_export_open(cuda *c, weft_error *err)
{
    CUmemAllocationProp *p = &c->export;
    weft_status s = c->exports ? check_support(c, err) : WEFT_OK;
    if (s || !c->exports)
        return s;
    *p = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                               .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)c->number}};
    p->allocFlags.gpuDirectRDMACapable =
        has(c, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
#if CUDA_VERSION >= 12030
    if (has(c, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED))
        p->requestedHandleTypes |= CU_MEM_HANDLE_TYPE_FABRIC;
#endif
    return cuda_check(&c->driver,
                      c->driver.cuMemGetAllocationGranularity(&c->granularity, p,
                                                              CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                      "cuMemGetAllocationGranularity", err);
}

/* A GPU with a fabric refuses to export to it where the machine has not set one up, each driver in
 * its own words: then from now on nothing is. */
static CUresult create(cuda *c, size_t room, CUmemGenericAllocationHandle *handle)
{
    const CUmemAllocationHandleType plain = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUresult r = c->driver.cuMemCreate(handle, room, &c->export, 0);
    if ((r != CUDA_ERROR_NOT_PERMITTED && r != CUDA_ERROR_NOT_SUPPORTED &&
         r != CUDA_ERROR_INVALID_VALUE) ||
        c->export.requestedHandleTypes == plain)
        return r;
    c->export.requestedHandleTypes = plain;
    return c->driver.cuMemCreate(handle, room, &c->export, 0);
}

static size_t room_for(const cuda *c, size_t bytes)
{
    return (bytes + c->granularity - 1) / c->granularity * c->granularity;
}

CUresult cuda_export_alloc(cuda *c, size_t bytes, CUdeviceptr *memory, const char **what)
{
    const cuda_driver *d = &c->driver;
    const CUmemAccessDesc mine = {c->export.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const size_t room = room_for(c, bytes);
    CUmemGenericAllocationHandle handle;
    *what = "cuMemCreate";
    CUresult r = create(c, room, &handle);
    if (r != CUDA_SUCCESS)
        return r;
    *what = "cuMemAddressReserve";
    if ((r = d->cuMemAddressReserve(memory, room, c->granularity, 0, 0)) != CUDA_SUCCESS)
        goto no_addresses;
    *what = "cuMemMap";
    if ((r = d->cuMemMap(*memory, room, 0, handle, 0)) != CUDA_SUCCESS)
        goto not_mapped;
    *what = "cuMemSetAccess";
    if ((r = d->cuMemSetAccess(*memory, room, &mine, 1)) != CUDA_SUCCESS)
        goto no_access;
    *what = "cuMemRelease"; /* the memory stays as long as it is mapped somewhere */
    if ((r = d->cuMemRelease(handle)) == CUDA_SUCCESS)
        return r;
no_access:
    d->cuMemUnmap(*memory, room);
not_mapped:
    d->cuMemAddressFree(*memory, room);
no_addresses:
    d->cuMemRelease(handle);
    return r;
}

void cuda_export_free(cuda *c, CUdeviceptr memory, size_t bytes)
{
    cuda_wait(c, NULL); /* unlike cuMemFree, cuMemUnmap does not promise to */
    c->driver.cuMemUnmap(memory, room_for(c, bytes));
    c->driver.cuMemAddressFree(memory, room_for(c, bytes));
}
