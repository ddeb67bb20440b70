/* SPDX-License-Identifier: Apache-2.0 */
/* What tasks take: room for it, and times that were measured. */
#include "compile/graph/graph.h"
#include "forecast/timeline.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int places(const weft_costs *c, weft_part part)
{
    return weft_part_is_micro(part) ? c->stages : c->ranks;
}

weft_status weft_costs_init(weft_costs *c, int ranks, int stages, weft_error *err)
{
    *c = (weft_costs){.ranks = ranks, .stages = stages};
    bool ok = true;
    for (int p = 0; p < WEFT_PARTS; p++) {
        c->seconds[p] = weft_alloc_zero((size_t)places(c, (weft_part)p), sizeof(double));
        ok = ok && c->seconds[p];
    }
    c->of = weft_alloc_zero((size_t)ranks, sizeof *c->of);
    ok = ok && c->of;
    for (int i = 0; i < 2; i++) {
        c->bytes[i] = weft_alloc_zero((size_t)stages, sizeof(double));
        ok = ok && c->bytes[i];
    }
    if (ok)
        return WEFT_OK;
    weft_costs_release(c);
    return weft_fail_memory(err);
}

void weft_costs_level(weft_costs *c)
{
    for (int r = 0; c->of && r < c->ranks; r++) {
        weft_free(c->of[r]);
        c->of[r] = NULL;
    }
}

void weft_costs_release(weft_costs *c)
{
    weft_costs_level(c);
    weft_free(c->of);
    for (int p = 0; p < WEFT_PARTS; p++)
        weft_free(c->seconds[p]);
    weft_free(c->bytes[0]);
    weft_free(c->bytes[1]);
    *c = (weft_costs){0};
}

/* ---- measured times ---- */

typedef struct sample {
    weft_part part;
    int place;
    double seconds;
} sample;

typedef struct reader {
    weft_costs *costs;
    const char *name;
    int line;
    sample *list;
    size_t n, capacity;
    weft_error *err;
} reader;

static weft_status wrong(const reader *r, const char *what)
{
    return weft_fail(r->err, WEFT_ERR_INPUT, (weft_where){r->name, r->line},
                     "%s; a line of metrics.jsonl has \"parts\": [{\"part\": \"forward\", "
                     "\"stage\": 0, \"ms\": 1.2}, ...]",
                     what);
}

static weft_status add(reader *r, weft_part part, int place, double seconds)
{
    if (r->n == r->capacity) {
        size_t more = 2 * r->capacity + 64;
        sample *fresh = weft_realloc(r->list, more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(r->err);
        r->list = fresh;
        r->capacity = more;
    }
    r->list[r->n++] = (sample){part, place, seconds};
    return WEFT_OK;
}

static bool find_part(const char *name, weft_part *part)
{
    for (int p = 0; name && p < WEFT_PARTS; p++)
        if (strcmp(weft_part_name((weft_part)p), name) == 0) {
            *part = (weft_part)p;
            return true;
        }
    return false;
}

/* begin, step_end and update are a rank's; without "rank" they are meant for all. */
static weft_status read_one(reader *r, const json_t *one)
{
    weft_part part;
    const json_t *ms = json_object_get(one, "ms");
    if (!find_part(json_string_value(json_object_get(one, "part")), &part))
        return wrong(r, "a part must be begin, forward, backward, weights, step_end or update");
    if (!json_is_number(ms) || json_number_value(ms) < 0)
        return wrong(r, "a part has no \"ms\" that is a time");
    double seconds = json_number_value(ms) / 1000;
    const json_t *which = json_object_get(one, weft_part_is_micro(part) ? "stage" : "rank");
    int n = places(r->costs, part);
    weft_status s = WEFT_OK;
    if (!which && !weft_part_is_micro(part)) {
        for (int i = 0; i < n && !s; i++)
            s = add(r, part, i, seconds);
        return s;
    }
    json_int_t i = json_is_integer(which) ? json_integer_value(which) : -1;
    if (i < 0 || i >= n)
        return weft_fail(r->err, WEFT_ERR_INPUT, (weft_where){r->name, r->line},
                         "%s %lld of %s: the plan has %d; give times of a run with the same "
                         "pipeline",
                         weft_part_is_micro(part) ? "stage" : "rank", (long long)i,
                         weft_part_name(part), n);
    return add(r, part, (int)i, seconds);
}

/* A line that has no parts is another event's; one that is no JSON, what a killed run left of one.
 */
static weft_status read_line(reader *r, const char *line, size_t n)
{
    json_error_t why;
    json_t *all = json_loadb(line, n, 0, &why);
    const json_t *parts = json_object_get(all, "parts");
    weft_status s = WEFT_OK;
    for (size_t i = 0; i < json_array_size(parts) && !s; i++)
        s = read_one(r, json_array_get(parts, i));
    json_decref(all);
    return s;
}

static int compare(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Of stages that are not split, W takes no time. */
static bool is_needed(const weft_costs *c, weft_part part, int place)
{
    return weft_part_is_micro(part) && (part != WEFT_PART_W || (c->split && c->split[place]));
}

static weft_status set_medians(const reader *r)
{
    if (r->n)
        qsort(r->list, r->n, sizeof *r->list, compare);
    for (int p = 0; p < WEFT_PARTS; p++)
        for (int i = 0; i < places(r->costs, (weft_part)p); i++) {
            const sample *first = r->list, *end = r->list + r->n;
            while (first < end && (first->part != (weft_part)p || first->place != i))
                first++;
            const sample *last = first;
            while (last < end && last->part == (weft_part)p && last->place == i)
                last++;
            r->costs->seconds[p][i] = first < last ? first[(last - first) / 2].seconds : 0;
            if (r->n == 0 && is_needed(r->costs, (weft_part)p, i))
                return weft_fail(r->err, WEFT_ERR_INPUT, (weft_where){r->name, 0},
                                 "no line has times of tasks; set [metrics] parts in a run with "
                                 "the same pipeline, as parts = 10, and give its metrics.jsonl");
            if (first == last && is_needed(r->costs, (weft_part)p, i))
                return weft_fail(r->err, WEFT_ERR_INPUT, (weft_where){r->name, 0},
                                 "no line has a time of %s of stage %d; give the metrics.jsonl of "
                                 "a run with the same pipeline and [metrics] parts",
                                 weft_part_name((weft_part)p), i);
        }
    return WEFT_OK;
}

weft_status weft_costs_parse(weft_costs *costs, const char *name, const char *text, weft_error *err)
{
    reader r = {.costs = costs, .name = name, .err = err};
    weft_status s = WEFT_OK;
    while (*text && !s) {
        size_t n = strcspn(text, "\n");
        r.line++;
        if (n)
            s = read_line(&r, text, n);
        text += n + (text[n] == '\n');
    }
    s = s ? s : set_medians(&r);
    weft_costs_level(costs);
    weft_free(r.list);
    return s;
}
