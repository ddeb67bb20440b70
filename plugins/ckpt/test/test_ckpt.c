/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank writes, the buffer, the thread and what it copies, which checkpoints go, manifests.
 */
#include "../ckpt.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

/* ---- pruning ---- */

static void test_old_ones_go(void **state)
{
    (void)state;
    ckpt_entry entries[] = {{.step = 2, .whole = true},  {.step = 4, .whole = true},
                            {.step = 6, .whole = false}, {.step = 8, .whole = true},
                            {.step = 10, .whole = true}, {.step = 12, .whole = true}};
    const ckpt_list list = {entries, 6};
    bool drop[6];
    ckpt_choose_old(&list, 2, 4, drop);
    assert_true(drop[0]);
    assert_false(drop[1] || drop[2] || drop[3] || drop[4] || drop[5]);
    ckpt_choose_old(&list, 2, 0, drop);
    assert_true(drop[0] && drop[1] && drop[3]);
    assert_false(drop[2] || drop[4] || drop[5]);
    ckpt_choose_old(&list, 0, 0, drop);
    for (int i = 0; i < 6; i++)
        assert_false(drop[i]);
}

/* A run that went back to an older one, and saves: later ones of the first time are there. */
static void test_what_was_just_saved_stays(void **state)
{
    static const int steps[] = {3, 6};
    char dir[] = "/tmp/weft-ckpt-XXXXXX", path[64];
    const weft_io *io = weft_io_system();
    weft_error err = {0};
    (void)state;
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/step-%d", dir, steps[i]);
        assert_int_equal(weft_io_make_dirs(io, path, &err), WEFT_OK);
        snprintf(path, sizeof path, "%s/step-%d/manifest.json", dir, steps[i]);
        assert_int_equal(weft_io_write_file(io, path, "{}", 2, &err), WEFT_OK);
    }
    assert_int_equal(ckpt_prune(io, dir, 3, 1, 0, &err), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/step-%d", dir, steps[i]);
        assert_true(ckpt_exists(io, path));
    }
    assert_int_equal(weft_io_remove_tree(io, dir, &err), WEFT_OK);
    weft_error_release(&err);
}

/* ---- parts ---- */

static weft_state_tensor tensor(const char *name, int64_t rows, int64_t columns, int replica,
                                int replicas)
{
    weft_tensor x = {.dtype = WEFT_F32,
                     .n_dims = 2,
                     .size = {rows, columns},
                     .lo = {100, 0},
                     .whole = {rows + 100, columns}};
    return (weft_state_tensor){.name = name, .tensor = x, .replica = replica, .replicas = replicas};
}

/* Over all replicas, every row is written once. */
static void test_replicas_share(void **state)
{
    enum { RANKS = 3, ROWS = 1000 };
    static const int64_t columns[] = {2, 100};
    (void)state;
    for (size_t c = 0; c < 2; c++)
        for (int tensors = 1; tensors < 4; tensors++) {
            int written[3][ROWS] = {{0}};
            int most = 0;
            for (int r = 0; r < RANKS; r++) {
                weft_state_tensor list[3];
                for (int t = 0; t < tensors; t++)
                    list[t] = tensor("x", ROWS, columns[c], r, RANKS);
                const weft_state_view view = {.tensors = list, .n_tensors = tensors};
                const ckpt_choice choice = {.dtype = WEFT_DTYPES};
                ckpt_parts parts;
                assert_int_equal(ckpt_parts_init(&parts, &view, &choice, NULL), WEFT_OK);
                for (int i = 0; i < parts.n; i++) {
                    const weft_piece *p = &parts.list[i].piece;
                    int64_t first = p->lo[0] - 100;
                    assert_true(p->size[0] > 0);
                    assert_int_equal(parts.list[i].offset, first * columns[c] * 4);
                    for (int64_t row = first; row < first + p->size[0]; row++)
                        written[parts.list[i].tensor - list][row]++;
                }
                most = parts.n > most ? parts.n : most;
                ckpt_parts_release(&parts);
            }
            for (int t = 0; t < tensors; t++)
                for (int row = 0; row < ROWS; row++)
                    assert_int_equal(written[t][row], 1);
            if (columns[c] == 2)
                assert_true(most <= (tensors + RANKS - 1) / RANKS); /* small ones: in turn */
        }
}

static void test_nothing_empty(void **state)
{
    (void)state;
    weft_state_tensor list[] = {tensor("none", 0, 7, 0, 1), tensor("some", 1, 7, 0, 1)};
    const weft_state_view view = {.tensors = list, .n_tensors = 2};
    const ckpt_choice choice = {.dtype = WEFT_BF16};
    ckpt_parts parts;
    assert_int_equal(ckpt_parts_init(&parts, &view, &choice, NULL), WEFT_OK);
    assert_int_equal(parts.n, 1);
    assert_string_equal(parts.list[0].piece.name, "some");
    assert_int_equal(parts.bytes, 14);
    ckpt_parts_release(&parts);
}

/* ---- the buffer ---- */

static void test_buffer(void **state)
{
    (void)state;
    static char memory[1024];
    ckpt_buffer b = {memory, sizeof memory, 0, 0};
    int64_t end[4];
    assert_ptr_equal(ckpt_buffer_take(&b, 400, &end[0]), memory);
    assert_ptr_equal(ckpt_buffer_take(&b, 448, &end[1]), memory + 448);
    assert_null(ckpt_buffer_take(&b, 400, &end[2])); /* 128 at the end, none at the beginning */
    b.tail = end[0];
    assert_ptr_equal(ckpt_buffer_take(&b, 448, &end[2]), memory);
    assert_null(ckpt_buffer_take(&b, 1, &end[3]));
    b.tail = end[1];
    assert_ptr_equal(ckpt_buffer_take(&b, 1, &end[3]), memory + 448);
    assert_null(ckpt_buffer_take(&b, 1025, &end[3]));
}

/* ---- the thread ---- */

typedef struct slow {
    const weft_io *io;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int writes, allowed; /* of data */
} slow;

static ssize_t held_pwrite(void *ctx, int fd, const void *from, size_t n, off_t at)
{
    slow *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->writes++;
    pthread_cond_broadcast(&s->changed);
    while (s->writes > s->allowed)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return s->io->pwrite(s->io->ctx, fd, from, n, at);
}

static void allow(slow *s, int n)
{
    pthread_mutex_lock(&s->lock);
    s->allowed = n;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void await_writes(slow *s, int n)
{
    pthread_mutex_lock(&s->lock);
    while (s->writes < n)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void *write_all(void *arg)
{
    ckpt_writer_run(arg);
    return NULL;
}

static void *let_go(void *arg)
{
    allow(arg, 1 << 30);
    return NULL;
}

static weft_status read_state(const weft_state_view *state, int i, int64_t at, int64_t n, void *to,
                              weft_error *err)
{
    (void)i, (void)err;
    memcpy(to, (const char *)state->core + at, (size_t)n);
    return WEFT_OK;
}

/* Where the state lies: in the host's memory, elsewhere, in a device that one thread may call. */
typedef enum lies { HERE, FAR_AWAY, IN_DEVICE } lies;

/* The state changes when a few chunks are written: the files hold what it was. */
static void save_while_changing(lies where, int64_t capacity, weft_dtype dtype)
{
    enum { ROWS = 700, COLUMNS = 1024 }; /* 2.7 MiB */
    char dir[] = "/tmp/test_ckpt.XXXXXX";
    weft_error err = {0};
    slow s = {.io = weft_io_system(),
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER,
              .allowed = where != IN_DEVICE ? 3 : 1};
    weft_io io = *s.io;
    assert_null(io.ctx); /* the other calls get it, too */
    io.ctx = &s;
    io.pwrite = held_pwrite;
    assert_non_null(mkdtemp(dir));
    float *data = weft_alloc((size_t)ROWS * COLUMNS * sizeof *data),
          *back = weft_alloc((size_t)ROWS * COLUMNS * sizeof *back);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        data[i] = (float)(i % 250);
    weft_state_tensor t = tensor("x", ROWS, COLUMNS, 0, 1);
    t.tensor.data = where == HERE ? data : NULL;
    t.tensor.lo[0] = 0;
    t.tensor.whole[0] = ROWS;
    const weft_state_view view = {.tensors = &t,
                                  .n_tensors = 1,
                                  .read = read_state,
                                  .any_thread = where != IN_DEVICE,
                                  .core = data};
    const ckpt_choice choice = {.dtype = dtype};
    ckpt_buffer buffer = {weft_alloc((size_t)capacity), capacity, 0, 0};
    ckpt_writer w = {.io = &io, .state = &view, .dir = dir, .buffer = &buffer};
    assert_int_equal(ckpt_parts_init(&w.parts, &view, &choice, &err), WEFT_OK);
    assert_int_equal(ckpt_writer_init(&w, &err), WEFT_OK);
    pthread_t thread, helper;
    assert_int_equal(pthread_create(&thread, NULL, write_all, &w), 0);
    await_writes(&s, where != IN_DEVICE ? 3 : 1);
    assert_int_equal(pthread_create(&helper, NULL, let_go, &s), 0);
    assert_int_equal(ckpt_writer_stage(&w, &err), WEFT_OK);
    memset(data, 0xff, (size_t)ROWS * COLUMNS * sizeof *data); /* the update */
    pthread_join(helper, NULL);
    pthread_join(thread, NULL);
    assert_false(w.failed);
    assert_int_equal(buffer.tail, buffer.head);
    weft_folder *folder;
    const int64_t lo[2] = {0, 0}, size[2] = {ROWS, COLUMNS};
    assert_int_equal(weft_folder_open(weft_io_system(), dir, &folder, &err), WEFT_OK);
    assert_int_equal(weft_folder_read(folder, "x", lo, size, WEFT_F32, back, &err), WEFT_OK);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (back[i] != (float)(i % 250))
            fail_msg("element %d is %g", i, (double)back[i]);
    weft_folder_destroy(folder);
    ckpt_writer_release(&w);
    weft_free(buffer.data);
    weft_free(data);
    weft_free(back);
    assert_int_equal(weft_io_remove_tree(weft_io_system(), dir, &err), WEFT_OK);
    weft_error_release(&err);
}

static void test_state_may_change(void **state)
{
    (void)state;
    save_while_changing(HERE, 4 << 20, WEFT_DTYPES);
    save_while_changing(HERE, CKPT_CHUNK, WEFT_DTYPES);
    save_while_changing(HERE, CKPT_CHUNK + 640, WEFT_BF16);
    save_while_changing(HERE, 4 << 20, WEFT_F64);
}

static void test_elsewhere(void **state)
{
    (void)state;
    save_while_changing(FAR_AWAY, 4 << 20, WEFT_DTYPES);
    save_while_changing(FAR_AWAY, CKPT_CHUNK + 640, WEFT_BF16);
    save_while_changing(IN_DEVICE, 4 << 20, WEFT_DTYPES);
    save_while_changing(IN_DEVICE, CKPT_CHUNK, WEFT_BF16);
}

/* ---- where a save goes ---- */

static void test_names(void **state)
{
    (void)state;
    char dir[] = "/tmp/test_ckpt.XXXXXX", path[256];
    const weft_io *io = weft_io_system();
    static const char *const folders[] = {"step-10", "step-9",         "step-",
                                          "step-1x", "step-7.aside-1", "other"};
    weft_error err = {0};
    ckpt_list list;
    int n;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, folders[i]);
        assert_int_equal(weft_io_make_dirs(io, path, &err), WEFT_OK);
        snprintf(path, sizeof path, "%s/%s/manifest.json", dir, folders[i]);
        assert_int_equal(weft_io_write_file(io, path, "", 0, &err), WEFT_OK);
    }
    assert_int_equal(ckpt_scan(io, dir, &list, &err), WEFT_OK);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.list[0].step, 9);
    assert_int_equal(list.list[1].step, 10);
    ckpt_list_release(&list);
    assert_int_equal(ckpt_set_aside(io, dir, 9, false, &n, &err), WEFT_OK);
    assert_int_equal(n, 1);
    snprintf(path, sizeof path, "%s/step-10.aside-1/manifest.json", dir);
    assert_true(ckpt_exists(io, path));
    assert_int_equal(ckpt_set_aside(io, dir, 9, true, &n, &err), WEFT_OK);
    assert_int_equal(n, 1);
    assert_int_equal(weft_io_remove_tree(io, dir, &err), WEFT_OK);
    weft_error_release(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_old_ones_go),    cmocka_unit_test(test_what_was_just_saved_stays),
        cmocka_unit_test(test_replicas_share), cmocka_unit_test(test_nothing_empty),
        cmocka_unit_test(test_buffer),         cmocka_unit_test(test_state_may_change),
        cmocka_unit_test(test_elsewhere),      cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("checkpoints", tests, NULL, NULL);
}
