/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values: a function of (seed, name, global element index) alone, the same bits on any
 * mesh, machine and number of threads. */
#include "base/blame.h"
#include "execute/run.h"

#include <math.h>
#include <string.h>
#include <weft/random.h>

enum { PIECE = 1 << 16, FAR_PIECE = 1 << 20, TOGETHER = 1 << 10, MAX_THREADS = 64 };

/* x[i]: of element first + i. */
static void draw(const weft_init *init, uint64_t seed, uint64_t stream, uint64_t first, int64_t n,
                 double *x)
{
    if (init->kind == WEFT_INIT_NORMAL || init->kind == WEFT_INIT_TRUNC_NORMAL)
        weft_random_normals(seed, stream, first, n, x);
    for (int64_t i = 0; i < n; i++, first++) {
        /* Rejection: a try is a stream of its own, so that every element has as many as it needs.
         */
        for (uint64_t try = 1; init->kind == WEFT_INIT_TRUNC_NORMAL && fabs(x[i]) > init->cut;
             try++)
            x[i] = weft_normal_inverse(weft_random_uniform(seed, stream + try, first));
        if (init->kind == WEFT_INIT_UNIFORM)
            x[i] = 2 * weft_random_uniform(seed, stream, first) - 1;
        x[i] = init->kind == WEFT_INIT_ONE ? 1 : init->std * x[i];
    }
}

typedef struct job {
    weft_run *run;
    const weft_state_entry *entry;
    weft_tensor tensor;
    int64_t first;       /* element, where the tensor's data begins */
    int64_t next, count; /* elements handed out from there on; all */
    pthread_mutex_t lock;
} job;

static void *work(void *arg)
{
    job *j = arg;
    weft_blame_set_rank(j->run->plan->rank);
    uint64_t stream = weft_hash_name(j->entry->name);
    double x[TOGETHER] = {0};
    for (;;) {
        pthread_mutex_lock(&j->lock);
        int64_t from = j->next;
        j->next += PIECE;
        pthread_mutex_unlock(&j->lock);
        if (from >= j->count)
            return NULL;
        const int64_t to = from + PIECE < j->count ? from + PIECE : j->count;
        for (int64_t n; from < to; from += n) {
            n = weft_elements_in_row(&j->tensor, j->first + from);
            n = n < TOGETHER ? n : TOGETHER;
            n = n < to - from ? n : to - from;
            draw(&j->entry->value->init, j->run->seed, stream,
                 weft_global_index(&j->tensor, j->first + from), n, x);
            for (int64_t i = 0; i < n; i++)
                weft_tensor_set(&j->tensor, from + i, x[i]);
        }
    }
}

/* Helpers are welcome, not needed: whatever cannot be started is done by the others. */
static void fill(job *j, int threads)
{
    pthread_t helper[MAX_THREADS];
    int n = 0;
    pthread_mutex_init(&j->lock, NULL);
    while (n + 1 < threads && n < MAX_THREADS && j->count > PIECE &&
           pthread_create(&helper[n], NULL, work, j) == 0)
        n++;
    work(j);
    for (int i = 0; i < n; i++)
        pthread_join(helper[i], NULL);
    pthread_mutex_destroy(&j->lock);
}

/* Piece by piece. */
static weft_status fill_far(job *j, weft_error *err)
{
    weft_run *run = j->run;
    const int64_t width = (int64_t)weft_dtype_size(j->tensor.dtype), all = j->count;
    j->tensor.data = weft_alloc((size_t)((all < FAR_PIECE ? all : FAR_PIECE) * width));
    weft_status s = j->tensor.data ? WEFT_OK : weft_fail_memory(err);
    for (; j->first < all && !s; j->first += FAR_PIECE) {
        j->next = 0;
        j->count = all - j->first < FAR_PIECE ? all - j->first : FAR_PIECE;
        fill(j, run->threads);
        s = weft_far_move(run, j->entry->offset + j->first * width, j->count * width, NULL,
                          j->tensor.data, err);
    }
    weft_free(j->tensor.data);
    return s ? weft_fail(err, s, WEFT_NOWHERE, "in drawing %s%s, before the first step",
                         j->entry->name,
                         weft_block_describe(", ", j->entry->value->node->block).text)
             : WEFT_OK;
}

weft_status weft_init_state(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    const weft_graph *g = weft_plan_model(plan);
    weft_status s = WEFT_OK;
    for (int i = 0; i < plan->states.n && !s; i++) {
        const weft_state_entry *e = &plan->states.list[i];
        if (e->value->init.kind == WEFT_INIT_ZERO || !e->bytes)
            continue; /* device memory begins as zeros */
        /* on a disk all may take an hour: who looks for progress sees some */
        weft_log_print(run->log, WEFT_LOG_DEBUG, "drawing %s", e->name);
        job j = {.run = run, .entry = e};
        weft_local_tensor(g, e->value, plan->coord, &j.tensor);
        j.count = weft_tensor_count(&j.tensor);
        if (e->far) {
            s = fill_far(&j, err);
            continue;
        }
        char *at = (char *)run->state + e->offset;
        j.tensor.data = plan->device->host_memory ? at : weft_alloc((size_t)e->bytes);
        if (!j.tensor.data)
            return weft_fail_memory(err);
        fill(&j, run->threads);
        if (plan->device->host_memory)
            continue;
        s = weft_device_upload(plan, WEFT_NOW, at, j.tensor.data,
                               (size_t)j.count * weft_dtype_size(j.tensor.dtype), err);
        weft_free(j.tensor.data);
    }
    return s;
}
