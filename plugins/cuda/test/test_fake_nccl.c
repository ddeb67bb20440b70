/* SPDX-License-Identifier: Apache-2.0 */
/* What windows of the fake NCCL refuse, between two processes: by it the runs with windows are
 * worth something. In which order it sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gpu.h"

#include "../../nccl/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 2 << 20, COUNT = 1024 };
enum { WELL, NO_DRIVER, NO_COMMUNICATOR, NO_WINDOW, NO_SUM, OTHER };

static cuda_driver d;
static nccl_api n;
static CUstream stream;
static nccl_comm_t comm;
static char folder[] = "/tmp/weft-fake-nccl-XXXXXX";

/* ---- one rank, in a process of its own: results are exit codes ---- */

static int settle(int result)
{
    while (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
        int asked = n.ncclCommGetAsyncError(comm, &result);
        if (asked || result != NCCL_IN_PROGRESS)
            return asked ? asked : result;
        usleep(1000);
    }
    return result;
}

/* What both are in is an error when the streams come to it. */
static int finish(int result)
{
    for (int i = 0; i < 2000 && (result = settle(result)) == NCCL_SUCCESS; i++) {
        if (d.cuStreamQuery(stream) == CUDA_SUCCESS)
            return NCCL_SUCCESS;
        usleep(1000);
    }
    return result;
}

static char *allocate_at(bool exportable, size_t alignment)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p = 0;
    bool well = d.cuMemCreate(&handle, PAGE, &prop, 0) == CUDA_SUCCESS &&
                d.cuMemAddressReserve(&p, PAGE, alignment, 0, 0) == CUDA_SUCCESS &&
                d.cuMemMap(p, PAGE, 0, handle, 0) == CUDA_SUCCESS &&
                d.cuMemSetAccess(p, PAGE, &access, 1) == CUDA_SUCCESS;
    return well ? (char *)(uintptr_t)p : NULL;
}

static char *allocate(bool exportable)
{
    return allocate_at(exportable, PAGE);
}

static int begin(int rank)
{
    nccl_config config = NCCL_CONFIG_NON_BLOCKING;
    nccl_id id = {{0}};
    CUcontext context;
    char path[1024];
    const char *build = getenv("WEFT_BUILD");
    snprintf(path, sizeof path, "%s/plugins/cuda/test/libfakecuda.so", build ? build : ".");
    if (cuda_driver_open(&d, path, NULL) || nccl_api_open(&n, path, NULL) || d.cuInit(0) ||
        d.cuDevicePrimaryCtxRetain(&context, 0) || d.cuCtxSetCurrent(context) ||
        d.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0))
        return NO_DRIVER;
    snprintf(id.bytes, sizeof id.bytes, "%s/c", folder);
    return settle(n.ncclCommInitRankConfig(&comm, 2, id, rank, &config)) ? NO_COMMUNICATOR : WELL;
}

/* The sum of both ranks' numbers, COUNT of them `offset` behind the window's head. */
static int sum_at(char *memory, size_t offset)
{
    float *at = (float *)(void *)(memory + offset);
    for (int i = 0; i < COUNT; i++)
        at[i] = (float)i;
    int r = finish(n.ncclAllReduce(at, at, COUNT, NCCL_F32, NCCL_SUM, comm, stream));
    return r ? r : at[COUNT - 1] == 2.0F * (COUNT - 1) ? NCCL_SUCCESS : NCCL_INTERNAL_ERROR;
}

static int equal_places(int rank)
{
    char *memory = allocate(true);
    void *window = NULL;
    (void)rank;
    int r = n.ncclCommWindowRegister(comm, memory, PAGE, &window, NCCL_SYMMETRIC);
    if (r != NCCL_IN_PROGRESS || window || settle(r) || !window)
        return NO_WINDOW;
    if (sum_at(memory, 4096))
        return NO_SUM;
    return n.ncclCommDestroy(comm) != NCCL_INVALID_USAGE || /* the window is still there */
                   n.ncclCommWindowDeregister(comm, window) ||
                   !n.ncclCommWindowDeregister(comm, window)
               ? OTHER
               : WELL;
}

static int other_places(int rank)
{
    char *memory = allocate(true);
    void *window = NULL;
    if (settle(n.ncclCommWindowRegister(comm, memory, PAGE, &window, NCCL_SYMMETRIC)))
        return NO_WINDOW;
    if (sum_at(memory, rank ? 8192 : 4096) != NCCL_INVALID_USAGE)
        return NO_SUM;
    return strstr(n.ncclGetLastError(comm), "different places of a window") ? WELL : OTHER;
}

static int other_sizes(int rank)
{
    char *memory = allocate(true);
    void *window = NULL;
    int r = n.ncclCommWindowRegister(comm, memory, rank ? PAGE : PAGE / 2, &window, NCCL_SYMMETRIC);
    return settle(r) == NCCL_SUCCESS || window ? NO_WINDOW : WELL;
}

static int other_memory(int rank)
{
    CUdeviceptr plain = 0;
    void *window = NULL;
    char *closed = allocate(false), *open = allocate(true), *askew = allocate_at(true, 0);
    (void)rank;
    if (d.cuMemAlloc(&plain, PAGE) || !closed || !open || !askew)
        return OTHER;
    return n.ncclCommWindowRegister(comm, (void *)(uintptr_t)plain, PAGE, &window, 1) &&
                   n.ncclCommWindowRegister(comm, closed, PAGE, &window, 1) &&
                   n.ncclCommWindowRegister(comm, askew, PAGE, &window, 1) &&
                   n.ncclCommWindowRegister(comm, open + 256, 4096, &window, 1) &&
                   n.ncclCommWindowRegister(comm, open, PAGE, &window, 0) &&
                   n.ncclCommWindowRegister(comm, open, 2 * PAGE, &window, 1)
               ? WELL
               : NO_WINDOW;
}

/* Without the other rank there is none, however long one waits. */
static int one_rank_alone(int rank)
{
    char *memory = allocate(true);
    void *window = NULL;
    int r =
        rank ? NCCL_SUCCESS : n.ncclCommWindowRegister(comm, memory, PAGE, &window, NCCL_SYMMETRIC);
    for (int i = 0; i < 50 && !rank; i++) {
        if (n.ncclCommGetAsyncError(comm, &r) || r != NCCL_IN_PROGRESS || window)
            return NO_WINDOW;
        usleep(1000);
    }
    if (!rank && sum_at(memory, 0) != NCCL_INVALID_USAGE)
        return OTHER;
    return WELL;
}

/* Two shifts of equal size, one behind the other: what is received first is what was sent first,
 * though the second may be under way. */
static int shifts_in_order(int rank)
{
    enum { SHIFTS = 3 };
    float *memory = (float *)(void *)allocate(false);
    const int other = 1 - rank;
    for (int k = 0; memory && k < SHIFTS; k++)
        for (int i = 0; i < COUNT; i++)
            memory[k * COUNT + i] = (float)(100 * rank + 10 * k);
    for (int k = 0; memory && k < SHIFTS; k++) {
        float *sent = memory + k * COUNT, *got = memory + (SHIFTS + k) * COUNT;
        int r = n.ncclGroupStart();
        r = r ? r : n.ncclSend(sent, COUNT, NCCL_F32, other, comm, stream);
        r = r ? r : n.ncclRecv(got, COUNT, NCCL_F32, other, comm, stream);
        const int ended = n.ncclGroupEnd();
        if (r || (ended && ended != NCCL_IN_PROGRESS) || settle(ended))
            return OTHER;
    }
    if (!memory || finish(NCCL_SUCCESS))
        return OTHER;
    for (int k = 0; k < SHIFTS; k++)
        for (int i = 0; i < COUNT; i += COUNT - 1)
            if (memory[(SHIFTS + k) * COUNT + i] != (float)(100 * other + 10 * k))
                return NO_SUM;
    return WELL;
}

/* ---- both ---- */

static void run(int (*rank)(int))
{
    pid_t pids[2];
    char command[256];
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            alarm(30);
            int code = begin(i);
            _exit(code ? code : rank(i));
        }
    }
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), WELL);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

static void test_equal_places(void **state)
{
    (void)state;
    run(equal_places);
}

static void test_other_places(void **state)
{
    (void)state;
    run(other_places);
}

static void test_other_sizes(void **state)
{
    (void)state;
    run(other_sizes);
}

static void test_other_memory(void **state)
{
    (void)state;
    run(other_memory);
}

static void test_one_rank_alone(void **state)
{
    (void)state;
    run(one_rank_alone);
}

static void test_shifts_in_order(void **state)
{
    (void)state;
    run(shifts_in_order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_places),   cmocka_unit_test(test_other_places),
        cmocka_unit_test(test_other_sizes),    cmocka_unit_test(test_other_memory),
        cmocka_unit_test(test_one_rank_alone), cmocka_unit_test(test_shifts_in_order),
    };
    alarm(120);
    return cmocka_run_group_tests_name("fake_nccl", tests, NULL, NULL);
}
