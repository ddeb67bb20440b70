/* SPDX-License-Identifier: Apache-2.0 */
/* How long training waits for a save that runs beside it: bench/checkpoint_wait FOLDER [MB
 * [ROUNDS]]. One rank, its state in host memory, a step that keeps one processor busy. Once the
 * step is longer than a save: the wait as a part of a save that training waits for from beginning
 * to end. Once there is no time at all: the wait against a memcpy of the bytes that were not
 * written yet, into memory that has been touched. Medians. */
#include "plugins/ckpt/ckpt.h"
#include "settings/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TENSORS = 64, MOST_ROUNDS = 99 };

typedef struct rank {
    char *dir;
    weft_settings *settings;
    weft_host host;
    weft_log log;
    weft_device device;
    char *data, *copy;
    weft_state_tensor tensors[N_TENSORS];
    char names[N_TENSORS][32];
    weft_state_view view;
    ckpt self;
} rank;

static void must(weft_status s, const weft_error *err)
{
    if (!s)
        return;
    fprintf(stderr, "%s\n", weft_error_text(err));
    exit(1);
}

static weft_status alone(const weft_host *host, double limit_s, const void *mine, size_t n,
                         void *all, weft_error *err)
{
    (void)host;
    (void)limit_s;
    (void)err;
    memcpy(all, mine, n);
    return WEFT_OK;
}

static void say_nothing(void *self, weft_log_level level, const char *line)
{
    (void)self;
    if (level >= WEFT_LOG_WARN)
        fprintf(stderr, "%s\n", line);
}

static void start(rank *r, const char *folder, int64_t bytes)
{
    static const char ini[] = "[ckpt]\nload = none\nkeep = 1\n";
    static const char *const nothing[] = {NULL};
    weft_error err = {0};
    weft_progress at;
    weft_store_found found;
    int64_t each = bytes / N_TENSORS / 4;
    r->dir = weft_format("%s/weft-bench-wait.XXXXXX", folder);
    if (!r->dir || !mkdtemp(r->dir) || !(r->data = weft_alloc((size_t)bytes)) ||
        !(r->copy = weft_alloc((size_t)bytes)))
        must(weft_fail(&err, WEFT_ERR_IO, WEFT_NOWHERE,
                       "cannot make a folder in %s, or lack memory", folder),
             &err);
    memset(r->data, 1, (size_t)bytes);
    memset(r->copy, 1, (size_t)bytes);
    must(weft_settings_read_text("bench", ini, sizeof ini - 1, &r->settings, &err), &err);
    must(weft_settings_section(r->settings, "ckpt", ckpt_params, &r->host.params, &err), &err);
    r->log = (weft_log){say_nothing, NULL};
    r->host.log = &r->log;
    r->host.dir = r->dir;
    r->host.ranks = 1;
    r->host.exchange_within = alone;
    r->device.host_memory = true;
    for (int t = 0; t < N_TENSORS; t++) {
        weft_tensor x = {.data = r->data + t * each * 4,
                         .dtype = WEFT_F32,
                         .n_dims = 1,
                         .size = {each},
                         .whole = {each}};
        snprintf(r->names[t], sizeof r->names[t], "tensor.%02d", t);
        r->tensors[t] = (weft_state_tensor){
            .name = r->names[t], .moment = t >= N_TENSORS / 3, .tensor = x, .replicas = 1};
    }
    r->view = (weft_state_view){.ranks = 1,
                                .device = &r->device,
                                .tensors = r->tensors,
                                .n_tensors = N_TENSORS,
                                .steps = 1 << 20,
                                .model = "none",
                                .plugins = nothing,
                                .kernels = nothing};
    r->self = (ckpt){
        .host = &r->host, .params = r->host.params, .io = weft_io_system(), .saved_step = -1};
    r->self.root = weft_format("%s/ckpt", r->dir);
    must(ckpt_store.load(&r->self, &r->view, &at, &found, &err), &err);
}

static void end(rank *r)
{
    weft_error err = {0};
    ckpt_abandon(&r->self);
    must(weft_io_remove_tree(weft_io_system(), r->dir, &err), &err);
    weft_free(r->self.root);
    weft_free_aligned(r->self.buffer.data);
    weft_text_release(&r->self.why);
    weft_settings_destroy(r->settings);
    weft_free(r->dir);
    weft_free(r->data);
    weft_free(r->copy);
}

/* Seconds that training waits for one save beside a step of step_s (< 0: none, it waits for all of
 * it); *unwritten: bytes that were copied, *copy_s: how long a memcpy of so much takes. */
static double save(rank *r, double step_s, int64_t *unwritten, double *copy_s)
{
    weft_error err = {0};
    r->view.progress.step++;
    *unwritten = 0;
    must(ckpt_store.begin(&r->self, &r->view, &err), &err);
    volatile double x = 1;
    for (double until = weft_now() + step_s; weft_now() < until;)
        x = x * 1.0000001 + 1e-9;
    if (step_s >= 0)
        must(ckpt_store.before_update(&r->self, &err), &err);
    double waited = r->self.held_s;
    for (int64_t i = 0; i < r->self.writer.n_chunks && step_s >= 0; i++)
        *unwritten += r->self.writer.chunks[i].copy ? r->self.writer.chunks[i].bytes : 0;
    double begin = weft_now();
    must(ckpt_store.finish(&r->self, false, &err), &err);
    waited += step_s < 0 ? weft_now() - begin : 0;
    begin = weft_now();
    for (int64_t at = 0; at < *unwritten; at += CKPT_CHUNK)
        memcpy(r->copy + at, r->data + at,
               (size_t)(*unwritten - at < CKPT_CHUNK ? *unwritten - at : CKPT_CHUNK));
    *copy_s = weft_now() - begin;
    return waited;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_size);
    return n % 2 ? list[n / 2] : (list[n / 2 - 1] + list[n / 2]) / 2;
}

int main(int argc, char **argv)
{
    const int64_t bytes = (argc > 2 ? atoll(argv[2]) : 400) * 1000000;
    const int rounds = argc > 3 ? atoi(argv[3]) : 5;
    static double whole[MOST_ROUNDS], beside[MOST_ROUNDS], wait[MOST_ROUNDS], copy[MOST_ROUNDS],
        ratio[MOST_ROUNDS];
    static rank r;
    int64_t unwritten;
    double unused;
    if (argc < 2 || bytes < N_TENSORS * 4 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: %s FOLDER [MB [ROUNDS]]\n", argv[0]);
        return 2;
    }
    start(&r, argv[1], bytes);
    save(&r, -1, &unwritten, &unused);
    for (int i = 0; i < rounds; i++) {
        whole[i] = save(&r, -1, &unwritten, &unused);
        beside[i] = save(&r, 3 * whole[i] + 0.1, &unwritten, &unused);
        wait[i] = save(&r, 0, &unwritten, &copy[i]);
        ratio[i] = wait[i] / copy[i];
    }
    const double save_s = median(whole, rounds), beside_s = median(beside, rounds);
    printf("training and a save of %lld MB on one rank, %d rounds\n", (long long)(bytes / 1000000),
           rounds);
    printf("  %-60s %8.4f s\n", "a save that it waits for", save_s);
    printf("  %-60s %8.4f s  %.1f %% of that\n", "its wait, if forward and backward take longer",
           beside_s, 100 * beside_s / save_s);
    printf("  %-60s %8.4f s  at %.2f times a memcpy of what was left\n",
           "its wait, if they take no time", median(wait, rounds), median(ratio, rounds));
    end(&r);
    return 0;
}
