/* SPDX-License-Identifier: Apache-2.0 */
/* The least that trains: a program that links the core alone, and vetting.c.
 *
 *     train RANKS INI: trains with as many threads as ranks, and prints each step's loss */
#include "execute/run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank {
    pthread_t thread;
    const char *ini;
    weft_control *control;
    int rank, ranks;
    weft_status status;
    weft_error err;
} rank;

static void print_loss(void *ctx, const weft_run_view *view)
{
    const rank *r = ctx;
    if (r->rank == 0)
        printf("%lld %.9g\n", (long long)view->step, view->loss);
}

static void log_line(void *self, weft_log_level level, const char *line)
{
    (void)self;
    if (level >= WEFT_LOG_WARN)
        fprintf(stderr, "%s\n", line);
}

static weft_status train(rank *r, weft_plugins *plugins, weft_plan *plan, const weft_host *host)
{
    static const volatile sig_atomic_t never;
    weft_run *run = NULL;
    weft_status s = weft_run_create(plan, host, &run, &r->err);
    if (!s) {
        run->step_made = print_loss;
        run->step_made_ctx = r;
        s = weft_run_continue(run, &r->err);
    }
    s = s ? s : weft_run_train(run, &never, &r->err);
    weft_run_destroy(run);
    weft_plugins_close(plugins);
    return s;
}

static weft_status be(rank *r)
{
    const weft_log log = {log_line, NULL};
    weft_settings *settings = NULL;
    weft_plugins *plugins = NULL;
    weft_plan *plan = NULL;
    const weft_plan_options options = {.rank = r->rank, .ranks = r->ranks};
    const weft_host host = {.log = &log,
                            .rank = r->rank,
                            .ranks = r->ranks,
                            .threads = 1,
                            .exchange = weft_host_exchange,
                            .exchange_within = weft_host_exchange_within,
                            .waiting = weft_host_waiting};
    weft_status s = weft_settings_read(r->ini, &settings, &r->err);
    s = s ? s : weft_plugins_load(settings, &log, &plugins, &r->err);
    if (!s)
        plugins->control = r->control;
    s = s ? s : weft_plugins_create(plugins, &host, &r->err);
    s = s ? s : weft_plan_create(plugins, settings, &options, &plan, &r->err);
    s = s ? s : weft_plugins_open(plugins, &r->err);
    s = s ? s : train(r, plugins, plan, &host);
    weft_plan_destroy(plan);
    weft_plugins_destroy(plugins);
    weft_settings_destroy(settings);
    if (s)
        weft_control_leave(r->control, r->rank, s, weft_error_text(&r->err));
    return s;
}

static void *start(void *self)
{
    rank *r = self;
    r->status = be(r);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { MOST = 8 };
    rank ranks[MOST] = {{0}};
    weft_error err = {0};
    weft_control *control;
    int n = argc == 3 ? atoi(argv[1]) : 0, bad = 0;
    if (n < 1 || n > MOST || weft_control_create(n, &control, &err)) {
        fprintf(stderr, "usage: train RANKS INI\n");
        return 2;
    }
    for (int i = 0; i < n; i++) {
        ranks[i] = (rank){.ini = argv[2], .control = control, .rank = i, .ranks = n};
        if (pthread_create(&ranks[i].thread, NULL, start, &ranks[i]))
            return 1;
    }
    for (int i = 0; i < n; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (ranks[i].status)
            fprintf(stderr, "rank %d: %s\n", i, weft_error_text(&ranks[i].err));
        bad |= ranks[i].status != WEFT_OK;
        weft_error_release(&ranks[i].err);
    }
    weft_control_destroy(control);
    return bad;
}
