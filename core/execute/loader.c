/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that fills the next step's inputs while this one computes. */
#include "base/blame.h"
#include "execute/run.h"

#include <string.h>

static weft_status fill(weft_run *run, const weft_batch *b, int64_t first, weft_error *err)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_TRAIN];
    weft_sample sample;
    weft_status s = weft_sample_init(&sample, run->plan->seq_len, err);
    for (int64_t i = 0; i < run->plan->global_batch && !s; i++) {
        int64_t micro = i / run->plan->micro_batch, row = i % run->plan->micro_batch;
        if (!weft_owns_row(l, micro, row))
            continue;
        s = weft_read_sample(run, l, WEFT_SPLIT_TRAIN, first + i, &sample, err);
        if (!s)
            weft_fill_inputs(b, micro, row, &sample);
    }
    weft_sample_release(&sample);
    return s;
}

static void *work(void *arg)
{
    weft_run *run = arg;
    weft_loader *l = &run->loader;
    weft_blame_set_rank(run->plan->rank);
    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        if (!l->wanted || l->ready) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        int64_t first = l->first_sample;
        pthread_mutex_unlock(&l->lock);
        weft_status s = fill(run, l->batch[l->filling], first, &l->err);
        pthread_mutex_lock(&l->lock);
        l->status = s;
        l->ready = true;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

weft_status weft_loader_create(weft_run *run, weft_error *err)
{
    weft_loader *l = &run->loader;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    run->loader_made = true;
    for (int i = 0; i < 2; i++) {
        weft_status s =
            weft_batch_create(run, WEFT_MODE_TRAIN, run->plan->micro_batches, &l->batch[i], err);
        if (s)
            return s;
    }
    int code = pthread_create(&l->thread, NULL, work, run);
    if (code)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot start the data thread: %s",
                         strerror(code));
    l->running = true;
    return WEFT_OK;
}

void weft_loader_destroy(weft_run *run)
{
    weft_loader *l = &run->loader;
    if (!run->loader_made)
        return;
    if (l->running) {
        pthread_mutex_lock(&l->lock);
        l->quit = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    for (int i = 0; i < 2; i++)
        weft_batch_destroy(l->batch[i]);
    weft_error_release(&l->err);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
}

void weft_loader_want(weft_run *run, int64_t first_sample)
{
    weft_loader *l = &run->loader;
    pthread_mutex_lock(&l->lock);
    l->first_sample = first_sample;
    l->wanted = true;
    l->ready = false;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

weft_status weft_loader_get(weft_run *run, const weft_batch **batch, weft_error *err)
{
    weft_loader *l = &run->loader;
    pthread_mutex_lock(&l->lock);
    while (!l->ready)
        pthread_cond_wait(&l->changed, &l->lock);
    weft_status s = l->status;
    *batch = l->batch[l->filling];
    l->filling = !l->filling;
    l->wanted = false;
    for (int i = 0; s && i < l->err.n_items; i++)
        weft_fail(err, l->err.items[i].status, WEFT_NOWHERE, "%s", l->err.items[i].text);
    pthread_mutex_unlock(&l->lock);
    return s;
}
