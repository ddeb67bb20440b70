/* SPDX-License-Identifier: Apache-2.0 */
/* Mode budget: what is kept follows from how many bytes there are. The first plan keeps all; from
 * it come the seconds of each node, what the backward reads, and where memory is the tightest. Then
 * the fastest choice that should fit is planned, and what the planner says of it corrects the next
 * one, until the best that fits is known. Stages of a pipeline are chosen for each by itself. */
#include "budget.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beside offload, which looks at several ways, each takes so many plans at most. */
enum { SHARED_TRIES = 4, FIRST_TRIES = 6 };

/* ---- the key ---- */

enum { LEAST = 1024 }; /* bytes that may be meant */

weft_status ac_budget_read(ac *self, weft_error *err)
{
    const weft_params *p = self->host->params;
    const char *text = weft_params_text(p, "budget");
    const weft_where at = weft_params_where(p, "budget");
    double bytes;
    self->share = -1;
    if (strcmp(text, "fit") == 0)
        return WEFT_OK;
    if (!weft_parse_bytes(text, &bytes))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "[ac] budget = %s: it is bytes, as 60 GiB, a share of what would be kept "
                         "without ac, as 0.5, or fit",
                         text);
    if (bytes > 1 && bytes < LEAST)
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "[ac] budget = %s: a share is at most 1, as 0.5, and bytes have a unit, as "
            "60 GiB",
            text);
    if (bytes <= 1)
        self->share = bytes;
    else
        self->bytes = (int64_t)bytes;
    return WEFT_OK;
}

static weft_status too_little(const ac *self, const ac_stage *st, int rank, weft_error *err)
{
    const ac_budget *a = self->budget;
    weft_text needs = {0}, has = {0};
    const int64_t libraries = st->device ? a->room - a->limit : 0;
    if (a->n_stages > 1)
        weft_text_print(&needs, "rank %d of the pipeline needs ", rank);
    else
        weft_text_add(&needs, "a rank needs ");
    weft_print_bytes(&needs, (double)(st->least + libraries));
    weft_text_print(&needs, " with %s computed again (state ",
                    st->least_keeps ? "what frees the most" : "everything");
    weft_print_bytes(&needs, (double)st->state);
    weft_text_add(&needs, ", arena ");
    weft_print_bytes(&needs, (double)st->least_arena);
    weft_text_add(&needs, ", buffers that plugins keep and inputs ");
    weft_print_bytes(&needs, (double)(st->least - st->state - st->least_arena));
    if (libraries > 0) {
        weft_text_add(&needs, ", libraries ");
        weft_print_bytes(&needs, (double)libraries);
    }
    if (st->device) {
        weft_text_add(&has, ", and the device has ");
        weft_print_bytes(&has, (double)a->room);
        weft_text_add(&has, " for each rank, libraries among them; take more ranks");
    } else {
        weft_text_add(&has, "; give at least ");
        weft_print_enough(&has, st->least);
        weft_text_add(&has, ", or more ranks");
    }
    weft_status s =
        weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "budget"),
                  "[ac] budget = %s: %s)%s", weft_params_text(self->host->params, "budget"),
                  weft_text_get(&needs), weft_text_get(&has));
    weft_text_release(&needs);
    weft_text_release(&has);
    return s;
}

/* Of the key and the device the one that has less. */
static weft_status find_limit(const ac *self, ac_budget *a, weft_plan *plan, weft_error *err)
{
    const weft_where at = weft_params_where(self->host->params, "budget");
    weft_text text = {0};
    const int64_t shared = ac_shared_limit(self);
    a->shares = shared > 0;
    a->limit = !self->bytes || (a->shares && shared < self->bytes) ? shared : self->bytes;
    if (self->share >= 0)
        return WEFT_OK;
    const int64_t room = weft_plan_room(plan);
    a->room = room > 0 ? room : 0;
    if (self->bytes && a->room && a->room < self->bytes) {
        weft_print_bytes(&text, (double)room);
        weft_warn(self->host, at,
                  "[ac] budget = %s is more than the device has, which is %s for each rank, with "
                  "what libraries take: that holds",
                  weft_params_text(self->host->params, "budget"), weft_text_get(&text));
        weft_text_release(&text);
    }
    if (a->limit)
        return WEFT_OK;
    if (room <= 0)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "[ac] budget = fit: the run's device does not say how much memory it has; "
                         "give bytes, as budget = 60 GiB");
    a->limit = room;
    return WEFT_OK;
}

/* Results of the nodes that a layer does not keep at this point. */
static void mark_layer(ac_budget *a, const ac_layer *l, int point)
{
    const ac_block *b = &l->block;
    const ac_set *kept = &ac_front_of(a, l)->points[point].kept;
    const bool all = point == ac_front_of(a, l)->n - 1;
    for (int i = 0; i < b->n_nodes; i++)
        for (int k = 0; k < b->nodes[i].n_outs; k++)
            a->again[b->values[b->nodes[i].outs[k]].id] = !all && !ac_has(kept, i);
}

/* By id of a layer's first result: its name, without what says which layer; of what the forward
 * computes. */
static const char **find_names(const ac_budget *a, const weft_graph *g)
{
    const char **names = weft_alloc_zero((size_t)a->n_values + 1, sizeof *names);
    for (const weft_node *n = weft_graph_first(g); n && names; n = n->next) {
        if (n->phase != WEFT_FORWARD || !n->n_outs || n->outs[0]->id >= a->n_values)
            continue;
        const char *name = n->outs[0]->name, *dot = strrchr(name, '.');
        names[n->outs[0]->id] = dot ? dot + 1 : name;
    }
    return names;
}

static void print_kept(const ac_budget *a, const char **names, const ac_layer *l, weft_text *text)
{
    const ac_set *kept = &ac_front_of(a, l)->points[l->point].kept;
    int n = 0;
    for (int i = 0; i < l->block.n_nodes; i++)
        if (ac_has(kept, i) && names[l->first[i]])
            weft_text_print(text, "%s%s", n++ ? " " : "", names[l->first[i]]);
    if (n == 0)
        weft_text_add(text, "nothing");
}

static bool is_like(const ac_layer *a, const ac_layer *b)
{
    return a->front == b->front && a->point == b->point;
}

static void print_run(const ac_budget *a, const char **names, int from, int to, weft_text *text)
{
    const ac_layer *l = &a->layers[from];
    const ac_point *p = &ac_front_of(a, l)->points[l->point];
    weft_text_print(text, from == to ? "block %d keeps " : "blocks %d to %d keep ", from, to);
    weft_print_bytes(text, (double)p->one);
    weft_text_add(text, " of ");
    weft_print_bytes(text, (double)ac_full_of(a, l)->one);
    weft_text_add(text, " a micro-batch (");
    print_kept(a, names, l, text);
    weft_text_print(text, "), %.1f %% computed again",
                    100 * p->seconds / fmax(ac_front_of(a, l)->points[0].seconds, 1e-300));
}

static weft_status ask(ac_budget *a, weft_plan *plan, weft_error *err)
{
    const char **names = find_names(a, weft_plan_trained(plan));
    weft_text text = {0};
    if (!names)
        return weft_fail_memory(err);
    for (int r = 0; r < a->n_stages; r++)
        for (int i = 0; i < a->stages[r].n; i++) {
            ac_layer *l = a->stages[r].layers[i];
            l->point = a->stages[r].now.points[i];
            mark_layer(a, l, l->point);
        }
    for (int from = 0, to; from < a->n_layers; from = to) {
        for (to = from + 1; to < a->n_layers && is_like(&a->layers[from], &a->layers[to]); to++)
            continue;
        weft_text_add(&text, from ? "; " : "");
        print_run(a, names, from, to - 1, &text);
    }
    weft_text_print(&text, " (%08x)", (unsigned)weft_hash_bytes(0, a->again, (size_t)a->n_values));
    weft_status s = text.out_of_memory ? weft_fail_memory(err)
                                       : weft_plan_ask(plan, "ac keep", weft_text_get(&text), err);
    weft_text_release(&text);
    weft_free(names);
    return s;
}

/* The first round: what there is, and whether it fits as it is. */
static weft_status begin(ac *self, weft_plan *plan, weft_error *err)
{
    ac_budget *a = self->budget;
    weft_status s = find_limit(self, a, plan, err);
    s = s ? s : ac_look(a, plan, err);
    for (int r = 0; r < a->n_stages && !s; r++) {
        ac_stage *st = &a->stages[r];
        for (int i = 0; i < st->n; i++)
            st->now.points[i] = ac_front_of(a, st->layers[i])->n - 1;
        ac_choice_weigh(a, st, &st->now);
        st->limit = a->limit;
    }
    return s;
}

static weft_status next_share(const ac *self, ac_budget *a, weft_plan *plan, weft_error *err)
{
    for (int r = 0; r < a->n_stages; r++) {
        ac_stage *st = &a->stages[r];
        if (st->n && !ac_choose(a, st, 0, self->share, &st->now))
            ac_choose_least(a, st, &st->now);
    }
    return ask(a, plan, err);
}

static weft_status look_at(ac_budget *a, ac_stage *st, weft_plan *plan, int rank, weft_error *err)
{
    weft_planned p;
    weft_status s = weft_plan_show(plan, rank, &p, err);
    if (s)
        return s;
    st->seen = weft_plan_round(plan);
    st->planned = ac_bytes_of(a, &p);
    st->arena = p.arena;
    st->state = p.state;
    st->device = ac_bytes_of(a, &p) > p.bytes || a->room == a->limit;
    weft_planned_release(&p);
    return WEFT_OK;
}

/* A rank that has found its choice was looked at with it, and others' change nothing there: it is
 * looked at again once all have theirs, for other reviews may have asked for something. */
static weft_status look_again(ac_budget *a, weft_plan *plan, bool all, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int r = 0; r < a->n_stages && !s; r++) {
        ac_stage *st = &a->stages[r];
        if (st->seen != weft_plan_round(plan) && (all || !st->settled))
            s = look_at(a, st, plan, r, err);
    }
    return s;
}

/* *same: this plan has it already. */
static weft_status ask_other(ac_budget *a, weft_plan *plan, bool *same, weft_error *err)
{
    const uint64_t was = weft_hash_bytes(0, a->again, (size_t)a->n_values);
    const weft_status s = ask(a, plan, err);
    *same = was == weft_hash_bytes(0, a->again, (size_t)a->n_values);
    return s;
}

/* same: nothing is asked for that was not. */
static weft_status review_stages(const ac *self, weft_plan *plan, bool *same, weft_error *err)
{
    ac_budget *a = self->budget;
    const int round = weft_plan_round(plan);
    bool all_fit = true;
    int worst = -1;
    for (int r = 0; r < a->n_stages; r++) {
        ac_stage *st = &a->stages[r];
        const bool fits = st->planned <= st->limit;
        all_fit = all_fit && fits;
        ac_learn(a, st);
        st->settled = fits && (st->settled || st->now.seconds <= 0 || st->n == 0);
        if (!st->settled && st->n > 0)
            ac_try_next(a, st, round);
        if (a->shares && st->n > 0)
            ac_settle_shared(a, st, round - a->since >= (!a->ways ? FIRST_TRIES : SHARED_TRIES));
        if (!st->best.known && (st->settled || st->n == 0) &&
            (worst < 0 || st->least > a->stages[worst].least))
            worst = r;
    }
    if (worst >= 0 && !a->shares)
        return too_little(self, &a->stages[worst], worst, err);
    if (all_fit && !weft_asked(self->host, "ac keep")) {
        if (!a->shares)
            weft_inform(self->host, "ac: all activations fit into the budget, and are kept");
        *same = true;
        return WEFT_OK;
    }
    const weft_status s = ask_other(a, plan, same, err);
    if (!s && !all_fit && *same && !a->shares && weft_asked(self->host, "ac keep"))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "[ac] a plan that does not fit is asked for twice");
    return s;
}

static bool keeps_all(const ac_budget *a)
{
    for (int r = 0; r < a->n_stages; r++)
        for (int i = 0; i < a->stages[r].n; i++)
            if (a->stages[r].now.points[i] < ac_front_of(a, a->stages[r].layers[i])->n - 1)
                return false;
    return true;
}

/* Where offload chooses, what it puts far must bring its plan below this budget, too. */
static weft_status ask_limit(const ac *self, const ac_budget *a, weft_plan *plan, weft_error *err)
{
    char text[64];
    if (!a->shares || !self->bytes || a->limit != self->bytes)
        return WEFT_OK;
    snprintf(text, sizeof text, "%lld bytes", (long long)a->limit);
    return weft_plan_ask(plan, "ac memory", text, err);
}

weft_status ac_budget_review(void *self, weft_plan *plan, weft_error *err)
{
    ac *of = self;
    ac_budget *a = of->budget;
    weft_status s = a->n_stages == 0 ? begin(of, plan, err) : WEFT_OK;
    if (s || of->share >= 0)
        return s ? s : next_share(of, a, plan, err);
    s = ask_limit(of, a, plan, err);
    if (s)
        return s;
    bool same = true, anew;
    s = ac_share(of, plan, &anew, err);
    if (!s && anew && (weft_asked(of->host, "ac keep") || !keeps_all(a)))
        s = ask_other(a, plan, &same, err);
    for (int all = 0; all < 2 && same && !s; all++) {
        s = look_again(a, plan, all, err);
        s = s ? s : review_stages(of, plan, &same, err);
    }
    return s;
}

/* ---- the pass ---- */

enum { MOST_NOTES = 8 };

static void note_front(const ac_budget *a, weft_graph *g, int front)
{
    const ac_front *f = &a->fronts[front];
    weft_text text = {0};
    int first = -1, n = 0;
    for (int i = 0; i < a->n_layers; i++) {
        first = a->layers[i].front == front && first < 0 ? i : first;
        n += a->layers[i].front == front;
    }
    const int step = (f->n + 11) / 12;
    for (int i = 0; i < f->n; i += i + step < f->n || i == f->n - 1 ? step : f->n - 1 - i) {
        weft_text_add(&text, i ? ", " : "");
        weft_print_bytes(&text, (double)f->points[i].one);
        weft_text_print(&text, " %.1f %%",
                        100 * f->points[i].seconds / fmax(f->points[0].seconds, 1e-300));
    }
    weft_graph_note(g,
                    "block %d, as %d of %d: of %d sets worth keeping%s, bytes kept and how much is "
                    "computed again: %s",
                    first, n, a->n_layers, f->n, f->exact ? "" : " (there may be more)",
                    weft_text_get(&text));
    weft_text_release(&text);
}

void ac_budget_mark(ac *self, weft_graph *g)
{
    ac_budget *a = self->budget;
    const char *asked = weft_asked(self->host, "ac keep");
    if (!asked) {
        ac_budget_destroy(a);
        self->budget = ac_collect(self, g);
        if (!self->budget)
            weft_fail_memory(weft_graph_error(g));
        return;
    }
    if (a->n_values != weft_graph_values(g)) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "[ac] mode = budget: the graph is another one in this round");
        return;
    }
    for (weft_node *n = weft_graph_first(g); n; n = n->next)
        for (int i = 0; i < n->n_outs; i++)
            if (a->again[n->outs[i]->id])
                weft_set_recompute(g, n->outs[i], true);
    for (int i = 0; i < a->n_fronts && i < MOST_NOTES; i++)
        note_front(a, g, i);
    if (a->n_fronts > MOST_NOTES)
        weft_graph_note(g, "and %d more fronts, of blocks of which another number is held",
                        a->n_fronts - MOST_NOTES);
    if (!a->known)
        weft_graph_note(g, "the device does not say how fast it is: seconds are those of 1e12 "
                           "operations and 1e10 bytes a second");
}
