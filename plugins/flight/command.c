/* SPDX-License-Identifier: Apache-2.0 */
/* weft flight DIR: which operation not all ranks have entered, and who is missing. */
#include "flight.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <weft/graph.h>
#include <weft/options.h>

enum { LISTED = 16 };

/* ---- words ---- */

static void add_ranks(weft_text *text, const int *ranks, int n)
{
    weft_text_add(text, n == 1 ? "rank" : "ranks");
    for (int i = 0; i < n && i < LISTED; i++)
        weft_text_print(text, "%s %d", i ? "," : "", ranks[i]);
    if (n > LISTED)
        weft_text_print(text, " and %d more", n - LISTED);
}

/* Names may be cut within a letter. */
static void add_utf8(weft_text *text, const char *s)
{
    weft_text_add_utf8(text, s, strlen(s));
}

/* "attention of llama3, block 3, forward, micro-batch 2, step 7" */
static void add_place(weft_text *text, const flight_place *p, const char *what)
{
    add_utf8(text, what);
    if (*p->by)
        weft_text_add(text, " of ");
    add_utf8(text, p->by);
    weft_text_add(text, weft_block_describe(", ", (int)p->block).text);
    weft_text_add(text, *p->part ? ", " : "");
    add_utf8(text, p->part);
    if (p->micro_batch >= 0)
        weft_text_print(text, " of stage %d, micro-batch %" PRId64, (int)p->stage,
                        p->micro_batch + 1);
    if (p->step > 0)
        weft_text_print(text, ", step %" PRId64, p->step);
}

/* What became of its process, where that can be known: on the host that it is on. */
static const char *fate_of(const flight_head *h)
{
    char here[sizeof h->host] = "";
    bool stopped = false;
    if (h->ended)
        return h->status ? "it has ended with an error" : "it has ended";
    if (gethostname(here, sizeof here - 1) != 0 || strcmp(here, h->host) != 0)
        return "on another host";
    int64_t start = flight_process_start(h->pid, &stopped);
    if (start == 0 || (h->process_start && start != h->process_start))
        return "the process is gone";
    return stopped ? "the process is stopped" : "the process lives";
}

static void add_fate(weft_text *text, const flight_head *h)
{
    weft_text_print(text, "    rank %d: process %" PRId64 " on ", h->rank, h->pid);
    add_utf8(text, h->host);
    weft_text_print(text, ", %s; ", fate_of(h));
    weft_text_add(text, "last in ");
    add_place(text, &h->at, h->at.what);
    weft_text_add(text, ", since ");
    weft_text_add_utc(text, h->at_ns);
    weft_text_add(text, "\n");
}

static void add_fates(weft_text *text, const flight_record *l, const int *ranks, int n)
{
    for (int i = 0; i < n && i < LISTED; i++)
        add_fate(text, l->ranks[ranks[i]].head);
}

/* "send of pp, block 1, ... to rank 3: 4096 f32" */
static void add_entry(weft_text *text, const flight_rank *r, const flight_entry *e)
{
    const int32_t *members = flight_rank_members(r, e->group);
    add_place(text, &e->place, flight_kind_name(e->kind));
    weft_text_print(text, ": %" PRId64 " %s", e->count, weft_dtype_name((weft_dtype)e->dtype));
    if (e->kind == FLIGHT_SEND || e->kind == FLIGHT_RECV)
        weft_text_print(text, " %s rank %d", e->kind == FLIGHT_SEND ? "to" : "from",
                        members[e->peer]);
    if (e->kind == FLIGHT_BROADCAST)
        weft_text_print(text, " of rank %d", members[e->peer]);
    if (!*e->place.value)
        return;
    weft_text_add(text, " (");
    add_utf8(text, e->place.value);
    weft_text_add(text, ")");
}

/* ---- what is wrong ---- */

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
    add_entry(text, &l->ranks[s->rank], s->entry);
    weft_text_print(text, "\n    rank %d: ", s->differs);
    if (other)
        add_entry(text, &l->ranks[s->differs], other);
    weft_text_add(text, "\n");
}

static void print_stall(const flight_record *l, const flight_stall *s, weft_text *text)
{
    if (s->differs >= 0) {
        print_difference(l, s, text);
        return;
    }
    bool missing = s->n_missing || s->n_unknown;
    weft_text_add(text, missing ? "the first operation that not all have entered: "
                                : "all have entered this operation, and not all have left it: ");
    add_entry(text, &l->ranks[s->rank], s->entry);
    weft_text_add(text, "\n  entered by ");
    add_ranks(text, s->entered, s->n_entered);
    weft_text_print(text, ", rank %d at ", s->rank);
    weft_text_add_utc(text, s->entry->started_ns);
    weft_text_add(text, "\n");
    if (s->n_missing) {
        weft_text_add(text, "  missing: ");
        add_ranks(text, s->missing, s->n_missing);
        weft_text_add(text, s->is_root ? "\n" : ", which wait for others in a circle\n");
        add_fates(text, l, s->missing, s->n_missing);
    }
    if (s->n_unknown) {
        weft_text_add(text, "  without a record: ");
        add_ranks(text, s->unknown, s->n_unknown);
        weft_text_add(text, "\n");
    }
    if (!missing)
        add_fates(text, l, s->entered, s->n_entered);
}

static void print_others(const flight_record *l, const flight_analysis *a, weft_text *text)
{
    for (int i = 1; i < a->n && i < LISTED; i++) {
        const flight_stall *s = &a->stalls[i];
        weft_text_print(text, "%s  rank %d in ", i == 1 ? "others that wait:\n" : "", s->rank);
        add_entry(text, &l->ranks[s->rank], s->entry);
        weft_text_add(text, s->n_missing ? ", for " : "");
        if (s->n_missing)
            add_ranks(text, s->missing, s->n_missing);
        weft_text_add(text, "\n");
    }
}

/* A rank that is gone without having ended, though nobody waits for it yet. */
static void print_gone(const flight_record *l, weft_text *text)
{
    for (int r = 0; r < l->n; r++) {
        const flight_head *h = l->ranks[r].head;
        if (h && !h->ended && strcmp(fate_of(h), "the process lives") != 0 &&
            strcmp(fate_of(h), "on another host") != 0)
            add_fate(text, h);
    }
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

static weft_status print_analysis(const flight_record *l, weft_text *text, weft_error *err)
{
    flight_analysis a;
    weft_status s = flight_analyse(l, &a, err);
    if (!s) {
        print_head(l, text);
        if (a.n) {
            print_stall(l, &a.stalls[0], text);
            print_others(l, &a, text);
        } else {
            weft_text_add(text, "no rank is inside an operation: nobody waits\n");
            print_gone(l, text);
        }
    }
    flight_analysis_release(&a);
    return s;
}

/* ---- --rank: what one has done ---- */

static void print_entry(const flight_rank *r, const flight_entry *e, weft_text *text)
{
    static const char *const states[] = {"begun", "waiting", "done", "failed"};
    weft_text_print(text, "%" PRIu64 "  ", e->number);
    weft_text_add_utc(text, e->enqueued_ns);
    if (e->started_ns > e->enqueued_ns)
        weft_text_print(text, "  +%.3f ms", 1e-6 * (double)(e->started_ns - e->enqueued_ns));
    if (e->ended_ns)
        weft_text_print(text, "  %.3f ms", 1e-6 * (double)(e->ended_ns - e->started_ns));
    if (e->state != FLIGHT_DONE)
        weft_text_print(text, "  %s",
                        e->state >= 0 && e->state <= FLIGHT_FAILED ? states[e->state] : "?");
    weft_text_add(text, "  ");
    add_entry(text, r, e);
    weft_text_print(text, ", %" PRId64 " bytes, group", e->bytes);
    const flight_group *g = flight_rank_group(r, e->group);
    for (int i = 0; i < g->n && i < LISTED; i++)
        weft_text_print(text, " %d", flight_rank_members(r, e->group)[i]);
    weft_text_add(text, g->n > LISTED ? " ...\n" : "\n");
}

static weft_status print_rank(const flight_record *l, int64_t rank, weft_text *text,
                              weft_error *err)
{
    if (rank >= l->n || !l->ranks[rank].head)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--rank %" PRId64 ": %s has no record of it", rank, l->folder);
    const flight_rank *r = &l->ranks[rank];
    const uint64_t n = r->head->written, from = n > r->head->capacity ? n - r->head->capacity : 0;
    for (uint64_t i = from + 1; i <= n; i++) {
        const flight_entry *e = flight_rank_entry(r, i);
        if (e)
            print_entry(r, e, text);
    }
    add_fate(text, r->head);
    return WEFT_OK;
}

static weft_status run(const weft_command_host *host, int argc, char **argv, weft_error *err)
{
    const char *dir = NULL;
    int64_t rank = -1;
    int n = 0;
    const weft_option list[] = {
        {.name = "rank", .argument = "R", .number = &rank, .min = 0, .max = INT32_MAX},
        {.name = NULL}};
    const weft_options options = {.command = "flight",
                                  .list = list,
                                  .arguments = &dir,
                                  .max_arguments = 1,
                                  .n_arguments = &n};
    weft_status s = weft_options_parse(&options, argc, argv, err);
    if (!s && n < 1)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "weft flight takes the folder of a run: weft flight DIR");
    if (s)
        return s;
    flight_record record;
    weft_text text = {0};
    s = flight_record_read(dir, host->log, &record, err);
    if (!s)
        s = rank >= 0 ? print_rank(&record, rank, &text, err) : print_analysis(&record, &text, err);
    if (!s)
        s = text.out_of_memory ? weft_fail_memory(err)
                               : host->write(host, weft_text_get(&text), text.size, err);
    weft_text_release(&text);
    flight_record_release(&record);
    return s;
}

const weft_command flight_command = {
    "flight", "say which operation not all ranks of a run have entered, and who is missing",
    "usage: weft flight DIR [--rank R]\n"
    "\n"
    "Reads what the plugin flight records in the run folder DIR: of a run that goes on, hangs, or\n"
    "has died. DIR may be the folder of an older record, DIR/flight/TIME.\n"
    "  --rank R   print the last operations of this rank instead\n",
    run};
