/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a record: who is to blame, which operation not all ranks have entered, and where
 * each rank was last. */
#include "flight.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static double seconds_since(const flight_record *l, int64_t ns)
{
    return l->read_ns > ns ? 1e-9 * (double)(l->read_ns - ns) : 0;
}

static void print_head(const flight_record *l, weft_text *text)
{
    const flight_head *first = NULL;
    for (int r = 0; r < l->n && !first; r++)
        first = l->ranks[r].head;
    weft_text_print(text, "%s: %d of %d ranks, recorded since ", l->folder, l->here, l->n);
    weft_text_add_utc(text, first ? first->began_ns : 0);
    weft_text_add(text, "\n");
}

/* ---- where ranks are ---- */

/* A rank, and how many are at the same place. */
typedef struct standing {
    const flight_rank *rank;
    int alike;
} standing;

static bool same_place(const flight_head *a, const flight_head *b)
{
    const flight_place *p = &a->at, *q = &b->at;
    return a->ended == b->ended && a->status == b->status && p->step == q->step &&
           p->micro_batch == q->micro_batch && p->block == q->block && p->stage == q->stage &&
           strcmp(p->what, q->what) == 0 && strcmp(p->value, q->value) == 0 &&
           strcmp(p->part, q->part) == 0;
}

/* Those that have not ended, and of these whoever differs from most; then whoever is there
 * longest. */
static int compare(const void *a, const void *b)
{
    const standing *x = a, *y = b;
    const flight_head *g = x->rank->head, *h = y->rank->head;
    if (g->ended != h->ended)
        return g->ended ? 1 : -1;
    if (x->alike != y->alike)
        return x->alike - y->alike;
    if (g->at_ns != h->at_ns)
        return g->at_ns < h->at_ns ? -1 : 1;
    return g->rank - h->rank;
}

/* All but those that are missing from `but`; NULL, with n 0: out of memory, which is noted. */
static standing *sort_ranks(const flight_record *l, const flight_stall *but, int *n,
                            weft_text *text)
{
    standing *list = weft_alloc_zero((size_t)l->n, sizeof *list);
    *n = 0;
    text->out_of_memory = text->out_of_memory || !list;
    for (int r = 0, k = 0; list && r < l->n; r++) {
        while (but && k < but->n_missing && k < FLIGHT_LISTED && but->missing[k] < r)
            k++;
        bool told = but && k < but->n_missing && k < FLIGHT_LISTED && but->missing[k] == r;
        if (!l->ranks[r].head || told)
            continue;
        list[*n].rank = &l->ranks[r];
        for (int i = 0; i < l->n; i++)
            list[*n].alike += l->ranks[i].head && same_place(l->ranks[i].head, l->ranks[r].head);
        ++*n;
    }
    if (list)
        qsort(list, (size_t)*n, sizeof *list, compare);
    return list;
}

static void add_more(weft_text *text, int n)
{
    if (n > FLIGHT_LISTED)
        weft_text_print(text, "    and %d more\n", n - FLIGHT_LISTED);
}

/* Not of a run that has ended well on all ranks. */
static void print_places(const flight_record *l, const flight_stall *told, weft_text *text)
{
    int n;
    bool well = true;
    for (int r = 0; r < l->n; r++)
        well = well && (!l->ranks[r].head ||
                        (l->ranks[r].fate == FLIGHT_ENDED && !l->ranks[r].head->status));
    if (well)
        return;
    standing *list = sort_ranks(l, told, &n, text);
    if (n)
        weft_text_print(text, "where %sranks were last, who differs from most first:\n",
                        told && told->n_missing ? "the other " : "");
    for (int i = 0; i < n && i < FLIGHT_LISTED; i++)
        flight_add_fate(text, list[i].rank);
    add_more(text, n);
    weft_free(list);
}

static void print_moving_rank(const flight_record *l, const flight_rank *r, weft_text *text)
{
    const flight_entry *e = flight_waiting_in(r);
    weft_text_print(text, "    rank %d: ", r->head->rank);
    if (!flight_may_run(r))
        weft_text_print(text, "%s; last in ", flight_fate_words(r));
    if (e && flight_may_run(r))
        flight_add_entry(text, r, e);
    else
        flight_add_place(text, &r->head->at, r->head->at.what);
    weft_text_print(text, e && flight_may_run(r) ? ", waiting for %.3f s\n" : ", for %.3f s\n",
                    seconds_since(l, e && flight_may_run(r) ? e->started_ns : r->head->at_ns));
}

void flight_report_moving(const flight_record *l, weft_text *text)
{
    int64_t step = 0;
    int n;
    print_head(l, text);
    for (int r = 0; r < l->n; r++)
        if (l->ranks[r].head && l->ranks[r].head->at.step > step)
            step = l->ranks[r].head->at.step;
    weft_text_print(text, "the run moves: step %" PRId64 "\n", step);
    standing *list = sort_ranks(l, NULL, &n, text);
    for (int i = 0; i < n && i < FLIGHT_LISTED; i++)
        print_moving_rank(l, list[i].rank, text);
    add_more(text, n);
    weft_free(list);
}

/* ---- what is wrong ---- */

/* "rank 2 is stopped"; of several "ranks 2, 3 are stopped" */
static void print_culprits(const flight_record *l, const flight_analysis *a, flight_fate fate,
                           const char *one, const char *several, weft_text *text)
{
    int list[FLIGHT_LISTED], n = 0;
    for (int r = 0; r < l->n; r++)
        if (a->is_culprit[r] && l->ranks[r].fate == fate && n++ < FLIGHT_LISTED)
            list[n - 1] = r;
    if (n == 0)
        return;
    flight_add_ranks(text, list, n);
    weft_text_print(text, " %s\n", n == 1 ? one : several);
}

/* Of ranks on one host at least; clocks of others may differ. */
static void print_stillness(const flight_record *l, weft_text *text)
{
    int64_t newest = 0;
    bool runs = false;
    for (int r = 0; r < l->n; r++) {
        const flight_rank *rank = &l->ranks[r];
        runs = runs || flight_may_run(rank);
        if (rank->head && rank->head->at_ns > newest)
            newest = rank->head->at_ns;
    }
    if (runs)
        weft_text_print(text, "nothing has moved for %.1f s\n", seconds_since(l, newest));
}

static const flight_entry *entry_of(const flight_record *l, const flight_stall *s, int rank)
{
    const flight_rank *r = &l->ranks[rank];
    int group = flight_rank_find_group(&l->ranks[s->rank], s->entry->group, r);
    for (uint64_t i = r->head->written; i > 0; i--) {
        const flight_entry *e = flight_rank_entry(r, i);
        if (!e)
            return NULL;
        if (e->group == group && e->in_group == s->entry->in_group && !flight_is_transfer(e->kind))
            return e;
    }
    return NULL;
}

static void print_difference(const flight_record *l, const flight_stall *s, weft_text *text)
{
    const flight_entry *other = entry_of(l, s, s->differs);
    weft_text_print(text, "ranks of one group differ in its operation %" PRIu64 ":\n    rank %d: ",
                    s->entry->in_group, s->rank);
    flight_add_entry(text, &l->ranks[s->rank], s->entry);
    weft_text_print(text, "\n    rank %d: ", s->differs);
    if (other)
        flight_add_entry(text, &l->ranks[s->differs], other);
    weft_text_add(text, "\n");
}

static void print_circle(const flight_record *l, const flight_analysis *a, weft_text *text)
{
    bool elsewhere = false;
    for (int i = 0; i < a->n_circle; i++) {
        weft_text_print(text, "%srank %d waits for rank %d",
                        i ? ", " : "  in a circle: ", a->circle[i],
                        a->circle[(i + 1) % a->n_circle]);
        elsewhere = elsewhere || l->ranks[a->circle[i]].fate == FLIGHT_ELSEWHERE;
    }
    if (a->n_circle)
        weft_text_add(text, elsewhere ? ", unless one on another host is stopped or gone\n" : "\n");
}

static void print_stall(const flight_record *l, const flight_analysis *a, weft_text *text)
{
    const flight_stall *s = &a->stalls[0];
    if (s->differs >= 0) {
        print_difference(l, s, text);
        return;
    }
    bool missing = s->n_missing || s->n_unknown;
    weft_text_add(text, missing ? "the first operation that not all have entered: "
                                : "all have entered this operation, and not all have left it: ");
    flight_add_entry(text, &l->ranks[s->rank], s->entry);
    weft_text_add(text, "\n  entered by ");
    flight_add_ranks(text, s->entered, s->n_entered);
    if (s->n_entered > 1)
        weft_text_print(text, ", rank %d", s->rank);
    weft_text_add(text, " at ");
    weft_text_add_utc(text, s->entry->started_ns);
    weft_text_add(text, "\n");
    if (s->n_missing) {
        weft_text_add(text, "  missing: ");
        flight_add_ranks(text, s->missing, s->n_missing);
        weft_text_add(text, "\n");
        for (int i = 0; i < s->n_missing && i < FLIGHT_LISTED; i++)
            flight_add_fate(text, &l->ranks[s->missing[i]]);
        print_circle(l, a, text);
    }
    if (s->n_unknown) {
        weft_text_add(text, "  without a record: ");
        flight_add_ranks(text, s->unknown, s->n_unknown);
        weft_text_add(text, "\n");
    }
}

static void print_others(const flight_record *l, const flight_analysis *a, weft_text *text)
{
    for (int i = 1; i < a->n && i < FLIGHT_LISTED; i++) {
        const flight_stall *s = &a->stalls[i];
        weft_text_print(text, "%s  rank %d in ", i == 1 ? "also inside operations:\n" : "",
                        s->rank);
        flight_add_entry(text, &l->ranks[s->rank], s->entry);
        weft_text_add(text, s->n_missing ? ", for " : "");
        if (s->n_missing)
            flight_add_ranks(text, s->missing, s->n_missing);
        weft_text_add(text, "\n");
    }
}

void flight_report(const flight_record *l, const flight_analysis *a, weft_text *text)
{
    print_head(l, text);
    print_culprits(l, a, FLIGHT_GONE, "is gone without having ended",
                   "are gone without having ended", text);
    print_culprits(l, a, FLIGHT_STOPPED, "is stopped", "are stopped", text);
    print_culprits(l, a, FLIGHT_ENDED, "has ended with an error of its own",
                   "have ended with errors of their own", text);
    print_stillness(l, text);
    if (a->n) {
        print_stall(l, a, text);
        print_others(l, a, text);
    } else {
        weft_text_add(text, "no rank is inside an operation\n");
    }
    print_places(l, a->n ? &a->stalls[0] : NULL, text);
}
