/* SPDX-License-Identifier: Apache-2.0 */
/* Which block is in which stage: as the user says, or so that the dearest stage is as cheap as can
 * be; and which stage is on which rank. What is cut is the row embedding, block 0, 1, ..., head. */
#include "pp.h"

#include <stdlib.h>
#include <string.h>

/* ---- the row: place 0 is the embedding, n_blocks + 1 the head ---- */

static int block_at(const weft_graph *g, int place)
{
    if (place == 0)
        return WEFT_BLOCK_EMBEDDING;
    return place <= weft_graph_blocks(g) ? place - 1 : WEFT_BLOCK_HEAD;
}

static int place_of(const weft_graph *g, int block)
{
    if (block == WEFT_BLOCK_EMBEDDING)
        return 0;
    return block == WEFT_BLOCK_HEAD ? weft_graph_blocks(g) + 1 : block + 1;
}

/* Operations of the products, which passes that others list before or behind do not change. What
 * has none still takes some time. */
static void count_costs(const weft_graph *g, double *costs)
{
    int places = weft_graph_blocks(g) + 2;
    for (int i = 0; i < places; i++)
        costs[i] = 1;
    for (const weft_node *n = weft_graph_first(g); n; n = n->next) {
        weft_cost cost;
        if (n->block == WEFT_BLOCK_NONE || !weft_node_is(n, WEFT_OP_MATMUL))
            continue;
        weft_node_cost(g, n, &cost);
        costs[place_of(g, n->block)] += cost.flops;
    }
}

/* ---- automatic ---- */

/* Can the row be cut into n parts that cost at most `most` each? begins[i]: the place where part
 * i + 1 begins. Every part gets as much as it may, but leaves one place for each that follows. */
static bool fits(const double *costs, int places, int n, double most, int *begins)
{
    int place = 0;
    for (int part = 0; part < n; part++) {
        double cost = 0;
        int from = place, last = places - (n - 1 - part);
        while (place < last && (place == from || cost + costs[place] <= most))
            cost += costs[place++];
        if (cost > most)
            return false;
        if (part < n - 1)
            begins[part] = place;
    }
    return place == places;
}

/* The least `most` that works is the cost of some stretch of the row: all are tried, the least
 * first. */
static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static weft_status cut_evenly(const weft_graph *g, int n, int *begins, weft_error *err)
{
    size_t places = (size_t)weft_graph_blocks(g) + 2, n_sums = 0;
    double *costs = weft_alloc(places * sizeof *costs);
    double *sums = weft_alloc((places * (places + 1) / 2) * sizeof *sums);
    if (!costs || !sums) {
        weft_free(costs);
        weft_free(sums);
        return weft_fail_memory(err);
    }
    count_costs(g, costs);
    for (size_t from = 0; from < places; from++) {
        double sum = 0;
        for (size_t to = from; to < places; to++)
            sums[n_sums++] = sum += costs[to];
    }
    qsort(sums, n_sums, sizeof *sums, by_size);
    size_t lo = 0, hi = n_sums - 1;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (fits(costs, (int)places, n, sums[mid] * (1 + 1e-12), begins))
            hi = mid;
        else
            lo = mid + 1;
    }
    fits(costs, (int)places, n, sums[lo] * (1 + 1e-12), begins);
    weft_free(costs);
    weft_free(sums);
    return WEFT_OK;
}

/* ---- as the user says ---- */

static weft_status wrong(const pp *self, const char *key, weft_error *err, const char *why)
{
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->params, key), "[pp] %s = %s: %s",
                     key, weft_params_text(self->params, key), why);
}

/* "4 8 head": where each stage but the first begins. */
static weft_status read_split(const pp *self, const weft_graph *g, int *begins, weft_error *err)
{
    int before = 0;
    const char *word;
    for (int i = 0; (word = weft_params_word(self->params, "split", i)); i++) {
        char *end;
        long block = strtol(word, &end, 10);
        bool head = strcmp(word, "head") == 0;
        if (!head && (*end || end == word || block < 0 || block >= weft_graph_blocks(g))) {
            char *why =
                weft_format("'%s' is not a block of the model, which has 0 to %d, and 'head'", word,
                            weft_graph_blocks(g) - 1);
            weft_status s = why ? wrong(self, "split", err, why) : weft_fail_memory(err);
            weft_free(why);
            return s;
        }
        begins[i] = head ? weft_graph_blocks(g) + 1 : (int)block + 1;
        if (begins[i] <= before)
            return wrong(self, "split", err,
                         "it lists the first block of every stage but the first one, each behind "
                         "the one before");
        before = begins[i];
    }
    return WEFT_OK;
}

static int count_words(const pp *self)
{
    int n = 0;
    while (weft_params_word(self->params, "split", n))
        n++;
    return n;
}

int64_t pp_turns(const pp *self)
{
    const int64_t given = weft_params_int(self->params, "virtual_stages");
    const int turns = self->schedule ? pp_schedule_turns(self->schedule) : 0;
    if (given)
        return given;
    if (self->trying)
        return self->trying;
    return self->lists.table || (self->automatic && self->lists.name)
               ? (self->lists.stages + self->degree - 1) / self->degree
           : turns ? turns
                   : 1;
}

int pp_stages(const pp *self)
{
    if (!weft_params_is(self->params, "split", "auto"))
        return count_words(self) + 1;
    return weft_params_is(self->params, "layers_per_stage", "auto")
               ? (int)(self->degree * pp_turns(self))
               : 0;
}

/* The embedding is with the first blocks, the head with the last. */
static int count_by_layers(const pp *self, const weft_graph *g)
{
    int64_t layers = weft_params_int(self->params, "layers_per_stage"),
            blocks = weft_graph_blocks(g);
    return blocks > 0 ? (int)((blocks + layers - 1) / layers) : 1;
}

static void cut_by_layers(const pp *self, int n, int *begins)
{
    for (int i = 1; i < n; i++)
        begins[i - 1] = i * (int)weft_params_int(self->params, "layers_per_stage") + 1;
}

static weft_status check_number(const pp *self, const weft_graph *g, int n, weft_error *err)
{
    int places = weft_graph_blocks(g) + 2;
    bool given = weft_params_int(self->params, "virtual_stages") > 0 ||
                 (weft_params_is(self->params, "split", "auto") &&
                  weft_params_is(self->params, "layers_per_stage", "auto"));
    int64_t want = self->degree * pp_turns(self);
    /* stages a rank that the schedule wants, whatever the degree */
    const int turns = self->schedule ? pp_schedule_turns(self->schedule) : 0,
              each = turns ? turns : 1, most = places / each > 0 ? places / each : 1,
              degree = self->degree < most ? (int)self->degree : most;
    if (n > places)
        return weft_fail(
            err, WEFT_ERR_INPUT,
            weft_params_where(self->params, self->degree > places ? "degree" : "virtual_stages"),
            "[pp] %d stages (degree %d, virtual_stages %lld) are more than the model's "
            "%d blocks, embedding and head can be cut into; at most %d work, so "
            "degree %d with virtual_stages %d",
            n, (int)self->degree, (long long)want / self->degree, weft_graph_blocks(g), places,
            degree, turns ? turns : places / degree);
    if (n % self->degree || (given && n != want))
        return weft_fail(
            err, WEFT_ERR_INPUT,
            weft_params_where(self->params, weft_params_is(self->params, "split", "auto")
                                                ? "layers_per_stage"
                                                : "split"),
            "[pp] %s makes %d stages; degree = %d needs %s%lld",
            weft_params_is(self->params, "split", "auto") ? "layers_per_stage" : "split", n,
            (int)self->degree, given ? "" : "a multiple of ",
            (long long)(given ? want : self->degree));
    return WEFT_OK;
}

static weft_status find_split(pp *self, const weft_graph *g, weft_error *err)
{
    int n = pp_stages(self);
    bool layers = n == 0;
    n = layers ? count_by_layers(self, g) : n;
    weft_status s = check_number(self, g, n, err);
    if (s)
        return s;
    self->begins = weft_alloc((size_t)n * sizeof *self->begins);
    if (!self->begins)
        return weft_fail_memory(err);
    if (layers)
        cut_by_layers(self, n, self->begins);
    else if (weft_params_is(self->params, "split", "auto"))
        s = cut_evenly(g, n, self->begins, err);
    else
        s = read_split(self, g, self->begins, err);
    self->n_blocks = weft_graph_blocks(g);
    self->n_stages = s ? 0 : n;
    return s;
}

/* ---- ranks ---- */

/* Up the ranks and down again. */
static int rank_on_v(const pp *self, int stage)
{
    const int ranks = (int)self->degree, at = stage % ranks;
    return stage / ranks % 2 ? ranks - 1 - at : at;
}

static int rank_on_loop(const pp *self, int stage)
{
    return stage % (int)self->degree;
}

/* Does a file say it of all stages that there are, and of no rank that there is not? */
static bool file_says(const pp *self)
{
    const pp_lists *l = &self->lists;
    bool all = l->name && l->stages == self->n_stages && l->ranks <= self->degree;
    for (int s = 0; all && s < l->stages; s++)
        all = l->rank_of[s] >= 0;
    return all;
}

int pp_rank_of(const pp *self, int stage)
{
    const bool automatic = weft_params_is(self->params, "placement", "auto");
    if (automatic && file_says(self))
        return self->lists.rank_of[stage];
    const bool v = automatic ? (self->schedule && pp_schedule_is_v(self->schedule)) ||
                                   (self->trying && self->n_stages > self->degree)
                             : weft_params_is(self->params, "placement", "v");
    return v ? rank_on_v(self, stage) : rank_on_loop(self, stage);
}

/* Of several stages a rank, the order of a loop has ranks of a V wait in a circle. */
static weft_status check_placement(const pp *self, weft_error *err)
{
    const bool loop = self->schedule && pp_schedule_is_loop(self->schedule);
    if (!loop || self->n_stages == self->degree || !weft_params_is(self->params, "placement", "v"))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->params, "placement"),
                     "[pp] placement = v: schedule %s is made for a loop; take placement out, or "
                     "choose schedule = %s",
                     weft_params_text(self->params, "schedule"),
                     self->n_stages == 2 * self->degree ? "zbv" : "gpipe");
}

static weft_status check_ranks(const pp *self, weft_error *err)
{
    for (int r = 0; r < self->degree; r++) {
        int s = 0;
        while (s < self->n_stages && pp_rank_of(self, s) != r)
            s++;
        if (s == self->n_stages)
            return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->params, "schedule"),
                             "[pp] schedule = %s: rank %d of the pipeline has no stage; every rank "
                             "needs one",
                             weft_params_text(self->params, "schedule"), r);
    }
    return WEFT_OK;
}

static void set_ranks(const pp *self, weft_graph *g)
{
    for (int s = 0; s < self->n_stages; s++)
        if (pp_rank_of(self, s) != rank_on_loop(self, s))
            weft_set_stage_rank(g, s, pp_rank_of(self, s));
}

void pp_forget_split(pp *self)
{
    weft_free(self->begins);
    self->begins = NULL;
    self->n_stages = 0;
}

weft_status pp_split(pp *self, weft_graph *g, weft_error *err)
{
    weft_status s = self->n_stages ? WEFT_OK : pp_load(self, err);
    if (!s && !self->n_stages) {
        s = find_split(self, g, err);
        s = s ? s : check_placement(self, err);
        s = s ? s : check_ranks(self, err);
    }
    for (int place = 0, stage = 0; !s && place < self->n_blocks + 2; place++) {
        while (stage < self->n_stages - 1 && self->begins[stage] <= place)
            stage++;
        weft_set_stage(g, "pp", block_at(g, place), stage);
    }
    if (!s)
        set_ranks(self, g);
    return s ? s : weft_graph_status(g);
}
