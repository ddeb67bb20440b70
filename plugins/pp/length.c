/* SPDX-License-Identifier: Apache-2.0 */
/* What lists take, in whole numbers: each rank does its tasks one after the other, and waits for
 * what it is sent. */
#include "search.h"

#include <string.h>

enum { NONE = -1 };

/* From one rank to another, of one kind. What both ends have begun goes over in turn. */
typedef struct channel {
    int64_t *sent, *wanted, *done; /* when */
    int *what, *which;             /* is sent, is wanted: maker's stage and micro-batch */
    int64_t *takes;
    int n_sent, n_wanted, n_done;
} channel;

struct pp_clock {
    const pp_pipeline *p;
    weft_pool pool;
    int micro;
    channel *channels;
    int n_channels;
    int *channel_of[2];    /* by stage that sends on, back; NONE: its result stays */
    int64_t *results[2];   /* by stage and micro-batch: when F, when I is over; NONE */
    int64_t *clock;        /* by rank */
    int64_t *left;         /* by rank: what its tasks still take */
    int64_t *bytes, *most; /* by rank: held now, at most */
    int64_t *unit, *room;  /* by rank: bytes of one micro-batch, and what may be held */
    int *at, *end;         /* by rank: the next item, and behind its last */
    bool *come;            /* by rank: it has come to that item */
    int *arrival[2]; /* by rank: number in its channel of what the next item, and the one behind it,
                        are sent */
    bool *broken;    /* of one: received in another order than sent, or too long */
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t pp_unit(const pp_pipeline *p, int rank)
{
    int64_t bytes = 0;
    for (int s = 0; s < p->view.stages; s++)
        if (p->view.rank_of[s] == rank)
            bytes += later(p->stages[s].kept, p->stages[s].held);
    return bytes > 0 ? bytes : 1;
}

int64_t pp_room(const pp_pipeline *p, int rank)
{
    return p->bytes ? p->bytes : p->alive * pp_unit(p, rank);
}

/* ---- room ---- */

static void *take(pp_clock *c, size_t n, size_t size, bool *ok)
{
    void *room = weft_pool_alloc(&c->pool, (n + 1) * size);
    *ok = *ok && room;
    return room;
}

/* The channel of two ranks and a way, which is made if it is not there; of: by way and ranks. */
static int find_channel(pp_clock *c, int *of, int way, int from, int to)
{
    const int ranks = c->p->view.ranks;
    int *number = &of[(way * ranks + from) * ranks + to];
    if (!*number)
        *number = ++c->n_channels;
    return *number - 1;
}

static void find_channels(pp_clock *c, int *of)
{
    const weft_pipeline_view *v = &c->p->view;
    for (int way = 0; way < 2; way++)
        for (int s = 0; s < v->stages; s++) {
            const int to = way ? s - 1 : s + 1;
            const bool stays = to < 0 || to >= v->stages || v->rank_of[to] == v->rank_of[s];
            c->channel_of[way][s] =
                stays ? NONE : find_channel(c, of, way, v->rank_of[s], v->rank_of[to]);
        }
}

static bool reserve(pp_clock *c)
{
    const weft_pipeline_view *v = &c->p->view;
    const size_t ranks = (size_t)v->ranks, stages = (size_t)v->stages, micro = (size_t)c->micro;
    bool ok = true;
    int *of = take(c, 2 * ranks * ranks, sizeof *of, &ok);
    for (int way = 0; way < 2; way++) {
        c->channel_of[way] = take(c, stages, sizeof(int), &ok);
        c->results[way] = take(c, stages * micro, sizeof(int64_t), &ok);
        c->arrival[way] = take(c, ranks, sizeof(int), &ok);
    }
    c->clock = take(c, ranks, sizeof *c->clock, &ok);
    c->left = take(c, ranks, sizeof *c->left, &ok);
    c->bytes = take(c, ranks, sizeof *c->bytes, &ok);
    c->most = take(c, ranks, sizeof *c->most, &ok);
    c->unit = take(c, ranks, sizeof *c->unit, &ok);
    c->room = take(c, ranks, sizeof *c->room, &ok);
    c->at = take(c, ranks, sizeof *c->at, &ok);
    c->end = take(c, ranks, sizeof *c->end, &ok);
    c->come = take(c, ranks, sizeof *c->come, &ok);
    c->broken = take(c, 1, sizeof *c->broken, &ok);
    c->channels = take(c, 2 * stages, sizeof *c->channels, &ok);
    if (!ok)
        return false;
    find_channels(c, of);
    for (int r = 0; r < v->ranks; r++) {
        c->unit[r] = pp_unit(c->p, r);
        c->room[r] = pp_room(c->p, r);
    }
    for (int i = 0; i < c->n_channels; i++) {
        size_t n = 0;
        for (int way = 0; way < 2; way++)
            for (int s = 0; s < v->stages; s++)
                n += c->channel_of[way][s] == i ? micro : 0;
        channel *k = &c->channels[i];
        k->sent = take(c, n, sizeof *k->sent, &ok);
        k->wanted = take(c, n, sizeof *k->wanted, &ok);
        k->done = take(c, n, sizeof *k->done, &ok);
        k->takes = take(c, n, sizeof *k->takes, &ok);
        k->what = take(c, n, sizeof *k->what, &ok);
        k->which = take(c, n, sizeof *k->which, &ok);
    }
    return ok;
}

weft_status pp_clock_create(const pp_pipeline *p, pp_clock **out, weft_error *err)
{
    pp_clock *c = weft_alloc_zero(1, sizeof *c);
    *out = c;
    if (!c)
        return weft_fail_memory(err);
    c->p = p;
    c->micro = (int)p->view.micro_batches;
    if (reserve(c))
        return WEFT_OK;
    pp_clock_destroy(c);
    *out = NULL;
    return weft_fail_memory(err);
}

void pp_clock_destroy(pp_clock *c)
{
    if (c)
        weft_pool_release(&c->pool);
    weft_free(c);
}

/* ---- what is sent ---- */

static void settle(const pp_clock *c, channel *k)
{
    while (k->n_done < k->n_sent && k->n_done < k->n_wanted) {
        const int i = k->n_done++;
        *c->broken = *c->broken || k->what[i] != k->which[i];
        k->done[i] = later(later(k->sent[i], k->wanted[i]), i ? k->done[i - 1] : 0) + k->takes[i];
    }
}

/* The stage that makes what an item waits for; NONE: none, or the item's own forward. */
static int maker_of(const pp_clock *c, const pp_item *item)
{
    if (item->letter == 'F')
        return item->stage - 1;
    return item->letter == 'W' || item->stage + 1 == c->p->view.stages ? NONE : item->stage + 1;
}

/* The channel that brings it; NULL: none does. */
static channel *brought_by(const pp_clock *c, const pp_item *item)
{
    const int maker = maker_of(c, item);
    const int number = maker == NONE ? NONE : c->channel_of[item->letter != 'F'][maker];
    return number == NONE ? NULL : &c->channels[number];
}

/* Begins the receive of an item, if it has one. */
static int post(const pp_clock *c, const pp_item *item, int64_t now)
{
    channel *k = brought_by(c, item);
    if (!k)
        return NONE;
    k->wanted[k->n_wanted] = now;
    k->which[k->n_wanted++] = maker_of(c, item) * c->micro + (int)item->micro;
    settle(c, k);
    return k->n_wanted - 1;
}

static void send(const pp_clock *c, const pp_item *item, int64_t now)
{
    const int way = item->letter != 'F', number = c->channel_of[way][item->stage];
    if (number == NONE || item->letter == 'W')
        return;
    channel *k = &c->channels[number];
    k->sent[k->n_sent] = now;
    k->takes[k->n_sent] = c->p->stages[item->stage].sends[way];
    k->what[k->n_sent++] = item->stage * c->micro + (int)item->micro;
    settle(c, k);
}

/* ---- tasks ---- */

static int64_t *result(const pp_clock *c, int way, int stage, int64_t micro)
{
    return &c->results[way][stage * c->micro + micro];
}

/* When an item can begin; false: nobody knows yet. */
static bool find_start(const pp_clock *c, int rank, const pp_item *item, int64_t *start)
{
    const int maker = maker_of(c, item);
    const channel *k = brought_by(c, item);
    *start = c->clock[rank];
    if (item->letter == 'W')
        return *result(c, 1, item->stage, item->micro) != NONE;
    if (item->letter != 'F' && *result(c, 0, item->stage, item->micro) == NONE)
        return false;
    if (!k)
        return maker == NONE || *result(c, item->letter != 'F', maker, item->micro) != NONE;
    if (c->arrival[0][rank] >= k->n_done)
        return false;
    *start = later(*start, k->done[c->arrival[0][rank]]);
    return true;
}

static int64_t takes(const pp_stage *s, char letter)
{
    return letter == 'F'   ? s->takes[PP_F]
           : letter == 'W' ? s->takes[PP_W]
                           : s->takes[PP_I] + (letter == 'B' ? s->takes[PP_W] : 0);
}

static void count_bytes(const pp_clock *c, int rank, const pp_item *item)
{
    const pp_stage *s = &c->p->stages[item->stage];
    c->bytes[rank] += item->letter == 'F'   ? s->kept
                      : item->letter == 'B' ? -s->kept
                      : item->letter == 'I' ? s->held - s->kept
                                            : -s->held;
    c->most[rank] = later(c->most[rank], c->bytes[rank]);
}

/* One thing more on this rank, if something can happen there. */
static bool advance(const pp_clock *c, const pp_lists *l, int64_t most, int rank)
{
    const int i = c->at[rank];
    int64_t start;
    if (i == c->end[rank] || *c->broken)
        return false;
    const pp_item *item = &l->items[i];
    if (!c->come[rank]) {
        const bool first = i == 0 || l->items[i - 1].rank != rank;
        c->arrival[0][rank] = first ? post(c, item, c->clock[rank]) : c->arrival[1][rank];
        c->arrival[1][rank] = i + 1 < c->end[rank] ? post(c, item + 1, c->clock[rank]) : NONE;
        return c->come[rank] = true;
    }
    if (!find_start(c, rank, item, &start))
        return false;
    const int64_t own = takes(&c->p->stages[item->stage], item->letter), end = start + own;
    c->left[rank] -= own;
    *c->broken = *c->broken || end + c->left[rank] > most;
    if (item->letter != 'W')
        *result(c, item->letter != 'F', item->stage, item->micro) = end;
    send(c, item, end);
    count_bytes(c, rank, item);
    c->clock[rank] = end;
    c->at[rank]++;
    c->come[rank] = false;
    return true;
}

static void begin(pp_clock *c, const pp_lists *l)
{
    const weft_pipeline_view *v = &c->p->view;
    const size_t ranks = (size_t)v->ranks;
    memset(c->clock, 0, ranks * sizeof *c->clock);
    memset(c->bytes, 0, ranks * sizeof *c->bytes);
    memset(c->most, 0, ranks * sizeof *c->most);
    memset(c->come, 0, ranks * sizeof *c->come);
    *c->broken = false;
    for (int way = 0; way < 2; way++)
        memset(c->results[way], NONE, (size_t)v->stages * (size_t)c->micro * sizeof(int64_t));
    for (int i = 0; i < c->n_channels; i++)
        c->channels[i].n_sent = c->channels[i].n_wanted = c->channels[i].n_done = 0;
    int at = 0;
    for (int r = 0; r < v->ranks; r++) {
        c->at[r] = at;
        c->left[r] = 0;
        for (; at < (int)l->n && l->items[at].rank == r; at++)
            c->left[r] += takes(&c->p->stages[l->items[at].stage], l->items[at].letter);
        c->end[r] = at;
    }
}

bool pp_clock_run(pp_clock *c, const pp_lists *l, int64_t most, pp_length *out)
{
    const weft_pipeline_view *v = &c->p->view;
    begin(c, l);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < v->ranks; r++)
            while (advance(c, l, most, r))
                moved = true;
    }
    *out = (pp_length){.fits = true};
    for (int r = 0; r < v->ranks; r++) {
        const int64_t unit = c->unit[r], held = c->most[r];
        if (c->at[r] < c->end[r] || *c->broken)
            return false;
        out->ends = later(out->ends, c->clock[r]);
        out->thousand = later(out->thousand, held / unit * 1000 + held % unit * 1000 / unit);
        out->fits = out->fits && held <= c->room[r];
    }
    return true;
}
