/* SPDX-License-Identifier: Apache-2.0 */
/* A save that is cut off, or refused, at every one of its calls to the file system: what was whole
 * before stays whole, and what is said to be saved is there. */
#include "../../../tests/lib/fault_io.h"
#include "../ckpt.h"
#include "execute/control.h"
#include "settings/settings.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { N_TENSORS = 4, ELEMENTS = 600 };

/* One rank, and its state: two parameters and their moments. */
typedef struct bench {
    fault_fs *fs;
    weft_settings *settings;
    weft_host host;
    weft_text said;
    weft_log log;
    float data[N_TENSORS][ELEMENTS];
    weft_state_tensor tensors[N_TENSORS];
    weft_state_view view;
    ckpt *self;
} bench;

static weft_status alone(const weft_host *host, double limit_s, const void *mine, size_t n,
                         void *all, weft_error *err)
{
    (void)host;
    (void)limit_s;
    (void)err;
    memcpy(all, mine, n);
    return WEFT_OK;
}

static void note(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

static void fill(bench *b, int step)
{
    for (int t = 0; t < N_TENSORS; t++)
        for (int i = 0; i < ELEMENTS; i++)
            b->data[t][i] = (float)(step * 10000 + t * 1000 + i) / 7;
    b->view.progress = (weft_progress){.step = step, .samples = 8 * step, .tokens = 80 * step};
}

static bool holds(const bench *b, int step)
{
    bench *want = test_malloc(sizeof *want);
    fill(want, step);
    bool same = memcmp(want->data, b->data, sizeof b->data) == 0;
    test_free(want);
    return same;
}

/* A new process: nothing of the plugin's is left, all of the file system's. */
static void start(bench *b)
{
    b->self = weft_alloc_zero(1, sizeof *b->self);
    *b->self = (ckpt){
        .host = &b->host, .params = b->host.params, .io = fault_fs_io(b->fs), .saved_step = -1};
    b->self->root = weft_format("%s/ckpt", b->host.dir);
    assert_non_null(b->self->root);
}

static void end(bench *b)
{
    ckpt_abandon(b->self);
    weft_free(b->self->root);
    weft_free_aligned(b->self->buffer.data);
    weft_text_release(&b->self->why);
    weft_error_release(&b->self->thread_err);
    weft_free(b->self);
    b->self = NULL;
}

static int setup_with(void **state, const char *ini)
{
    static const char *const names[] = {"a.weight", "b.weight", "a.weight.m", "b.weight.m"};
    static const char *const nothing[] = {NULL};
    bench *b = weft_alloc_zero(1, sizeof *b);
    weft_error err = {0};
    assert_int_equal(weft_settings_read_text("run.ini", ini, strlen(ini), &b->settings, &err),
                     WEFT_OK);
    assert_int_equal(weft_settings_section(b->settings, "ckpt", ckpt_params, &b->host.params, &err),
                     WEFT_OK);
    b->fs = fault_fs_create();
    b->log = (weft_log){note, &b->said};
    b->host.log = &b->log;
    b->host.dir = "/run";
    b->host.ranks = 1;
    b->host.exchange_within = alone;
    for (int t = 0; t < N_TENSORS; t++) {
        weft_tensor x = {.data = b->data[t],
                         .dtype = WEFT_F32,
                         .n_dims = 2,
                         .size = {20, 30},
                         .whole = {20, 30}};
        b->tensors[t] =
            (weft_state_tensor){.name = names[t], .moment = t >= 2, .tensor = x, .replicas = 1};
    }
    b->view = (weft_state_view){.ranks = 1,
                                .any_thread = true,
                                .tensors = b->tensors,
                                .n_tensors = N_TENSORS,
                                .steps = 9,
                                .model = "none",
                                .plugins = nothing,
                                .kernels = nothing};
    const weft_io *io = fault_fs_io(b->fs);
    assert_int_equal(weft_io_make_dirs(io, "/run", &err), WEFT_OK);
    fault_fs_sync_all(b->fs);
    *state = b;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, "[ckpt]\nkeep = 1\n");
}

static int teardown(void **state)
{
    bench *b = *state;
    assert_int_equal(fault_fs_open_files(b->fs), 0);
    fault_fs_destroy(b->fs);
    weft_settings_destroy(b->settings);
    weft_text_release(&b->said);
    weft_free(b);
    return 0;
}

/* As the loop does it. True: it is said to be saved. */
static bool save(bench *b, int step)
{
    weft_error err = {0};
    fill(b, step);
    weft_status s = ckpt_store.begin(b->self, &b->view, &err);
    s = s ? s : ckpt_store.before_update(b->self, &err);
    for (int t = 0; t < N_TENSORS && !s; t++)
        memset(b->data[t], 0xff, sizeof b->data[t]); /* the update */
    s = s ? s : ckpt_store.finish(b->self, true, &err);
    weft_error_release(&err);
    return !s;
}

static weft_status load(bench *b, int64_t *step)
{
    weft_error err = {0};
    weft_progress at;
    weft_store_found found;
    memset(b->data, 0, sizeof b->data);
    memset(&b->view.progress, 0, sizeof b->view.progress);
    weft_status s = ckpt_store.load(b->self, &b->view, &at, &found, &err);
    *step = !s && found == WEFT_STORE_STATE ? at.step : 0;
    if (s)
        weft_text_print(&b->said, "%s\n", weft_error_text(&err));
    weft_error_release(&err);
    return s;
}

/* Whatever has a manifest is whole: no crash may leave one that only looks so. */
static void check_whole_ones(bench *b, const char *what, long n)
{
    const weft_io *io = fault_fs_io(b->fs);
    ckpt_list list;
    weft_error err = {0};
    assert_int_equal(ckpt_scan(io, b->self->root, &list, &err), WEFT_OK);
    for (int i = 0; i < list.n; i++) {
        ckpt_manifest m = {0};
        char *path = ckpt_step_path(b->self->root, list.list[i].step);
        weft_status s = list.list[i].whole ? ckpt_manifest_read(io, path, &m, &err) : WEFT_OK;
        s = s || !list.list[i].whole ? s : ckpt_manifest_verify(io, &m, true, &err);
        if (s)
            fail_msg("%s at call %ld: %s", what, n, weft_error_text(&err));
        ckpt_manifest_release(&m);
        weft_free(path);
    }
    ckpt_list_release(&list);
}

/* What a new process finds: a whole checkpoint, of step 2 if that was said to be saved. */
static void check_after(bench *b, bool saved, const char *what, long n)
{
    int64_t step;
    start(b);
    if (strstr(what, "crash"))
        check_whole_ones(b, what, n);
    if (load(b, &step))
        fail_msg("%s at call %ld: cannot load: %s", what, n, weft_text_get(&b->said));
    if (step != 2 && (step != 1 || saved))
        fail_msg("%s at call %ld: step %d is found, and step 2 was %s", what, n, (int)step,
                 saved ? "saved" : "not");
    if (!holds(b, (int)step))
        fail_msg("%s at call %ld: step %d has other values", what, n, (int)step);
    if (step == 1 && !save(b, 2))
        fail_msg("%s at call %ld: it cannot be saved again: %s", what, n, weft_text_get(&b->said));
    end(b);
}

/* One whole checkpoint, then a save that goes wrong at call n. False: there was no such call. */
static bool try_one(fault_kind kind, int error, long n, uint64_t seed, const char *what)
{
    bench *b;
    int64_t step;
    setup((void **)&b);
    start(b);
    assert_int_equal(load(b, &step), WEFT_OK);
    assert_true(save(b, 1));
    fault_fs_sync_all(b->fs);
    fault_fs_arm(b->fs, kind, n, error);
    bool saved = save(b, 2), fired = fault_fs_fired(b->fs);
    end(b);
    if (!fired)
        assert_true(saved);
    if (kind == FAULT_CRASH)
        fault_fs_reboot(b->fs, seed);
    else
        fault_fs_arm(b->fs, FAULT_NONE, 0, 0);
    check_after(b, saved, what, n);
    teardown((void **)&b);
    return fired;
}

static void test_crash_at_every_call(void **state)
{
    (void)state;
    long n = 1;
    for (bool fired = true; fired; n++) {
        fired = try_one(FAULT_CRASH, 0, n, 0, "crash");
        for (uint64_t seed = 1; seed <= 6; seed++)
            try_one(FAULT_CRASH, 0, n, seed * 1000 + (uint64_t)n, "crash with some writes done");
    }
    assert_true(n > 30);
}

static void test_refused_at_every_call(void **state)
{
    static const struct {
        fault_kind kind;
        int error;
        const char *what;
    } faults[] = {{FAULT_ERROR, EIO, "EIO"},      {FAULT_REFUSE, ENOSPC, "ENOSPC"},
                  {FAULT_REFUSE, EROFS, "EROFS"}, {FAULT_ERROR, ENOSPC, "one ENOSPC"},
                  {FAULT_ERROR, EINTR, "EINTR"},  {FAULT_SHORT, 0, "short"}};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        for (long n = 1; try_one(faults[i].kind, faults[i].error, n, 0, faults[i].what); n++)
            assert_true(n < 10000);
}

static void test_failed_save_goes_on(void **state)
{
    bench *b = *state;
    int64_t step;
    weft_error err = {0};
    start(b);
    assert_int_equal(load(b, &step), WEFT_OK);
    assert_true(save(b, 1));
    fill(b, 2);
    fault_fs_arm(b->fs, FAULT_REFUSE, 1, ENOSPC);
    assert_int_equal(ckpt_store.begin(b->self, &b->view, &err), WEFT_OK); /* on_error = warn */
    assert_int_equal(ckpt_store.finish(b->self, false, &err), WEFT_OK);
    assert_non_null(strstr(weft_text_get(&b->said), "could not be saved"));
    assert_non_null(strstr(weft_text_get(&b->said), "No space left"));
    fault_fs_arm(b->fs, FAULT_NONE, 0, 0);
    assert_true(save(b, 3));
    end(b);
    start(b);
    assert_int_equal(load(b, &step), WEFT_OK);
    assert_int_equal(step, 3);
    assert_true(holds(b, 3));
    end(b);
}

/* ---- a rank that hangs ---- */

/* Its disk does not answer: a flush comes back when the test lets it. */
typedef struct stuck_io {
    weft_io io;
    const weft_io *under;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool free;
} stuck_io;

static int stuck_fsync(void *ctx, int fd)
{
    stuck_io *d = ctx;
    pthread_mutex_lock(&d->lock);
    while (!d->free)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
    return d->under->fsync(d->under->ctx, fd);
}

static ssize_t pass_pwrite(void *ctx, int fd, const void *from, size_t n, off_t at)
{
    stuck_io *d = ctx;
    return d->under->pwrite(d->under->ctx, fd, from, n, at);
}

static int pass_open(void *ctx, const char *path, int flags, mode_t mode)
{
    stuck_io *d = ctx;
    return d->under->open(d->under->ctx, path, flags, mode);
}

static int pass_close(void *ctx, int fd)
{
    stuck_io *d = ctx;
    return d->under->close(d->under->ctx, fd);
}

static int pass_unlink(void *ctx, const char *path)
{
    stuck_io *d = ctx;
    return d->under->unlink(d->under->ctx, path);
}

static void *save_as_thread(void *arg)
{
    bench *b = arg;
    int64_t step;
    return load(b, &step) == WEFT_OK && save(b, 1) ? b : NULL;
}

static void test_rank_hangs_in_save(void **state)
{
    (void)state;
    static const char ini[] = "[ckpt]\ntimeout = 2\n";
    bench *b[2];
    weft_plugins plugins = {0};
    weft_error err = {0};
    pthread_t thread;
    void *saved;
    int64_t step;
    stuck_io stuck = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    weft_control *control;
    assert_int_equal(weft_control_create(2, &control, &err), WEFT_OK);
    plugins.control = control;
    for (int r = 0; r < 2; r++) {
        setup_with((void **)&b[r], ini);
        start(b[r]);
        b[r]->host.core = &plugins;
        b[r]->host.exchange_within = weft_host_exchange_within;
        b[r]->host.rank = b[r]->view.rank = r;
        b[r]->host.ranks = b[r]->view.ranks = 2;
    }
    stuck.under =
        fault_fs_io(b[1]->fs); /* a file system of its own; the folder is rank 0's to make */
    stuck.io = (weft_io){.ctx = &stuck,
                         .open = pass_open,
                         .close = pass_close,
                         .pwrite = pass_pwrite,
                         .fsync = stuck_fsync,
                         .unlink = pass_unlink};
    assert_int_equal(weft_io_make_dirs(stuck.under, "/run/ckpt/step-1/optim", &err), WEFT_OK);
    b[1]->self->io = &stuck.io;
    assert_int_equal(pthread_create(&thread, NULL, save_as_thread, b[1]), 0);
    assert_int_equal(load(b[0], &step), WEFT_OK);
    assert_false(save(b[0], 1));
    assert_non_null(
        strstr(weft_text_get(&b[0]->said), "timeout = 2): timed out after 2 s waiting for rank 1"));
    pthread_mutex_lock(&stuck.lock);
    stuck.free = true;
    pthread_cond_broadcast(&stuck.changed);
    pthread_mutex_unlock(&stuck.lock);
    assert_int_equal(pthread_join(thread, &saved), 0);
    assert_null(saved);
    assert_false(ckpt_exists(fault_fs_io(b[0]->fs), "/run/ckpt/step-1/manifest.json"));
    for (int r = 0; r < 2; r++) {
        end(b[r]);
        teardown((void **)&b[r]);
    }
    weft_control_destroy(control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crash_at_every_call),
        cmocka_unit_test(test_refused_at_every_call),
        cmocka_unit_test(test_rank_hangs_in_save),
        cmocka_unit_test_setup_teardown(test_failed_save_goes_on, setup, teardown),
    };
    return cmocka_run_group_tests_name("checkpoints under faults", tests, NULL, NULL);
}
