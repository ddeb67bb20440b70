/* SPDX-License-Identifier: Apache-2.0 */
/* What reports are put together from. */
#include "flight.h"

#include <inttypes.h>
#include <string.h>
#include <weft/graph.h>

void flight_add_ranks(weft_text *text, const int *ranks, int n)
{
    weft_text_add(text, n == 1 ? "rank" : "ranks");
    for (int i = 0; i < n && i < FLIGHT_LISTED; i++)
        weft_text_print(text, "%s %d", i ? "," : "", ranks[i]);
    if (n > FLIGHT_LISTED)
        weft_text_print(text, " and %d more", n - FLIGHT_LISTED);
}

/* Names may be cut within a letter. */
static void add_utf8(weft_text *text, const char *s)
{
    weft_text_add_utf8(text, s, strlen(s));
}

void flight_add_place(weft_text *text, const flight_place *p, const char *what)
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

const char *flight_fate_words(const flight_rank *r)
{
    switch (r->fate) {
    case FLIGHT_LIVES:
        return "the process lives";
    case FLIGHT_STOPPED:
        return "the process is stopped";
    case FLIGHT_GONE:
        return "the process is gone";
    case FLIGHT_ELSEWHERE:
        return "on another host";
    case FLIGHT_ENDED:
        break;
    }
    return r->head->status ? "it has ended with an error" : "it has ended";
}

void flight_add_fate(weft_text *text, const flight_rank *r)
{
    const flight_head *h = r->head;
    weft_text_print(text, "    rank %d: process %" PRId64 " on ", h->rank, h->pid);
    add_utf8(text, h->host);
    weft_text_print(text, ", %s; last in ", flight_fate_words(r));
    flight_add_place(text, &h->at, h->at.what);
    weft_text_add(text, ", since ");
    weft_text_add_utc(text, h->at_ns);
    weft_text_add(text, "\n");
}

void flight_add_entry(weft_text *text, const flight_rank *r, const flight_entry *e)
{
    const int32_t *members = flight_rank_members(r, e->group);
    flight_add_place(text, &e->place, flight_kind_name(e->kind));
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
