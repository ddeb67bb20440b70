/* SPDX-License-Identifier: Apache-2.0 */
/* Beside plugin offload. It asks for plans in which more or less of what a forward keeps lies far
 * (requests "offload memory" and "offload way"); for each this looks for what to keep. Where
 * offload chooses behind it, and says how long a byte takes to go and come back, as much more may
 * be kept as that brings there and back while the rest is computed. */
#include "budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 128 };

int64_t ac_shared_limit(const ac *self)
{
    const char *text = weft_asked(self->host, "offload memory");
    return text ? (int64_t)strtod(text, NULL) : 0;
}

/* Seconds of a byte that has yet to be chosen, there and back. false: what lies far is settled. */
static bool find_link(const char *way, double link[2])
{
    char *end = strchr(way, ',');
    if (!end)
        return false;
    link[0] = strtod(end + 1, &end);
    end = strchr(end, ',');
    link[1] = end ? strtod(end + 1, NULL) : 0;
    return true;
}

static void forget(ac_stage *st)
{
    for (int i = 0; i < st->n_off; i++)
        st->off[i] = INT64_MAX;
    st->n_tried = 0;
    st->fits = -1;
    st->exceeds = INT64_MAX;
    st->best.known = false;
    st->least = 0;
    st->settled = false;
}

/* Seconds of a micro-batch with such a choice, and so many bytes far: what a forward keeps goes
 * while it computes, and comes back with the backward, to which is added what is computed again. */
static double seconds_of(const ac_stage *st, const ac_choice *c, double far, const double link[2])
{
    return fmax(st->compute[0], st->link[0] + link[0] * far) +
           fmax(st->compute[1] + c->seconds, st->link[1] + link[1] * far);
}

/* How much more may be kept than there is room for, so that a micro-batch is the fastest. Spoils
 * what is tried now. */
static int64_t find_more(const ac_budget *a, ac_stage *st, const double link[2])
{
    int64_t all = 0, one = 0, best = 0;
    double least = INFINITY;
    for (int i = 0; i < st->n; i++) {
        const ac_layer *l = st->layers[i];
        all += l->places * ac_full_of(a, l)->bytes;
        one += ac_full_of(a, l)->one;
    }
    for (int i = 0; i <= STEPS; i++) {
        const int64_t more = all / STEPS * i;
        if (!ac_choose(a, st, a->limit + more, -1, &st->now))
            continue;
        const double far = all ? (double)more * (double)one / (double)all : 0,
                     seconds = seconds_of(st, &st->now, far, link);
        best = seconds < least ? more : best;
        least = fmin(seconds, least);
    }
    return least < INFINITY ? best : all;
}

/* link: NULL: nothing that is chosen here may go far. */
static void begin_anew(const ac_budget *a, ac_stage *st, const double *link)
{
    forget(st);
    st->limit = a->limit;
    if (link && st->n > 0)
        st->limit += find_more(a, st, link);
    for (int i = 0; i < st->n; i++)
        st->now.points[i] = ac_front_of(a, st->layers[i])->n - 1;
    if (link && st->n > 0)
        ac_choose(a, st, st->limit, -1, &st->now);
    ac_choice_weigh(a, st, &st->now);
}

static bool leave(ac_budget *a)
{
    ac_way *w = ac_take(a, 1, sizeof *w);
    int *points = ac_take(a, (size_t)a->n_layers, sizeof *points);
    if (!w || !points)
        return false;
    for (int r = 0; r < a->n_stages; r++)
        for (int i = 0; i < a->stages[r].n; i++)
            points[a->stages[r].layers[i]->number] = a->stages[r].now.points[i];
    *w = (ac_way){a->way, points, a->ways};
    a->ways = w;
    return true;
}

static const ac_way *find_way(const ac_budget *a, const char *name)
{
    const ac_way *w = a->ways;
    while (w && strcmp(w->name, name) != 0)
        w = w->next;
    return w;
}

/* What was chosen there, by who has seen that it fits. */
static void go_back(const ac_budget *a, ac_stage *st, const ac_way *w)
{
    forget(st);
    for (int i = 0; i < st->n; i++)
        st->now.points[i] = w->points[st->layers[i]->number];
    st->limit = INT64_MAX / 2;
    ac_choice_weigh(a, st, &st->now);
    memcpy(st->best.points, st->now.points, (size_t)st->n * sizeof(int));
    st->best.seconds = st->now.seconds;
    st->best.known = true;
    st->settled = true;
}

weft_status ac_share(ac *self, weft_plan *plan, bool *anew, weft_error *err)
{
    ac_budget *a = self->budget;
    const char *way = weft_asked(self->host, "offload way");
    *anew = a->shares && way && a->way && strcmp(way, a->way) != 0;
    if (!a->shares || !way || (a->way && !*anew))
        return WEFT_OK;
    if (a->way && !leave(a))
        return weft_fail_memory(err);
    a->way = weft_pool_strdup(&a->pool, way);
    a->since = weft_plan_round(plan);
    if (!a->way)
        return weft_fail_memory(err);
    const ac_way *was = find_way(a, way);
    double link[2];
    const bool chooses = find_link(way, link);
    for (int r = 0; r < a->n_stages && *anew; r++)
        if (was)
            go_back(a, &a->stages[r], was);
        else
            begin_anew(a, &a->stages[r], chooses ? link : NULL);
    return WEFT_OK;
}
