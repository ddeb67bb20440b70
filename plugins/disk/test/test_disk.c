/* SPDX-License-Identifier: Apache-2.0 */
/* The queue moves what it is told, of any place and length, through calls that are short, and says
 * which one failed; it finds what the disk has changed. */
#include "../disk.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { BYTES = 5 << 20, MOVES = 300 };

typedef struct bench {
    weft_io io;
    disk_queue q;
    int64_t calls, fail; /* the call of this number fails; 0: none does */
    int with;            /* errno; 0: it moves nothing */
    bool is_short;
} bench;

/* What a call may do that is short, or fails. */
static bool goes_wrong(bench *b, size_t *n, ssize_t *result)
{
    const int64_t number = __atomic_add_fetch(&b->calls, 1, __ATOMIC_RELAXED);
    if (b->is_short && *n > DISK_BLOCK)
        *n = *n / 2 / DISK_BLOCK * DISK_BLOCK;
    if (b->is_short && number % 7 == 0) {
        errno = EINTR;
        *result = -1;
        return true;
    }
    if (number != b->fail)
        return false;
    errno = b->with;
    *result = b->with ? -1 : 0;
    return true;
}

static ssize_t bad_pread(void *ctx, int fd, void *to, size_t n, off_t at)
{
    ssize_t r = 0;
    return goes_wrong(ctx, &n, &r) ? r : pread(fd, to, n, at);
}

static ssize_t bad_pwrite(void *ctx, int fd, const void *from, size_t n, off_t at)
{
    ssize_t r = 0;
    return goes_wrong(ctx, &n, &r) ? r : pwrite(fd, from, n, at);
}

static void begin(bench *b, bool sums)
{
    weft_error err = {0};
    char path[] = "/tmp/test_disk.XXXXXX";
    *b = (bench){.io = *weft_io_system()};
    b->io.ctx = b;
    b->io.pread = bad_pread;
    b->io.pwrite = bad_pwrite;
    b->q = (disk_queue){.io = &b->io, .name = "/far", .fd = mkstemp(path)};
    assert_true(b->q.fd >= 0);
    unlink(path);
    assert_int_equal(ftruncate(b->q.fd, BYTES), 0);
    if (sums)
        b->q.sums = weft_alloc_zero(BYTES / DISK_BLOCK + 1, sizeof *b->q.sums);
    assert_int_equal(disk_queue_start(&b->q, 3, &err), WEFT_OK);
}

static void end(bench *b)
{
    disk_queue_stop(&b->q);
    close(b->q.fd);
    weft_free(b->q.sums);
}

static weft_status move(bench *b, bool writes, int64_t at, int64_t n, char *memory, weft_error *err)
{
    disk_move m = {.at = at, .n = n, .memory = memory, .writes = writes};
    disk_queue_add(&b->q, &m);
    return disk_queue_wait(&b->q, &m, err);
}

/* Places and lengths by dice, against a copy in memory. */
static void move_at_random(bool sums, bool is_short)
{
    bench b;
    weft_error err = {0};
    char *copy = weft_alloc_zero(1, BYTES), *room = weft_alloc(BYTES);
    begin(&b, sums);
    b.is_short = is_short;
    for (uint64_t i = 0; i < MOVES; i++) {
        const uint64_t dice = weft_random_bits(5, 1, i);
        const int64_t most = i % 5 ? 20000 : BYTES, at = (int64_t)(dice % BYTES), left = BYTES - at,
                      n = 1 + (int64_t)(dice / BYTES) % (left < most ? left : most);
        const bool writes = weft_random_bits(5, 2, i) % 2;
        for (int64_t k = 0; k < n && writes; k++)
            room[k] = copy[at + k] = (char)(dice + (uint64_t)k * 31);
        assert_int_equal(move(&b, writes, at, n, room, &err), WEFT_OK);
        assert_memory_equal(room, copy + at, (size_t)n);
    }
    assert_int_equal(move(&b, false, 0, BYTES, room, &err), WEFT_OK);
    assert_memory_equal(room, copy, BYTES);
    end(&b);
    weft_free(copy);
    weft_free(room);
    weft_error_release(&err);
}

static void test_any_place(void **state)
{
    (void)state;
    move_at_random(false, false);
    move_at_random(true, false);
}

static void test_short_calls(void **state)
{
    (void)state;
    move_at_random(true, true);
}

/* Several at once, whose waits come in another order. */
static void test_many_at_once(void **state)
{
    enum { N = 16, EACH = BYTES / N };
    (void)state;
    bench b;
    weft_error err = {0};
    char *from = weft_alloc(BYTES), *to = weft_alloc_zero(1, BYTES);
    disk_move m[N];
    begin(&b, false);
    for (int i = 0; i < BYTES; i++)
        from[i] = (char)(i * 7 + i / 999);
    for (int writes = 1; writes >= 0; writes--) {
        for (int i = 0; i < N; i++) {
            m[i] = (disk_move){.at = i * EACH,
                               .n = EACH,
                               .memory = (writes ? from : to) + i * EACH,
                               .writes = writes};
            disk_queue_add(&b.q, &m[i]);
        }
        for (int i = 0; i < N; i++)
            assert_int_equal(disk_queue_wait(&b.q, &m[i * 5 % N], &err), WEFT_OK);
    }
    assert_memory_equal(from, to, BYTES);
    assert_int_equal(b.q.read, BYTES);
    assert_int_equal(b.q.written, BYTES);
    end(&b);
    weft_free(from);
    weft_free(to);
}

/* Each call of a write and of a read in turn; what comes next goes well. */
static void test_each_call_fails(void **state)
{
    static const struct {
        int number;
        const char *words;
    } errors[] = {{EIO, "Input/output error"}, {ENOSPC, "No space left"}, {0, "nothing more|lost"}};
    (void)state;
    char *room = weft_alloc_zero(1, BYTES);
    for (int writes = 0; writes < 2; writes++)
        for (int e = 0; e < 3; e++)
            for (int64_t k = 1; k <= 5; k++) {
                bench b;
                weft_error err = {0};
                begin(&b, false);
                b.fail = k;
                b.with = errors[e].number;
                assert_int_equal(move(&b, writes, 100, BYTES - 300, room, &err), WEFT_ERR_IO);
                assert_non_null(strstr(weft_error_text(&err), "/far: "));
                if (e < 2)
                    assert_non_null(strstr(weft_error_text(&err), errors[e].words));
                weft_error_release(&err);
                b.fail = 0;
                assert_int_equal(move(&b, writes, 0, 5000, room, &err), WEFT_OK);
                end(&b);
            }
    weft_free(room);
}

static void test_changed_bits(void **state)
{
    (void)state;
    bench b;
    weft_error err = {0};
    char *room = weft_alloc_zero(1, 3 * DISK_BLOCK);
    begin(&b, true);
    assert_int_equal(move(&b, true, 50, 2 * DISK_BLOCK, room, &err), WEFT_OK);
    assert_int_equal(pwrite(b.q.fd, "x", 1, DISK_BLOCK + 9), 1);
    assert_int_equal(move(&b, false, 0, 10, room, &err), WEFT_OK);
    assert_int_equal(move(&b, false, DISK_BLOCK + 100, 10, room, &err), WEFT_ERR_IO);
    assert_non_null(strstr(weft_error_text(&err), "not written"));
    end(&b);
    weft_free(room);
    weft_error_release(&err);
}

/* What nobody waits for any more is given up. */
static void test_drain(void **state)
{
    (void)state;
    bench b;
    weft_error err = {0};
    char *room = weft_alloc_zero(1, BYTES);
    disk_move m[2] = {{.n = BYTES, .memory = room}, {.n = BYTES, .memory = room}};
    begin(&b, false);
    disk_queue_add(&b.q, &m[0]);
    disk_queue_add(&b.q, &m[1]);
    disk_queue_drain(&b.q);
    assert_int_equal(b.q.moving, 0);
    assert_int_equal(disk_queue_wait(&b.q, &m[1], &err), WEFT_OK);
    assert_int_equal(disk_queue_wait(&b.q, &m[0], &err), WEFT_OK);
    end(&b);
    weft_free(room);
}

/* It is at work while any piece moves, however many do; and not in between. */
static void test_busy(void **state)
{
    (void)state;
    bench b;
    weft_error err = {0};
    double writing = 0, reading = 0;
    char *room = weft_alloc_zero(1, BYTES);
    begin(&b, false);
    assert_int_equal(disk_queue_time(&b.q, true, 0, room, BYTES, &writing, &err), WEFT_OK);
    usleep(100000);
    assert_int_equal(disk_queue_time(&b.q, false, 0, room, BYTES, &reading, &err), WEFT_OK);
    assert_true(b.q.busy_s > 0 && b.q.busy_s <= writing + reading);
    assert_int_equal(b.q.read, BYTES);
    assert_int_equal(b.q.written, BYTES);
    end(&b);
    weft_free(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_place),    cmocka_unit_test(test_short_calls),
        cmocka_unit_test(test_many_at_once), cmocka_unit_test(test_each_call_fails),
        cmocka_unit_test(test_changed_bits), cmocka_unit_test(test_drain),
        cmocka_unit_test(test_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
