/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake driver refuses, as CUDA's own does: by it the rest of the tests are worth
 * something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cuda_driver d;
static CUcontext context;
static CUstream first, second;
static CUdeviceptr memory;
static CUevent event;

enum { BYTES = 4096 };

static unsigned char *seen(void)
{
    static unsigned char host[BYTES];
    assert_int_equal(d.cuMemcpyDtoHAsync(host, memory, BYTES, first), CUDA_SUCCESS);
    assert_int_equal(d.cuStreamSynchronize(first), CUDA_SUCCESS);
    return host;
}

static int open_driver(void **state)
{
    const char *build = getenv("WEFT_BUILD");
    char path[1024];
    (void)state;
    snprintf(path, sizeof path, "%s/plugins/cuda/test/libfakecuda.so", build ? build : ".");
    return cuda_driver_open(&d, path, NULL) || d.cuInit(0) ||
           d.cuStreamCreateWithPriority(&first, 0, 0) == 0 ||
           d.cuDevicePrimaryCtxRetain(&context, 0) || d.cuCtxSetCurrent(context) ||
           d.cuStreamCreateWithPriority(&first, CU_STREAM_NON_BLOCKING, 0) ||
           d.cuStreamCreateWithPriority(&second, CU_STREAM_NON_BLOCKING, -5) ||
           d.cuMemAlloc(&memory, BYTES) || d.cuMemsetD8Async(memory, 0, BYTES, first) ||
           d.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
}

static int close_driver(void **state)
{
    (void)state;
    return d.cuEventDestroy(event) || d.cuMemFree(memory) || d.cuStreamDestroy(second) ||
           d.cuStreamDestroy(first) || d.cuDevicePrimaryCtxRelease(0);
}

static void *allocate(void *result)
{
    CUdeviceptr p;
    *(CUresult *)result = d.cuMemAlloc(&p, BYTES);
    return NULL;
}

static void test_a_thread_without_a_context(void **state)
{
    pthread_t thread;
    CUresult r = CUDA_SUCCESS;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, allocate, &r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(r, CUDA_ERROR_INVALID_CONTEXT);
}

static void test_memory_that_is_not_there(void **state)
{
    char host[BYTES + 1] = {0};
    (void)state;
    assert_int_equal(d.cuMemcpyHtoDAsync(memory, host, BYTES + 1, first), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemcpyHtoDAsync(memory + 1, host, BYTES, first), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemFree(memory + 256), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuStreamWriteValue64(first, (CUdeviceptr)(uintptr_t)host, 1, 0),
                     CUDA_ERROR_INVALID_VALUE);
}

static void test_launches_beyond_limits(void **state)
{
    static const unsigned char image[] = {0x50, 0xed, 0x55, 0xba};
    static cuda_move_args args;
    void *list[] = {&args};
    CUmodule module;
    CUfunction f;
    (void)state;
    assert_int_equal(d.cuModuleLoadData(&module, image), CUDA_SUCCESS);
    assert_int_equal(d.cuModuleGetFunction(&f, module, "weft_move"), CUDA_SUCCESS);
    assert_int_equal(d.cuLaunchKernel(f, 1, 65536, 1, 256, 1, 1, 0, first, list, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, first, list, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuLaunchKernel(f, 0, 1, 1, 256, 1, 1, 0, first, list, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuLaunchKernel(f, 1, 1, 1, 256, 1, 1, 64 << 10, first, list, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        d.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 128 << 10),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuModuleUnload(module), CUDA_SUCCESS);
}

/* ---- virtual memory management ---- */

enum { PAGE = 2 << 20 };
static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .requestedHandleTypes =
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static void test_physical_memory(void **state)
{
    CUmemAllocationProp fabric = prop, elsewhere = prop;
    CUmemGenericAllocationHandle handle;
    size_t granularity = 0;
    (void)state;
    fabric.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    elsewhere.location.id = 1;
    assert_int_equal(
        d.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        CUDA_SUCCESS);
    assert_int_equal(granularity, PAGE);
    assert_int_equal(d.cuMemCreate(&handle, PAGE + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemCreate(&handle, PAGE, &fabric, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemCreate(&handle, PAGE, &elsewhere, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemCreate(&handle, PAGE, &prop, 0), CUDA_SUCCESS);
    assert_int_equal(d.cuMemRelease(handle), CUDA_SUCCESS);
    assert_int_equal(d.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

static void test_mappings_have_an_order(void **state)
{
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    (void)state;
    assert_int_equal(d.cuMemCreate(&handle, PAGE, &prop, 0), CUDA_SUCCESS);
    assert_int_equal(d.cuMemMap(memory, PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemAddressReserve(&p, PAGE, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(d.cuMemSetAccess(p, PAGE, &access, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemUnmap(p, PAGE), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemMap(p, PAGE, 0, handle, 0), CUDA_SUCCESS);
    assert_int_equal(d.cuMemRelease(handle), CUDA_SUCCESS);
    assert_int_equal(d.cuMemsetD8Async(p, 1, PAGE, first), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemSetAccess(p, PAGE, &access, 1), CUDA_SUCCESS);
    assert_int_equal(d.cuMemsetD8Async(p, 1, PAGE, first), CUDA_SUCCESS);
    assert_int_equal(d.cuStreamSynchronize(first), CUDA_SUCCESS);
    assert_int_equal(d.cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemAddressFree(p, PAGE), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemUnmap(p, PAGE / 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemUnmap(p, PAGE), CUDA_SUCCESS);
    assert_int_equal(d.cuMemsetD8Async(p, 1, PAGE, first), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(d.cuMemAddressFree(p, PAGE), CUDA_SUCCESS);
    assert_int_equal(d.cuMemAddressFree(p, PAGE), CUDA_ERROR_INVALID_VALUE);
}

/* ---- captures ---- */

static void begin(void)
{
    assert_int_equal(d.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                     CUDA_SUCCESS);
}

/* How it ends, and that there is no graph unless it ends well. */
static CUresult end(CUgraph *graph)
{
    CUresult r = d.cuStreamEndCapture(first, graph);
    assert_int_equal(*graph != NULL, r == CUDA_SUCCESS);
    return r;
}

static void fork_and_join(bool joins)
{
    assert_int_equal(d.cuEventRecord(event, first), CUDA_SUCCESS);
    assert_int_equal(d.cuStreamWaitEvent(second, event, 0), CUDA_SUCCESS);
    assert_int_equal(d.cuMemsetD8Async(memory, 2, BYTES, second), CUDA_SUCCESS);
    assert_int_equal(d.cuMemsetD8Async(memory, 3, BYTES, first), CUDA_SUCCESS);
    if (!joins)
        return;
    assert_int_equal(d.cuEventRecord(event, second), CUDA_SUCCESS);
    assert_int_equal(d.cuStreamWaitEvent(first, event, 0), CUDA_SUCCESS);
}

static void test_captures_in_which_somebody_asks(void **state)
{
    CUdeviceptr p;
    CUgraph graph;
    (void)state;
    begin();
    assert_int_equal(d.cuMemAlloc(&p, BYTES), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(end(&graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin();
    assert_int_equal(d.cuStreamSynchronize(first), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(end(&graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin();
    assert_int_equal(d.cuStreamQuery(second), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(end(&graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void test_captures_and_events_from_outside(void **state)
{
    CUgraph graph;
    (void)state;
    assert_int_equal(d.cuEventRecord(event, second), CUDA_SUCCESS);
    begin();
    assert_int_equal(d.cuStreamWaitEvent(first, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    assert_int_equal(end(&graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin();
    assert_int_equal(d.cuEventRecord(event, first), CUDA_SUCCESS);
    assert_int_equal(end(&graph), CUDA_SUCCESS);
    assert_int_equal(d.cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(d.cuStreamWaitEvent(second, event, 0), CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(d.cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(d.cuEventRecord(event, second), CUDA_SUCCESS);
    assert_int_equal(d.cuStreamWaitEvent(first, event, 0), CUDA_SUCCESS);
}

static void test_captures_that_do_not_join(void **state)
{
    CUgraph graph;
    (void)state;
    begin();
    fork_and_join(false);
    assert_int_equal(end(&graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_int_equal(d.cuMemsetD8Async(memory, 0, BYTES, second), CUDA_SUCCESS);
    assert_int_equal(d.cuStreamSynchronize(second), CUDA_SUCCESS);
}

static void test_nodes_without_an_edge_have_no_order(void **state)
{
    CUgraph graph;
    CUgraphExec exec;
    bool was[4] = {false};
    (void)state;
    begin();
    fork_and_join(true);
    assert_int_equal(d.cuMemsetD8Async(memory, 1, 1, first), CUDA_SUCCESS);
    assert_int_equal(end(&graph), CUDA_SUCCESS);
    assert_int_equal(d.cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(d.cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(seen()[0], 0); /* nothing has been done yet */
    for (int i = 0; i < 64; i++) {
        assert_int_equal(d.cuGraphLaunch(exec, first), CUDA_SUCCESS);
        assert_int_equal(seen()[0], 1); /* what comes behind both */
        was[seen()[1]] = true;
    }
    assert_int_equal(d.cuGraphLaunch(exec, first), CUDA_SUCCESS);
    assert_int_equal(d.cuGraphExecDestroy(exec), CUDA_SUCCESS); /* while it is under way */
    assert_int_equal(seen()[0], 1);
    assert_true(was[2] && was[3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_without_a_context),
        cmocka_unit_test(test_memory_that_is_not_there),
        cmocka_unit_test(test_launches_beyond_limits),
        cmocka_unit_test(test_physical_memory),
        cmocka_unit_test(test_mappings_have_an_order),
        cmocka_unit_test(test_captures_in_which_somebody_asks),
        cmocka_unit_test(test_captures_and_events_from_outside),
        cmocka_unit_test(test_captures_that_do_not_join),
        cmocka_unit_test(test_nodes_without_an_edge_have_no_order),
    };
    alarm(60);
    return cmocka_run_group_tests_name("fake_driver", tests, open_driver, close_driver);
}
