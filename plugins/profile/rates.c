/* SPDX-License-Identifier: Apache-2.0 */
/* What the host's memory gives: every thread copies between two arrays of its own that no cache
 * holds. The best of several times counts, as others may disturb one of them. */
#include "profile.h"

#include <pthread.h>
#include <string.h>

enum { BYTES = 32 << 20, TIMES = 4 };

typedef struct copier {
    pthread_t thread;
    char *from, *to;
    double best_s;
} copier;

static void *copy(void *arg)
{
    copier *c = arg;
    weft_blame_set((weft_blame){.plugin = "profile", .hook = "measuring memory"});
    memset(c->from, 1, BYTES);
    memset(c->to, 2, BYTES);
    for (int i = 0; i < TIMES; i++) {
        double start = weft_now();
        memcpy(c->to, c->from, BYTES);
        double took = weft_now() - start;
        c->best_s = i == 0 || took < c->best_s ? took : c->best_s;
    }
    return NULL;
}

double profile_measure_memory(int threads)
{
    copier *list = weft_alloc_zero((size_t)threads, sizeof *list);
    char *memory = weft_alloc_pages((size_t)threads * 2 * BYTES);
    double rate = 0;
    int n = 0;
    for (int i = 0; list && memory && i < threads; i++) {
        list[i].from = memory + (size_t)i * 2 * BYTES;
        list[i].to = list[i].from + BYTES;
    }
    while (list && memory && n < threads &&
           pthread_create(&list[n].thread, NULL, copy, &list[n]) == 0)
        n++;
    for (int i = 0; i < n; i++) {
        pthread_join(list[i].thread, NULL);
        rate += list[i].best_s > 0 ? 2.0 * BYTES / list[i].best_s : 0;
    }
    weft_free_aligned(memory);
    weft_free(list);
    return rate;
}
