/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in a ring: the first thread fills and takes them in order, the others work on them. */
#include "command.h"

#include <pthread.h>
#include <string.h>

enum { ERRORS_SHOWN = 20 };

struct tokenize_ring {
    const tokenize_job *job;
    tokenize_task *tasks;
    size_t n_tasks, n_threads;       /* n_threads 0: the first thread works */
    uint64_t filled, started, taken; /* tasks so far */
    tokenize_worker *workers;
    size_t n_workers;
    pthread_t *threads;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool locks, quit, failed;
    int n_errors;
    double begin, shown;
};

static void *work(void *arg)
{
    tokenize_worker *worker = arg;
    tokenize_ring *r = worker->own;
    weft_blame_set((weft_blame){.plugin = "text", .hook = "tokenize"});
    worker->own = NULL;
    pthread_mutex_lock(&r->lock);
    if (r->job->own)
        worker->own = r->job->own[worker - r->workers];
    for (;;) {
        while (!r->quit && r->started == r->filled)
            pthread_cond_wait(&r->changed, &r->lock);
        if (r->quit)
            break;
        tokenize_task *task = &r->tasks[r->started++ % r->n_tasks];
        pthread_mutex_unlock(&r->lock);
        tokenize_task_run(worker, task);
        pthread_mutex_lock(&r->lock);
        task->done = true;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static weft_status start_threads(tokenize_ring *r, weft_error *err)
{
    size_t n = r->n_workers;
    r->threads = weft_alloc_zero(n, sizeof *r->threads);
    if (!r->threads)
        return weft_fail_memory(err);
    for (; r->n_threads < n; r->n_threads++) {
        r->workers[r->n_threads].own = r; /* until the thread has it */
        int code = pthread_create(&r->threads[r->n_threads], NULL, work, &r->workers[r->n_threads]);
        if (code)
            return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                             "cannot start thread %zu of %zu: %s; give fewer --threads",
                             r->n_threads + 1, n, strerror(code));
    }
    return WEFT_OK;
}

weft_status tokenize_ring_create(const tokenize_job *job, tokenize_ring **out, weft_error *err)
{
    tokenize_ring *r = weft_alloc_zero(1, sizeof *r);
    if (!r)
        return weft_fail_memory(err);
    *out = r;
    r->job = job;
    r->begin = r->shown = weft_now();
    size_t threads = (size_t)job->options->threads;
    r->n_tasks = threads > 1 ? 2 * threads + 2 : 1;
    r->tasks = weft_alloc_zero(r->n_tasks, sizeof *r->tasks);
    r->workers = weft_alloc_zero(threads, sizeof *r->workers);
    if (!r->tasks || !r->workers)
        return weft_fail_memory(err);
    for (; r->n_workers < threads; r->n_workers++) {
        tokenize_worker *w = &r->workers[r->n_workers];
        w->job = (tokenize_job *)job;
        weft_status status = tokenizer_scratch_create(job->tokenizer, &w->scratch, err);
        if (status)
            return status;
    }
    if (threads == 1) {
        r->workers[0].own = job->own ? job->own[0] : NULL;
        return WEFT_OK;
    }
    if (pthread_mutex_init(&r->lock, NULL))
        return weft_fail_memory(err);
    if (pthread_cond_init(&r->changed, NULL)) {
        pthread_mutex_destroy(&r->lock);
        return weft_fail_memory(err);
    }
    r->locks = true;
    return start_threads(r, err);
}

void tokenize_ring_destroy(tokenize_ring *r)
{
    if (!r)
        return;
    if (r->locks) {
        pthread_mutex_lock(&r->lock);
        r->quit = true;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
        for (size_t i = 0; i < r->n_threads; i++)
            pthread_join(r->threads[i], NULL);
        pthread_cond_destroy(&r->changed);
        pthread_mutex_destroy(&r->lock);
    }
    for (size_t i = 0; i < r->n_workers; i++) {
        tokenizer_scratch_destroy(r->workers[i].scratch);
        weft_free(r->workers[i].ids);
    }
    for (size_t i = 0; r->tasks && i < r->n_tasks; i++)
        tokenize_task_release(&r->tasks[i]);
    weft_free(r->tasks);
    weft_free(r->workers);
    weft_free(r->threads);
    weft_free(r);
}

static void show_progress(tokenize_ring *r, int64_t read)
{
    double t = weft_now(), elapsed = t - r->begin;
    int64_t total = r->job->files->bytes;
    if (!r->job->host->terminal || t - r->shown < 0.2 || elapsed <= 0)
        return;
    r->shown = t;
    double rate = (double)read / elapsed;
    if (total < read || rate <= 0) { /* not known */
        weft_log_print(r->job->host->log, WEFT_LOG_INFO, "\r%s: %.1f MB, %.1f MB/s", r->job->doing,
                       (double)read / 1e6, rate / 1e6);
        return;
    }
    char bar[31];
    size_t full = (size_t)(30.0 * (double)read / (double)total);
    for (size_t i = 0; i < 30; i++)
        bar[i] = i < full ? '#' : '.';
    bar[30] = 0;
    long left = (long)((double)(total - read) / rate + 0.5);
    weft_log_print(r->job->host->log, WEFT_LOG_INFO,
                   "\r%s [%s] %.1f of %.1f MB, %.1f MB/s, %ld:%02ld left", r->job->doing, bar,
                   (double)read / 1e6, (double)total / 1e6, rate / 1e6, left / 60, left % 60);
}

/* Bad input is collected from all tasks; anything else ends the work. */
static weft_status take_errors(tokenize_ring *r, tokenize_task *task, weft_error *err)
{
    r->failed = true;
    for (int i = 0; i < task->err.n_items; i++)
        if (++r->n_errors <= ERRORS_SHOWN)
            weft_fail(err, task->err.items[i].status, WEFT_NOWHERE, "%s", task->err.items[i].text);
    if (task->err.out_of_memory)
        return weft_fail_memory(err);
    return task->status == WEFT_ERR_INPUT ? WEFT_OK : task->status;
}

static weft_status take_oldest(tokenize_ring *r, weft_error *err)
{
    tokenize_task *task = &r->tasks[r->taken % r->n_tasks];
    weft_status status = WEFT_OK;
    if (r->locks) {
        pthread_mutex_lock(&r->lock);
        while (!task->done)
            pthread_cond_wait(&r->changed, &r->lock);
        pthread_mutex_unlock(&r->lock);
    }
    r->taken++;
    show_progress(r, task->read);
    if (task->status)
        status = take_errors(r, task, err);
    else if (!r->failed)
        status = r->job->take(r->job->self, task, err);
    tokenize_task_clear(task);
    return status;
}

void tokenize_ring_fail(tokenize_ring *r)
{
    r->failed = true;
}

weft_status tokenize_ring_next(tokenize_ring *r, tokenize_task **task, weft_error *err)
{
    weft_status status = r->filled - r->taken == r->n_tasks ? take_oldest(r, err) : WEFT_OK;
    *task = &r->tasks[r->filled % r->n_tasks];
    return status;
}

weft_status tokenize_ring_submit(tokenize_ring *r, weft_error *err)
{
    if (!r->locks) {
        tokenize_task_run(&r->workers[0], &r->tasks[0]);
        r->filled++;
        return take_oldest(r, err);
    }
    pthread_mutex_lock(&r->lock);
    r->filled++;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return WEFT_OK;
}

weft_status tokenize_ring_finish(tokenize_ring *r, weft_error *err)
{
    weft_status status = WEFT_OK;
    while (!status && r->taken < r->filled)
        status = take_oldest(r, err);
    if (r->n_errors > ERRORS_SHOWN)
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%d more places are wrong",
                  r->n_errors - ERRORS_SHOWN);
    if (r->job->host->terminal)
        weft_log_print(r->job->host->log, WEFT_LOG_INFO, "\r");
    return status ? status : r->failed ? WEFT_ERR_INPUT : WEFT_OK;
}
