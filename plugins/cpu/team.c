/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: what OpenMP is told, and what it gives. Its settings belong to the calling thread, and
 * the environment of a process may change any of them (OMP_NUM_THREADS, OMP_DYNAMIC,
 * OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS), so nothing here trusts what it finds. */
#include "cpu.h"

#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

cpu_team cpu_team_begin(int threads)
{
    cpu_team before = {.threads = omp_get_max_threads(), .dynamic = omp_get_dynamic()};
    omp_set_num_threads(threads);
    omp_set_dynamic(0); /* else a busy machine gets smaller teams */
    if (omp_get_max_active_levels() < 1)
        omp_set_max_active_levels(1);
    return before;
}

void cpu_team_end(cpu_team before)
{
    omp_set_num_threads(before.threads);
    omp_set_dynamic(before.dynamic);
}

bool cpu_team_is_whole(int threads)
{
    return threads == 1 || (omp_get_max_threads() == threads && !omp_get_dynamic() &&
                            omp_get_thread_limit() >= threads && !omp_in_parallel());
}

int cpu_team_limit(int threads)
{
    int most = omp_get_thread_limit();
    return threads < 1 ? 1 : threads < most ? threads : most < 1 ? 1 : most;
}

/* ---- asking for them ---- */

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
} gate;

static void *wait_at(void *arg)
{
    gate *g = arg;
    pthread_mutex_lock(&g->lock);
    while (!g->open)
        pthread_cond_wait(&g->opened, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* OpenMP ends the process when it cannot start a thread, so we try first: so many at once. */
static int try_threads(int n, int *started)
{
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};
    pthread_t *list = weft_alloc((size_t)n * sizeof *list + 1);
    int code = list ? 0 : ENOMEM;
    *started = 0;
    while (*started < n && !code)
        if (!(code = pthread_create(&list[*started], NULL, wait_at, &g)))
            ++*started;
    pthread_mutex_lock(&g.lock);
    g.open = true;
    pthread_cond_broadcast(&g.opened);
    pthread_mutex_unlock(&g.lock);
    for (int i = 0; i < *started; i++)
        pthread_join(list[i], NULL);
    weft_free(list);
    return code;
}

weft_status cpu_team_probe(int threads, int *given, weft_error *err)
{
    int started, code = try_threads(threads - 1, &started);
    if (code == ENOMEM)
        return weft_fail_memory(err);
    if (code)
        return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                         "cannot start %d threads: number %d: %s; a smaller [weft] threads needs "
                         "fewer",
                         threads, started + 2, strerror(code));
    cpu_team before = cpu_team_begin(threads);
    int n = 1;
#pragma omp parallel num_threads(threads)
    {
#pragma omp single
        n = omp_get_num_threads();
    }
    cpu_team_end(before);
    *given = n;
    return WEFT_OK;
}
