/* SPDX-License-Identifier: Apache-2.0 */
/* activations = auto. Far memory costs time beside what is computed, keeping costs memory, and
 * computing again (plugin ac) costs time. What a step takes with nothing far, with all, and with
 * what crosses blocks, says the plan. Then ac is told how long a byte takes to go and come back,
 * and leaves as much to be kept as the link may carry; of that goes far what does not fit, in two
 * orders. The fastest plan that fits is the run's. */
#include "offload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAY_NO, WAY_ALL, WAY_SPREAD, WAY_BOUNDARY, WAY_BLOCKS, WAYS };

static const char *const names[] = {[WAY_NO] = "no",
                                    [WAY_ALL] = "all",
                                    [WAY_SPREAD] = "some of each block",
                                    [WAY_BOUNDARY] = "boundary",
                                    [WAY_BLOCKS] = "all of some blocks"};

/* What of plans a way may take to find out how much must go, and when no other is begun. */
enum { MOST_CUTS = 5, LAST_ROUND = WEFT_MOST_ROUNDS - 5, ROUNDS_OF_A_WAY = 6, WITH_AC = 10 };

/* Of a rank of the pipeline, in bytes of one micro-batch; planned: what it then holds. */
typedef struct cut {
    int64_t total, far;
    int64_t little, little_planned; /* the most that was too little */
    int64_t enough, enough_planned; /* the least that was not; -1: none was */
    int64_t planned;
} cut;

typedef struct seen {
    double seconds;
    bool looked_at, fits;
} seen;

struct offload_search {
    weft_pool pool;
    int *rank_of; /* by stage */
    int n_stages, n_ranks;
    cut *cuts;
    int64_t *best_far;    /* by rank */
    int way, tries, best; /* best: -1: nothing has fitted */
    seen seen[WAYS];
    double link[2]; /* seconds for a byte to go, and to come back; 0: nothing has gone yet */
    bool unknown;   /* how long something takes that goes */
    int64_t least;  /* of all plans, what the rank that needs most holds */
    bool over;
};

void offload_search_destroy(offload_search *s)
{
    if (!s)
        return;
    weft_pool_release(&s->pool);
    weft_free(s);
}

int64_t offload_search_least(const offload_search *s)
{
    return s->least;
}

static bool is_partial(int way)
{
    return way == WAY_SPREAD || way == WAY_BLOCKS;
}

int offload_search_way(const offload *self)
{
    const offload_search *s = self->search;
    const int way = s && weft_asked(self->host, "offload way") ? s->way : WAY_NO;
    return way == WAY_NO         ? ACTIVATIONS_NO
           : way == WAY_BOUNDARY ? ACTIVATIONS_BOUNDARY
                                 : ACTIVATIONS_ALL;
}

/* ---- the pass: what lies far ---- */

typedef struct candidate {
    weft_value *value;
    int64_t bytes;
    int index; /* of those of its block */
    bool crosses;
} candidate;

static int sign(int64_t x)
{
    return (x > 0) - (x < 0);
}

/* The same of all blocks, what is large first: so each has something to send while it computes. */
static int compare_spread(const void *a_, const void *b_)
{
    const candidate *a = a_, *b = b_;
    if (a->crosses != b->crosses)
        return a->crosses ? -1 : 1;
    if (a->bytes != b->bytes)
        return sign(b->bytes - a->bytes);
    return a->index != b->index ? a->index - b->index : a->value->id - b->value->id;
}

/* Block by block; what is made first is away the longest. */
static int compare_blocks(const void *a_, const void *b_)
{
    const candidate *a = a_, *b = b_;
    return a->value->id - b->value->id;
}

static bool is_activation(const weft_value *v)
{
    return v->node->part == WEFT_PART_F &&
           !weft_node_is(v->node, WEFT_OP_PARAMETER | WEFT_OP_STATE);
}

static int rank_of(const offload_search *s, const weft_value *v)
{
    const int stage = v->node->stage;
    return stage >= 0 && stage < s->n_stages ? s->rank_of[stage] : 0;
}

static int collect(const weft_graph *g, weft_value *const *list, int n, candidate *out)
{
    int m = 0;
    for (int i = 0; i < n; i++) {
        weft_value *v = list[i];
        if (!is_activation(v))
            continue;
        const bool same = m > 0 && out[m - 1].value->node->block == v->node->block;
        out[m] = (candidate){v, weft_value_part_bytes(g, v), same ? out[m - 1].index + 1 : 0,
                             offload_crosses_blocks(v)};
        m++;
    }
    return m;
}

/* What is behind the cut stays. */
static void take(offload_search *s, const candidate *list, int n, bool *far)
{
    for (int r = 0; r < s->n_ranks; r++)
        s->cuts[r].total = 0;
    for (int i = 0; i < n; i++) {
        cut *c = &s->cuts[rank_of(s, list[i].value)];
        far[list[i].value->id] = c->total < c->far;
        c->total += list[i].bytes;
    }
}

int offload_search_pick(offload *self, weft_graph *g, weft_value **list, int n)
{
    offload_search *s = self->search;
    int kept = 0;
    if (!s || !is_partial(s->way))
        return n;
    candidate *all = weft_alloc(((size_t)n + 1) * sizeof *all);
    bool *far = weft_alloc_zero((size_t)weft_graph_values(g) + 1, sizeof *far);
    if (all && far) {
        const int m = collect(g, list, n, all);
        qsort(all, (size_t)m, sizeof *all, s->way == WAY_SPREAD ? compare_spread : compare_blocks);
        take(s, all, m, far);
        for (int i = 0; i < n; i++)
            if (!is_activation(list[i]) || far[list[i]->id])
                list[kept++] = list[i];
    } else {
        weft_fail_memory(weft_graph_error(g));
    }
    weft_free(all);
    weft_free(far);
    return kept;
}

/* ---- requests ---- */

static weft_status ask_far(offload_search *s, weft_plan *plan, weft_error *err)
{
    weft_text text = {0};
    for (int r = 0; r < s->n_ranks; r++)
        weft_text_print(&text, "%s%lld", r ? " " : "",
                        is_partial(s->way) ? (long long)s->cuts[r].far : 0LL);
    weft_text_add(&text, " bytes of a micro-batch");
    const weft_status status =
        text.out_of_memory ? weft_fail_memory(err)
                           : weft_plan_ask(plan, "offload bytes", weft_text_get(&text), err);
    weft_text_release(&text);
    return status;
}

/* Where far memory is to be paid for, ac is told the price. */
static weft_status ask_way(offload_search *s, weft_plan *plan, int way, weft_error *err)
{
    char text[128];
    s->way = way;
    s->tries = 0;
    snprintf(text, sizeof text, is_partial(way) ? "%s, %.9g s a byte there, %.9g s back" : "%s",
             names[way], s->link[0], s->link[1]);
    return weft_plan_ask(plan, "offload way", text, err);
}

static bool take_room(offload_search *s, const weft_pipeline_view *pipe)
{
    const size_t ranks = (size_t)pipe->ranks, stages = (size_t)pipe->stages;
    s->rank_of = weft_pool_alloc(&s->pool, (stages + 1) * sizeof *s->rank_of);
    s->cuts = weft_pool_alloc(&s->pool, (ranks + 1) * sizeof *s->cuts);
    s->best_far = weft_pool_alloc(&s->pool, (ranks + 1) * sizeof *s->best_far);
    if (!s->rank_of || !s->cuts || !s->best_far)
        return false;
    memcpy(s->rank_of, pipe->rank_of, stages * sizeof *s->rank_of);
    memset(s->cuts, 0, ranks * sizeof *s->cuts);
    memset(s->best_far, 0, ranks * sizeof *s->best_far);
    s->n_ranks = pipe->ranks;
    s->n_stages = pipe->stages;
    return true;
}

weft_status offload_search_begin(offload *self, weft_plan *plan, weft_error *err)
{
    const weft_pipeline_view pipe = weft_plan_pipeline(plan);
    char text[64];
    if (self->activations != ACTIVATIONS_AUTO || weft_asked(self->host, "offload way"))
        return WEFT_OK;
    offload_search_destroy(self->search);
    offload_search *s = self->search = weft_alloc_zero(1, sizeof *s);
    if (!s || !take_room(s, &pipe))
        return weft_fail_memory(err);
    s->best = -1;
    s->least = INT64_MAX;
    snprintf(text, sizeof text, "%lld bytes", (long long)self->limit);
    const weft_status status = weft_plan_ask(plan, "offload memory", text, err);
    return status ? status : ask_way(s, plan, WAY_NO, err);
}

/* ---- what the plan says ---- */

/* Of what goes far in a micro-batch and comes back. */
static void find_link(offload_search *s, const weft_graph *g, const weft_planned *p)
{
    double seconds[2] = {0, 0}, bytes[2] = {0, 0};
    for (int i = 0; i < p->n_instructions; i++) {
        const weft_planned_instruction *in = &p->instructions[i];
        const bool back = in->kind == WEFT_FETCH;
        if ((!back && in->kind != WEFT_EVICT) || in->n_nodes == 0)
            continue;
        s->unknown = s->unknown || in->seconds <= 0;
        bytes[back] += (double)weft_value_part_bytes(g, in->nodes[0]->ins[0]);
        seconds[back] += in->seconds;
    }
    for (int way = 0; way < 2; way++)
        s->link[way] = bytes[way] > 0 ? seconds[way] / bytes[way] : 0;
}

static weft_status look(offload_search *s, weft_plan *plan, int64_t *most, weft_error *err)
{
    weft_status status = WEFT_OK;
    *most = 0;
    for (int r = 0; r < s->n_ranks && !status; r++) {
        weft_planned p;
        status = weft_plan_show(plan, r, &p, err);
        if (status)
            return status;
        s->cuts[r].planned = p.bytes;
        *most = p.bytes > *most ? p.bytes : *most;
        if (s->link[0] <= 0)
            find_link(s, weft_plan_trained(plan), &p);
        weft_planned_release(&p);
    }
    s->least = *most < s->least ? *most : s->least;
    return status;
}

/* ---- how much must go ---- */

static int64_t between(int64_t x, int64_t from, int64_t to)
{
    return x < from ? from : x > to ? to : x;
}

/* What is far next; the same: it is settled. */
static int64_t next_cut(cut *c, int64_t limit, int tries)
{
    const int64_t step = c->total / 64 + 1;
    if (c->planned > limit) {
        c->little = c->far;
        c->little_planned = c->planned;
    } else if (c->enough < 0 || c->far < c->enough) {
        c->enough = c->far;
        c->enough_planned = c->planned;
    }
    if (c->enough == 0)
        return 0;
    if (c->enough < 0)
        return tries >= MOST_CUTS
                   ? c->far
                   : between(c->far + (c->planned - limit > step ? c->planned - limit : step), 0,
                             tries + 2 >= MOST_CUTS
                                 ? c->total
                                 : c->total * (tries + 2) / MOST_CUTS + c->total / MOST_CUTS);
    if (tries >= MOST_CUTS || c->enough - c->little <= step ||
        c->enough_planned > limit - limit / 256)
        return c->enough;
    const double per =
        (double)(c->enough - c->little) / fmax((double)(c->little_planned - c->enough_planned), 1);
    return between(c->little + (int64_t)(per * (double)(c->little_planned - limit)) + step / 2,
                   c->little + step / 2, c->enough - step / 2);
}

/* *same: it is known how much must go, and this plan has it. */
static weft_status cut_more(offload_search *s, weft_plan *plan, int64_t limit, bool *same,
                            weft_error *err)
{
    *same = true;
    for (int r = 0; r < s->n_ranks; r++) {
        cut *c = &s->cuts[r];
        if (s->tries == 0)
            c->little = 0, c->enough = -1;
        const int64_t next =
            next_cut(c, limit, weft_plan_round(plan) >= LAST_ROUND ? MOST_CUTS : s->tries);
        *same = *same && next == c->far;
        c->far = next;
    }
    s->tries++;
    return *same ? WEFT_OK : ask_far(s, plan, err);
}

/* ---- from way to way ---- */

static void enter(offload_search *s, bool fits, double seconds)
{
    s->seen[s->way] = (seen){seconds, true, fits};
    if (!fits || (s->best >= 0 && s->seen[s->best].seconds <= seconds))
        return;
    s->best = s->way;
    for (int r = 0; r < s->n_ranks; r++)
        s->best_far[r] = is_partial(s->way) ? s->cuts[r].far : 0;
}

/* Nothing lies far, nothing is computed again that a budget could keep: no other way is faster. */
static bool is_ideal(const offload *self)
{
    return self->search->best == WAY_NO && !weft_asked(self->host, "ac keep");
}

/* What each way takes goes to the plan's text, for people. */
static weft_status ask_told(const offload_search *s, weft_plan *plan, weft_error *err)
{
    weft_text text = {0};
    weft_text_print(&text, "%s: a step as predicted, by what lies far: ",
                    s->best < 0 ? "none" : names[s->best]);
    for (int i = 0, n = 0; i < WAYS; i++) {
        if (!s->seen[i].looked_at)
            continue;
        weft_text_print(&text, "%s%s ", n++ ? ", " : "", names[i]);
        if (s->seen[i].fits)
            weft_text_print(&text, "%.4g s", s->seen[i].seconds);
        else
            weft_text_add(&text, "does not fit");
    }
    const weft_status status =
        text.out_of_memory ? weft_fail_memory(err)
                           : weft_plan_ask(plan, "offload choice", weft_text_get(&text), err);
    weft_text_release(&text);
    return status;
}

static weft_status end(offload *self, weft_plan *plan, bool *done, weft_error *err)
{
    offload_search *s = self->search;
    s->over = true;
    *done = s->best < 0;
    if (*done)
        return WEFT_OK;
    for (int r = 0; r < s->n_ranks; r++)
        s->cuts[r].far = s->best_far[r];
    weft_status status = ask_way(s, plan, s->best, err);
    status = status ? status : ask_far(s, plan, err);
    return status ? status : ask_told(s, plan, err);
}

/* Is there for another way, and for going back to the best? */
static bool is_time(const offload *self, const weft_plan *plan)
{
    const int rounds = weft_asked(self->host, "ac keep") ? WITH_AC : ROUNDS_OF_A_WAY;
    return weft_plan_round(plan) + rounds <= LAST_ROUND;
}

static weft_status no_rates(const offload *self, weft_error *err)
{
    return weft_fail(
        err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "activations"),
        "[offload] activations = auto needs the speed of far memory: set [disk] read_rate and "
        "write_rate, which `weft disk DIR` measures, or [hostmem] rate");
}

/* Its own, or the budget of ac where that is less. */
static int64_t find_limit(const offload *self)
{
    const char *text = weft_asked(self->host, "ac memory");
    const double own = self->limit, other = text ? strtod(text, NULL) : own;
    return (int64_t)fmin(own, other);
}

weft_status offload_search_step(offload *self, weft_plan *plan, bool *done, weft_error *err)
{
    offload_search *s = self->search;
    const int64_t limit = find_limit(self);
    int64_t most;
    double seconds;
    bool same = true;
    *done = s->over;
    if (s->over)
        return WEFT_OK;
    weft_status status = look(s, plan, &most, err);
    status = status ? status : weft_plan_seconds(plan, &seconds, err);
    if (status)
        return status;
    if (s->unknown)
        return no_rates(self, err);
    if (is_partial(s->way))
        status = cut_more(s, plan, limit, &same, err);
    if (status || !same)
        return status;
    enter(s, most <= limit, seconds);
    if (s->way + 1 == WAYS || is_ideal(self) || !is_time(self, plan))
        return end(self, plan, done, err);
    for (int r = 0; r < s->n_ranks; r++)
        s->cuts[r].far = 0;
    status = ask_way(s, plan, s->way + 1, err);
    return status ? status : ask_far(s, plan, err);
}
