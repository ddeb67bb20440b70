/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks keep what they send at different places, or have memory of different sizes, no window
 * is made: NCCL would read and write at other places than are meant, and not say so. */
#include "nccl.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

/* ---- what windows.c calls ---- */

static int made;

weft_status nccl_settle(transport *t, const group *g, const comm *of, int result, const char *what,
                        weft_error *err)
{
    (void)t, (void)g, (void)of, (void)what, (void)err;
    return nccl_is_well(result) ? WEFT_OK : WEFT_ERR_RUN;
}

weft_status nccl_connect_all(group *g, weft_error *err)
{
    (void)g, (void)err;
    return WEFT_OK;
}

bool nccl_is_idle(transport *t, const group *g)
{
    (void)g;
    (void)t;
    return true;
}

void nccl_abort_all(transport *t)
{
    (void)t;
}

static int window_register(nccl_comm_t in, void *memory, size_t bytes, void **window, int flags)
{
    (void)in, (void)bytes, (void)flags;
    *window = memory;
    made++;
    return NCCL_SUCCESS;
}

/* ---- two ranks: what the second says is heard first ---- */

static char second[256];
static bool is_second;

static weft_status exchange(const weft_host *host, const void *mine, size_t n, void *all,
                            weft_error *err)
{
    (void)err;
    assert_true(n <= sizeof second);
    if (is_second)
        memcpy(second, mine, n);
    for (int r = 0; r < host->ranks; r++)
        memcpy((char *)all + (size_t)r * n, r == 1 ? second : mine, n);
    return WEFT_OK;
}

/* One rank's group, the places that its collectives use, and how much memory it has in two pieces.
 */
static void place(int first, uint64_t digest, size_t one, size_t other)
{
    static char memory[2];
    int ranks[] = {first, first + 1};
    comm of = {0};
    weft_host host = {.ranks = 2, .rank = 1, .exchange = exchange}; /* rank 0 would log */
    transport t = {.host = &host,
                   .api.ncclCommWindowRegister = window_register,
                   .registers = NCCL_REGISTERS_WINDOWS,
                   .pieces = {{&memory[0], one}, {NULL, 0}, {&memory[1], other}}};
    group g = {.t = &t, .of = &of, .ranks = ranks, .n = 2};
    assert_int_equal(nccl_places(&t, &g, digest, NULL), WEFT_OK);
}

typedef struct said {
    int first;
    uint64_t digest;
    size_t one, other;
} said;

static int windows_of(said a, said b)
{
    is_second = true;
    place(b.first, b.digest, b.one, b.other);
    is_second = false;
    made = 0;
    place(a.first, a.digest, a.one, a.other);
    return made;
}

static void test_alike(void **state)
{
    const said a = {0, 7, 4096, 8192};
    (void)state;
    assert_int_equal(windows_of(a, a), 2);
}

static void test_other_places(void **state)
{
    (void)state;
    assert_int_equal(windows_of((said){0, 7, 4096, 8192}, (said){0, 8, 4096, 8192}), 0);
}

static void test_other_sizes(void **state)
{
    (void)state;
    assert_int_equal(windows_of((said){0, 7, 4096, 8192}, (said){0, 7, 4096, 8448}), 0);
    assert_int_equal(windows_of((said){0, 7, 4096, 8192}, (said){0, 7, 8192, 4096}), 0);
}

/* A group without collectives needs none; what other groups have does not matter. */
static void test_others(void **state)
{
    (void)state;
    assert_int_equal(windows_of((said){0, 0, 4096, 8192}, (said){0, 0, 4096, 8192}), 0);
    assert_int_equal(windows_of((said){0, 7, 4096, 8192}, (said){1, 9, 256, 256}), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_other_places),
        cmocka_unit_test(test_other_sizes),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests_name("nccl_windows", tests, NULL, NULL);
}
