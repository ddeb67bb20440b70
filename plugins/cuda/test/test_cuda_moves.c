/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes moved by the driver's calls and by the kernel, against the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake.h"

#include <string.h>
#include <sys/mman.h>

static struct {
    cuda_driver driver; /* the fake's, whose calls are counted */
    int launches, copies, fills;
} gpu;

static CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                       void **extra)
{
    gpu.launches++;
    return fake_driver()->cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    gpu.copies++;
    return fake_driver()->cuMemcpyDtoDAsync(to, from, bytes, stream);
}

static CUresult fill(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    gpu.fills++;
    return fake_driver()->cuMemsetD8Async(to, value, bytes, stream);
}

static void move(const weft_box *box, int launches, int copies, int fills)
{
    weft_error err = {0};
    gpu.driver = *fake_driver();
    gpu.driver.cuLaunchKernel = launch;
    gpu.driver.cuMemcpyDtoDAsync = copy;
    gpu.driver.cuMemsetD8Async = fill;
    gpu.launches = gpu.copies = gpu.fills = 0;
    const weft_queue queue = {.driver = &gpu.driver, .functions = fake_functions()};
    if (cuda_box_move(&queue, box, &err))
        fail_msg("%s", weft_error_text(&err));
    if (launches < 0)
        return;
    assert_int_equal(gpu.launches, launches);
    assert_int_equal(gpu.copies, copies);
    assert_int_equal(gpu.fills, fills);
}

/* Dense on both sides, whatever its dims: one call of the driver. */
static void test_one_run(void **state)
{
    static unsigned char from[3][1][4][8], to[sizeof from];
    (void)state;
    for (size_t i = 0; i < sizeof from; i++)
        ((unsigned char *)from)[i] = (unsigned char)(i * 7);
    weft_box b = weft_box_of(to, from, 8);
    b.n[0] = 3, b.n[2] = 4;
    b.from_stride[0] = b.to_stride[0] = 32;
    b.from_stride[2] = b.to_stride[2] = 8;
    move(&b, 0, 1, 0);
    assert_memory_equal(from, to, sizeof from);
    b.from = NULL;
    move(&b, 0, 0, 1);
    memset(from, 0, sizeof from);
    assert_memory_equal(from, to, sizeof from);
    b.n[2] = 0;
    move(&b, 0, 0, 0);
    b.n[2] = 4, b.bytes = 0;
    move(&b, 0, 0, 0);
    /* what has gaps on one side alone is none */
    b.bytes = 8, b.to_stride[0] = 64, b.n[0] = 1;
    move(&b, 0, 0, 1);
    b.n[2] = 2, b.to_stride[2] = 16;
    move(&b, 1, 0, 0);
}

static uint32_t seed = 1;
static int throw(int sides)
{
    seed = seed * 1103515245 + 12345;
    return (int)(seed >> 16) % sides;
}

/* Strides of a side: dims in any order, with gaps or none. */
static void lay(const weft_box *b, int64_t *stride, int unit)
{
    int order[WEFT_BOX_DIMS] = {0, 1, 2, 3};
    int64_t step = b->bytes + (throw(2) ? unit * throw(3) : 0);
    for (int i = throw(2) ? WEFT_BOX_DIMS - 1 : 0; i > 0; i--) {
        int k = throw(i + 1), was = order[i];
        order[i] = order[k], order[k] = was;
    }
    for (int i = WEFT_BOX_DIMS - 1; i >= 0; i--) {
        int d = order[i];
        stride[d] = b->n[d] == 1 ? 0 : step;
        step *= b->n[d];
        step += throw(3) ? 0 : unit * throw(4);
    }
}

enum { ROOM = 1 << 17 };

static void test_random_boxes(void **state)
{
    static _Alignas(16) unsigned char from[ROOM], to[ROOM], want[ROOM];
    static const int units[] = {1, 2, 4, 16};
    int by_driver = 0, by_kernel = 0;
    (void)state;
    for (int i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 31 >> 3);
    for (int i = 0; i < 600; i++) {
        const int unit = units[throw(4)];
        weft_box b = {.bytes = (int64_t)unit * (1 + throw(5))};
        for (int d = 0; d < WEFT_BOX_DIMS; d++)
            b.n[d] = throw(3) ? 1 + throw(5) : 1;
        lay(&b, b.to_stride, unit);
        memcpy(b.from_stride, b.to_stride, sizeof b.to_stride);
        if (throw(3))
            lay(&b, b.from_stride, unit);
        const int at_to = unit * throw(3), at_from = unit * throw(3);
        b.from = throw(5) ? from + at_from : NULL;
        memset(to, 0x5a, sizeof to);
        memcpy(want, to, sizeof to);
        b.to = want + at_to;
        weft_boxes_move(&b, 1);
        b.to = to + at_to;
        move(&b, -1, 0, 0);
        assert_memory_equal(to, want, sizeof to);
        by_driver += gpu.copies + gpu.fills;
        by_kernel += gpu.launches;
    }
    assert_int_equal(by_driver + by_kernel, 600);
    assert_true(by_driver > 50 && by_kernel > 200);
}

static unsigned char *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* The last of the most words whose divisions are prepared, and of more; in each the last block has
 * it, of 2^14 with 256 threads. */
static void test_far(void **state)
{
    enum { RUN = 3, GAP = 4 };
    static const int64_t rows[] = {INT32_MAX / RUN, ((int64_t)513 << 22) / RUN, (int64_t)1 << 31};
    const size_t most = (size_t)GAP << 31;
    unsigned char *from = map(most), *to = map(most);
    (void)state;
    for (int i = 0; i < 3; i++) {
        unsigned char *last = from + (rows[i] - 1) * GAP, *end = to + (rows[i] - 1) * RUN;
        weft_box b = weft_box_of(to, from, RUN);
        b.n[1] = rows[i], b.from_stride[1] = GAP, b.to_stride[1] = RUN;
        memset(last, 17 + i, GAP);
        fake_set_last_blocks(1);
        move(&b, 1, 0, 0);
        fake_set_last_blocks(0);
        for (int k = 0; k < RUN; k++)
            assert_int_equal(end[k], 17 + i);
        assert_int_equal(end[RUN], 0);
    }
    munmap(from, most);
    munmap(to, most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_run),
        cmocka_unit_test(test_random_boxes),
        cmocka_unit_test(test_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
