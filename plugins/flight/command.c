/* SPDX-License-Identifier: Apache-2.0 */
/* weft flight DIR: which operation not all ranks have entered, and who is missing. */
#include "flight.h"

#include <inttypes.h>
#include <weft/options.h>

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
    flight_add_entry(text, r, e);
    weft_text_print(text, ", %" PRId64 " bytes, group", e->bytes);
    const flight_group *g = flight_rank_group(r, e->group);
    for (int i = 0; i < g->n && i < FLIGHT_LISTED; i++)
        weft_text_print(text, " %d", flight_rank_members(r, e->group)[i]);
    weft_text_add(text, g->n > FLIGHT_LISTED ? " ...\n" : "\n");
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
    flight_add_fate(text, r);
    return WEFT_OK;
}

static bool may_move(const flight_record *l)
{
    for (int r = 0; r < l->n; r++)
        if (flight_may_run(&l->ranks[r]))
            return true;
    return false;
}

/* A run that goes on is always inside something: only what nobody leaves says anything. */
static weft_status print_analysis(const flight_record *l, int64_t wait_s, weft_text *text,
                                  weft_error *err)
{
    flight_analysis a;
    weft_status s = flight_analyse(l, &a, err);
    if (!s && a.n_culprits == 0 && may_move(l) && flight_record_moves(l, wait_s))
        flight_report_moving(l, text);
    else if (!s)
        flight_report(l, &a, text);
    flight_analysis_release(&a);
    return s;
}

static weft_status run(const weft_command_host *host, int argc, char **argv, weft_error *err)
{
    const char *dir = NULL;
    int64_t rank = -1, wait_s = 2;
    int n = 0;
    const weft_option list[] = {
        {.name = "rank", .argument = "R", .number = &rank, .min = 0, .max = INT32_MAX},
        {.name = "wait", .argument = "S", .number = &wait_s, .min = 0, .max = 3600},
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
        s = rank >= 0 ? print_rank(&record, rank, &text, err)
                      : print_analysis(&record, wait_s, &text, err);
    if (!s)
        s = text.out_of_memory ? weft_fail_memory(err)
                               : host->write(host, weft_text_get(&text), text.size, err);
    weft_text_release(&text);
    flight_record_release(&record);
    return s;
}

const weft_command flight_command = {
    "flight",
    "say which operation some ranks of a run have not entered, and which ranks are missing",
    "usage: weft flight DIR [--rank R] [--wait S]\n"
    "\n"
    "Reads what the plugin flight records in the run folder DIR: of a run that goes on, hangs, or\n"
    "has died. DIR may be the folder of an older record, DIR/flight/TIME.\n"
    "  --rank R   print the last operations of this rank instead\n"
    "  --wait S   look for S seconds whether the run moves before anybody is blamed (default: 2)\n",
    run};
