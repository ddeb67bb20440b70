/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that turn jobs into ids. Jobs lie in a ring in the order of the files: filled by one
 * thread, run by any, taken by the first in order. */
#include "build.h"

#include <string.h>

enum { THREADS_MAX = 64 };

static text_job *job_at(text_workers *w, uint64_t number)
{
    return &w->ring[number % w->n_ring];
}

static void *work(void *arg)
{
    text_encoder *encoder = ((void **)arg)[1];
    text_workers *w = ((void **)arg)[0];
    weft_free(arg);
    weft_blame_set((weft_blame){.plugin = "text", .hook = "open"});
    pthread_mutex_lock(&w->lock);
    while (!w->quit) {
        if (w->taken == w->filled) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        text_job *job = job_at(w, w->taken++);
        pthread_mutex_unlock(&w->lock);
        text_job_run(job, encoder);
        pthread_mutex_lock(&w->lock);
        job->done = true;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static weft_status start_thread(text_workers *w, size_t i, weft_error *err)
{
    void **arg = weft_alloc(2 * sizeof *arg);
    if (!arg)
        return weft_fail_memory(err);
    arg[0] = w;
    arg[1] = &w->encoders[i];
    int rc = pthread_create(&w->threads[i], NULL, work, arg);
    if (!rc) {
        w->n_threads++;
        return WEFT_OK;
    }
    weft_free(arg);
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot start a thread to tokenise: %s",
                     strerror(rc));
}

weft_status text_workers_init(text_workers *w, const text_plugin *text, int threads,
                              weft_error *err)
{
    size_t n = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : (size_t)threads;
    weft_status status = WEFT_OK;
    *w = (text_workers){.n_ring = n + 2};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->ring = weft_alloc_zero(w->n_ring, sizeof *w->ring);
    w->threads = weft_alloc_zero(n, sizeof *w->threads);
    w->encoders = weft_alloc_zero(n, sizeof *w->encoders);
    if (!w->ring || !w->threads || !w->encoders)
        status = weft_fail_memory(err);
    for (size_t i = 0; !status && i < n; i++)
        status = text_encoder_init(&w->encoders[i], text, err);
    for (size_t i = 0; !status && n > 1 && i < n; i++)
        status = start_thread(w, i, err);
    return status;
}

void text_workers_release(text_workers *w)
{
    if (!w->n_ring)
        return;
    pthread_mutex_lock(&w->lock);
    w->quit = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    for (size_t i = 0; w->encoders && i < w->n_ring - 2; i++)
        text_encoder_release(&w->encoders[i]);
    for (size_t i = 0; w->ring && i < w->n_ring; i++)
        text_job_release(&w->ring[i]);
    weft_free(w->encoders);
    weft_free(w->threads);
    weft_free(w->ring);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    *w = (text_workers){0};
}

text_job *text_workers_free(text_workers *w)
{
    return w->filled - w->merged < w->n_ring ? job_at(w, w->filled) : NULL;
}

void text_workers_submit(text_workers *w)
{
    if (!w->n_threads) {
        text_job *job = job_at(w, w->filled++);
        text_job_run(job, &w->encoders[0]);
        job->done = true;
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->filled++;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

text_job *text_workers_oldest(text_workers *w)
{
    if (w->merged == w->filled)
        return NULL;
    text_job *job = job_at(w, w->merged);
    pthread_mutex_lock(&w->lock);
    while (!job->done)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return job;
}

void text_workers_drop(text_workers *w)
{
    text_job_clear(job_at(w, w->merged));
    w->merged++;
}
