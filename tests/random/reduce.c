/* SPDX-License-Identifier: Apache-2.0 */
/* A failing case, made as small as it can be while it still fails the same way. */
#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TRIALS = 300, MOST_S = 60 };

typedef struct reduction {
    random_case *c;
    random_verdict *v;
    int trials;
    time_t until;
} reduction;

static bool is_over(const reduction *r)
{
    return r->trials >= MOST_TRIALS || time(NULL) > r->until;
}

/* Takes the smaller case if it fails as the larger one does. */
static bool try(reduction *r, const random_case *smaller)
{
    random_verdict v;
    if (is_over(r))
        return false;
    r->trials++;
    random_judge(smaller, &v);
    if (v.fault != r->v->fault || strcmp(v.like, r->v->like) != 0)
        return false;
    *r->c = *smaller;
    *r->v = v;
    return true;
}

static bool without_plugins(reduction *r)
{
    bool less = false;
    for (int i = r->c->n_plugins - 1; i >= 0; i--) {
        random_case smaller = *r->c;
        if (smaller.plugins[i].needed)
            continue;
        random_drop_plugin(&smaller, i);
        less = try(r, &smaller) || less;
    }
    return less;
}

/* A number's half, if that is not less than what it can be. */
static bool halve(random_setting *s)
{
    char *end = NULL;
    long x = strtol(s->value, &end, 10);
    if (end == s->value || *end || x < 2 || !s->simple || !*s->simple)
        return false;
    long least = strtol(s->simple, NULL, 10), half = x / 2 > least ? x / 2 : least;
    if (half >= x)
        return false;
    snprintf(s->value, sizeof s->value, "%ld", half);
    return true;
}

static bool simpler_settings(reduction *r)
{
    bool less = false;
    for (int i = r->c->n_settings - 1; i >= 0; i--) {
        random_case smaller = *r->c;
        random_setting *s = &smaller.settings[i];
        if (!s->simple || strcmp(s->simple, s->value) == 0)
            continue;
        if (*s->simple)
            snprintf(s->value, sizeof s->value, "%s", s->simple);
        else
            random_drop_setting(&smaller, i);
        if (try(r, &smaller)) {
            less = true;
            continue;
        }
        smaller = *r->c;
        less = (halve(&smaller.settings[i]) && try(r, &smaller)) || less;
    }
    return less;
}

void random_reduce(random_case *c, random_verdict *v)
{
    reduction r = {.c = c, .v = v, .until = time(NULL) + MOST_S};
    random_case smaller = *c;
    smaller.goes_on = false;
    if (c->goes_on && v->fault < RANDOM_RESUMES)
        try(&r, &smaller);
    bool less = true;
    while (less && !is_over(&r)) {
        less = without_plugins(&r);
        less = simpler_settings(&r) || less;
    }
}
