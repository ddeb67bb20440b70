/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management of the fake driver: physical memory by handle, reserved addresses, and
 * mappings between the two. What is mapped cannot be touched before access is set, by nobody: its
 * pages are the host's. Stricter than CUDA: a handle is mapped once, as a whole.
 *
 * WEFT_FAKE_CUDA_VIRTUAL  0: the GPU has no virtual memory management
 * WEFT_FAKE_CUDA_FABRIC   1: it has a fabric; 2: and may not export to it; 3: in other words
 * WEFT_FAKE_CUDA_VIRTUAL_REFUSE  the number of the call of all these that is refused */
#include "fake_driver.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { GRANULARITY = 2 << 20, RESERVED = 4096 /* what CUDA aligns addresses to by itself */ };

/* Physical memory: alive as long as its handle or a mapping. */
typedef struct physical {
    size_t bytes;
    bool released, mapped, exportable;
    struct physical *next;
} physical;

/* A range of addresses. */
typedef struct range {
    char *at;
    size_t bytes;
    physical *of; /* NULL: reserved only */
    bool accessible;
    struct range *next;
} range;

static physical *handles;
static range *ranges;

static CUresult refuse(const char *why)
{
    return fake_refuse(CUDA_ERROR_INVALID_VALUE, why);
}

static CUresult enter(void)
{
    static long calls;
    CUresult r = fake_enter_unsafe();
    pthread_mutex_lock(&fake.lock);
    const bool refused = ++calls == fake_number("WEFT_FAKE_CUDA_VIRTUAL_REFUSE", 0);
    pthread_mutex_unlock(&fake.lock);
    return r == CUDA_SUCCESS && refused
               ? fake_refuse(CUDA_ERROR_NOT_PERMITTED, "this call is refused, as it was told to")
               : r;
}

int fake_virtual_attribute(CUdevice_attribute attribute, int otherwise)
{
    const bool there = fake_number("WEFT_FAKE_CUDA_VIRTUAL", 1) != 0;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
        return there;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        return there && fake_number("WEFT_FAKE_CUDA_FABRIC", 0) > 0;
    default:
        return otherwise;
    }
}

/* Under the lock. */
static range *find(const void *memory, size_t bytes)
{
    const char *at = memory;
    range *r = ranges;
    while (r && (at < r->at || at + bytes > r->at + r->bytes))
        r = r->next;
    return r;
}

bool fake_virtual_begins(const void *memory, size_t alignment)
{
    pthread_mutex_lock(&fake.lock);
    const range *r = find(memory, 1);
    bool well = r && (uintptr_t)r->at % alignment == 0;
    pthread_mutex_unlock(&fake.lock);
    return well;
}

bool fake_virtual_owns(const void *memory, size_t bytes, bool exportable)
{
    pthread_mutex_lock(&fake.lock);
    const range *r = find(memory, bytes);
    bool owns = r && r->of && r->accessible && (!exportable || r->of->exportable);
    pthread_mutex_unlock(&fake.lock);
    return owns;
}

static const char *find_wrong(const CUmemAllocationProp *p)
{
    const int fabric = CU_MEM_HANDLE_TYPE_FABRIC, fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const int types = (int)p->requestedHandleTypes;
    return !fake_virtual_attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0)
               ? "no virtual memory management"
           : p->type != CU_MEM_ALLOCATION_TYPE_PINNED                ? "memory that is not pinned"
           : p->location.type != CU_MEM_LOCATION_TYPE_DEVICE         ? "memory of no device"
           : p->location.id < 0                                      ? "memory of no device"
           : p->location.id >= fake_number("WEFT_FAKE_CUDA_GPUS", 1) ? "a GPU that is not there"
           : types & ~(fabric | fd)                                  ? "an unknown type of handle"
           : (types & fabric) && fake_number("WEFT_FAKE_CUDA_FABRIC", 0) == 0 ? "no fabric"
                                                                              : NULL;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                              CUmemAllocationGranularity_flags option)
{
    CUresult r = enter();
    const char *wrong = find_wrong(prop);
    (void)option;
    *granularity = GRANULARITY;
    return r != CUDA_SUCCESS || !wrong ? r : refuse(wrong);
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                            const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult r = enter();
    const char *wrong = find_wrong(prop);
    *handle = 0;
    if (r != CUDA_SUCCESS)
        return r;
    if (wrong || flags || !bytes || bytes % GRANULARITY)
        return refuse(wrong ? wrong : "memory that is no multiple of the granularity");
    if (((int)prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) &&
        fake_number("WEFT_FAKE_CUDA_FABRIC", 0) >= 2)
        return fake_refuse(fake_number("WEFT_FAKE_CUDA_FABRIC", 0) == 2 ? CUDA_ERROR_NOT_PERMITTED
                                                                        : CUDA_ERROR_INVALID_VALUE,
                           "there is no channel of the fabric");
    if (bytes > (size_t)fake_number("WEFT_FAKE_CUDA_LARGEST", LONG_MAX))
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical *p = calloc(1, sizeof *p);
    *p = (physical){.bytes = bytes, .exportable = prop->requestedHandleTypes != 0};
    pthread_mutex_lock(&fake.lock);
    p->next = handles;
    handles = p;
    fake.handles++;
    pthread_mutex_unlock(&fake.lock);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    return r;
}

/* Under the lock; NULL: there is no such handle. */
static physical *find_handle(CUmemGenericAllocationHandle handle)
{
    physical *p = handles;
    while (p && (CUmemGenericAllocationHandle)(uintptr_t)p != handle)
        p = p->next;
    return p && !p->released ? p : NULL;
}

static void drop_if_unused(physical *p)
{
    physical **at = &handles;
    if (!p->released || p->mapped)
        return;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake.lock);
    physical *p = find_handle(handle);
    if (p) {
        p->released = true;
        fake.handles--;
        drop_if_unused(p);
    }
    pthread_mutex_unlock(&fake.lock);
    return p ? r : refuse("a handle is released that is none");
}

/* At a multiple of what is asked for, and not of more: as little as CUDA promises. */
static void *reserve(size_t bytes, size_t alignment)
{
    const size_t step = alignment > RESERVED ? alignment : RESERVED, more = bytes + 3 * step;
    char *all = mmap(NULL, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return all;
    char *at = all + (step - (uintptr_t)all % step);
    if ((uintptr_t)at % (2 * step) == 0)
        at += step;
    munmap(all, (size_t)(at - all));
    munmap(at + bytes, (size_t)(all + more - (at + bytes)));
    return at;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *memory, size_t bytes, size_t alignment,
                                    CUdeviceptr at, unsigned long long flags)
{
    CUresult r = enter();
    *memory = 0;
    if (r != CUDA_SUCCESS)
        return r;
    if (!bytes || bytes % RESERVED || (alignment & (alignment - 1)) || at || flags)
        return refuse("addresses that cannot be reserved");
    void *pages = reserve(bytes, alignment);
    if (pages == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range *made = calloc(1, sizeof *made);
    *made = (range){.at = pages, .bytes = bytes};
    pthread_mutex_lock(&fake.lock);
    made->next = ranges;
    ranges = made;
    fake.ranges++;
    pthread_mutex_unlock(&fake.lock);
    *memory = (CUdeviceptr)(uintptr_t)pages;
    return r;
}

/* Under the lock: the whole range, or NULL. */
static range *find_range(CUdeviceptr memory, size_t bytes)
{
    range *r = find((const void *)(uintptr_t)memory, bytes);
    return r && r->at == (const char *)(uintptr_t)memory && r->bytes == bytes ? r : NULL;
}

EXPORT CUresult cuMemMap(CUdeviceptr memory, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake.lock);
    range *at = find_range(memory, bytes);
    physical *p = find_handle(handle);
    bool well = at && !at->of && p && !p->mapped && p->bytes == bytes && !offset && !flags;
    if (well) {
        at->of = p;
        p->mapped = true;
        fake.memory++;
    }
    pthread_mutex_unlock(&fake.lock);
    return well ? r : refuse("a mapping that is not of a whole handle onto a whole reservation");
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr memory, size_t bytes, const CUmemAccessDesc *desc,
                               size_t count)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake.lock);
    range *at = find_range(memory, bytes);
    bool well = at && at->of && count == 1 && desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
                mprotect(at->at, at->bytes, PROT_READ | PROT_WRITE) == 0;
    if (well)
        at->accessible = true;
    pthread_mutex_unlock(&fake.lock);
    return well ? r : refuse("access is set to what is not mapped");
}

/* Does not wait, and takes away what is under way: so CUDA may. */
EXPORT CUresult cuMemUnmap(CUdeviceptr memory, size_t bytes)
{
    CUresult r = enter();
    if (r == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return r;
    pthread_mutex_lock(&fake.lock);
    range *at = find_range(memory, bytes);
    bool well = at && at->of && mprotect(at->at, at->bytes, PROT_NONE) == 0;
    if (well) {
        at->of->mapped = at->accessible = false;
        drop_if_unused(at->of);
        at->of = NULL;
        fake.memory--;
    }
    pthread_mutex_unlock(&fake.lock);
    return well ? r : refuse("what is not mapped is unmapped");
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr memory, size_t bytes)
{
    CUresult r = enter();
    if (r == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return r;
    pthread_mutex_lock(&fake.lock);
    range **at = &ranges, *found = find_range(memory, bytes);
    bool well = found && !found->of;
    if (well) {
        while (*at != found)
            at = &(*at)->next;
        *at = found->next;
        munmap(found->at, found->bytes);
        free(found);
        fake.ranges--;
    }
    pthread_mutex_unlock(&fake.lock);
    return well ? r : refuse("addresses are freed that are mapped, or not reserved");
}
