/* SPDX-License-Identifier: Apache-2.0 */
/* A record as it was left, by a rank that may be dead, or still writes. Nothing in a file is
 * believed before it is looked at. */
#include "flight.h"

#include <string.h>
#include <unistd.h>
#include <weft/files.h>

enum { MOST_RANKS = 1 << 24 };

static const char *const kinds[] = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all",
                                    "broadcast",  "send",           "recv"};

const char *flight_kind_name(int kind)
{
    return kind >= 0 && kind < FLIGHT_KINDS ? kinds[kind] : "?";
}

bool flight_is_transfer(int kind)
{
    return kind == FLIGHT_SEND || kind == FLIGHT_RECV;
}

/* ---- one rank ---- */

static weft_status wrong(const char *path, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s: %s; it is not a record that this weft can read", path, what);
}

/* It ends, and nothing in it steers a terminal. What is no UTF-8 may be a name that was cut. */
static bool is_text(const char *text, size_t size)
{
    size_t n = strnlen(text, size);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return n < size;
}

static bool is_place(const flight_place *p)
{
    return is_text(p->what, sizeof p->what) && is_text(p->value, sizeof p->value) &&
           is_text(p->by, sizeof p->by) && is_text(p->part, sizeof p->part);
}

const flight_group *flight_rank_group(const flight_rank *r, int index)
{
    return (const flight_group *)(const void *)(r->data + sizeof *r->head) + index;
}

const int32_t *flight_rank_members(const flight_rank *r, int index)
{
    return (const int32_t *)(const void *)(r->data + flight_rank_group(r, index)->tables);
}

static bool is_group(const flight_rank *r, int index, size_t size)
{
    const flight_group *g = flight_rank_group(r, index);
    const int64_t ranks = r->head->ranks;
    if (g->n < 1 || g->n > ranks || g->me < 0 || g->me >= g->n || g->tables % 8 ||
        g->tables > size || ((size_t)g->n + 1) * 20 + 8 > size - g->tables + 28)
        return false;
    const int32_t *members = flight_rank_members(r, index);
    for (int i = 0; i < g->n; i++)
        if (members[i] < 0 || members[i] >= ranks)
            return false;
    return members[g->me] == r->head->rank;
}

static bool is_entry(const flight_rank *r, const flight_entry *e)
{
    if (e->number == 0)
        return true;
    if (e->group < 0 || e->group >= r->head->n_groups || e->kind < 0 || e->kind >= FLIGHT_KINDS ||
        e->dtype < 0 || e->dtype >= WEFT_DTYPES || !is_place(&e->place))
        return false;
    const int n = flight_rank_group(r, e->group)->n;
    return e->kind < FLIGHT_BROADCAST || (e->peer >= 0 && e->peer < n);
}

static weft_status check(const flight_rank *r, const char *path, size_t size, weft_error *err)
{
    const flight_head *h = r->head;
    if (size == 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s: it is empty: this rank could not make its record, and has said why",
                         path);
    if (size < sizeof *h || h->magic != FLIGHT_MAGIC || h->head_bytes != sizeof *h ||
        h->entry_bytes != sizeof(flight_entry))
        return wrong(path, "it does not begin as one", err);
    if (h->ranks < 1 || h->ranks > MOST_RANKS || h->rank < 0 || h->rank >= h->ranks ||
        h->n_groups < 0 || (size_t)h->n_groups > (size - sizeof *h) / sizeof(flight_group) ||
        !is_place(&h->at) || !is_text(h->host, sizeof h->host))
        return wrong(path, "its head is damaged", err);
    if (h->capacity < 1 || h->entries % 8 || h->entries > size ||
        h->capacity > (size - h->entries) / sizeof(flight_entry))
        return wrong(path, "it is cut off", err);
    for (int i = 0; i < h->n_groups; i++)
        if (!is_group(r, i, size))
            return wrong(path, "a group is damaged", err);
    const flight_entry *e = (const flight_entry *)(const void *)(r->data + h->entries);
    for (uint64_t i = 0; i < h->capacity; i++)
        if (!is_entry(r, &e[i]))
            return wrong(path, "an operation is damaged", err);
    return WEFT_OK;
}

static flight_fate fate_of(const flight_head *h)
{
    char here[sizeof h->host] = "";
    bool stopped = false;
    if (h->ended)
        return FLIGHT_ENDED;
    if (gethostname(here, sizeof here - 1) != 0 || strcmp(here, h->host) != 0)
        return FLIGHT_ELSEWHERE;
    int64_t start = flight_process_start(h->pid, &stopped);
    if (start == 0 || (h->process_start && start != h->process_start))
        return FLIGHT_GONE;
    return stopped ? FLIGHT_STOPPED : FLIGHT_LIVES;
}

static weft_status read_once(const char *path, flight_rank *r, weft_error *err)
{
    size_t size;
    *r = (flight_rank){0};
    weft_status s = weft_read_file(path, &r->data, &size, err);
    if (s)
        return s;
    r->head = (const flight_head *)(const void *)r->data;
    s = check(r, path, size, err);
    if (s)
        flight_rank_release(r);
    else
        r->fate = fate_of(r->head);
    return s;
}

/* What a process that is gone has written is known only now: it may have ended well meanwhile. */
weft_status flight_rank_read(const char *path, flight_rank *r, weft_error *err)
{
    weft_status s = read_once(path, r, err);
    if (s || r->fate != FLIGHT_GONE)
        return s;
    flight_rank_release(r);
    return read_once(path, r, err);
}

void flight_rank_release(flight_rank *r)
{
    weft_free(r->data);
    *r = (flight_rank){0};
}

bool flight_may_run(const flight_rank *r)
{
    return r->head && (r->fate == FLIGHT_LIVES || r->fate == FLIGHT_ELSEWHERE);
}

bool flight_rank_moves(const flight_rank *r, const char *path)
{
    flight_head h;
    int fd;
    weft_error ignored = {0};
    weft_status s = weft_open_file(path, WEFT_NOWHERE, &fd, &ignored);
    weft_error_release(&ignored);
    if (s)
        return false;
    ssize_t n = pread(fd, &h, sizeof h, 0);
    close(fd);
    return n == (ssize_t)sizeof h && (h.written != r->head->written || h.at_ns != r->head->at_ns ||
                                      h.ended != r->head->ended);
}

const flight_entry *flight_rank_entry(const flight_rank *r, uint64_t number)
{
    if (number == 0)
        return NULL;
    const flight_entry *e = (const flight_entry *)(const void *)(r->data + r->head->entries) +
                            (number - 1) % r->head->capacity;
    return e->number == number ? e : NULL;
}

static bool is_same(const flight_rank *a, int i, const flight_rank *b, int k)
{
    const int n = flight_rank_group(a, i)->n;
    return n == flight_rank_group(b, k)->n &&
           memcmp(flight_rank_members(a, i), flight_rank_members(b, k),
                  (size_t)n * sizeof(int32_t)) == 0;
}

int flight_rank_find_group(const flight_rank *r, int index, const flight_rank *other)
{
    int before = 0;
    for (int i = 0; i < index; i++)
        before += is_same(r, index, r, i);
    for (int k = 0; k < other->head->n_groups; k++)
        if (is_same(r, index, other, k) && before-- == 0)
            return k;
    return -1;
}
