/* SPDX-License-Identifier: Apache-2.0 */
/* Records as they were left, by ranks that may be dead, or still write. Nothing in a file is
 * believed before it is looked at. */
#include "flight.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <weft/files.h>

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
                     "%s: %s; it is no record that this weft can read", path, what);
}

static bool ends(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

static bool is_place(const flight_place *p)
{
    return ends(p->what, sizeof p->what) && ends(p->value, sizeof p->value) &&
           ends(p->by, sizeof p->by) && ends(p->part, sizeof p->part);
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
    if (size < sizeof *h || h->magic != FLIGHT_MAGIC || h->head_bytes != sizeof *h ||
        h->entry_bytes != sizeof(flight_entry))
        return wrong(path, "it does not begin as one", err);
    if (h->ranks < 1 || h->rank < 0 || h->rank >= h->ranks || h->n_groups < 0 ||
        (size_t)h->n_groups > (size - sizeof *h) / sizeof(flight_group) || !is_place(&h->at) ||
        !ends(h->host, sizeof h->host))
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

static weft_status read_rank(const char *path, flight_rank *r, weft_error *err)
{
    size_t size;
    weft_status s = weft_read_file(path, &r->data, &size, err);
    if (s)
        return s;
    r->head = (const flight_head *)(const void *)r->data;
    return check(r, path, size, err);
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

/* ---- all of them ---- */

static int count_files(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0, rank, end;
    for (const struct dirent *e; d && (e = readdir(d));) {
        end = 0;
        if (sscanf(e->d_name, "rank-%d%n", &rank, &end) == 1 && end && !e->d_name[end] && rank >= 0)
            n++;
    }
    if (d)
        closedir(d);
    return n;
}

/* The newest record of a run folder: names are times. */
static weft_status find_folder(const char *dir, char **out, weft_error *err)
{
    *out = NULL;
    if (count_files(dir) > 0) {
        *out = weft_strdup(dir);
        return *out ? WEFT_OK : weft_fail_memory(err);
    }
    char *parent = weft_format("%s/flight", dir);
    if (!parent)
        return weft_fail_memory(err);
    char newest[256] = "";
    DIR *d = opendir(parent);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, newest) > 0)
            snprintf(newest, sizeof newest, "%s", e->d_name);
    if (d)
        closedir(d);
    if (*newest)
        *out = weft_format("%s/%s", parent, newest);
    weft_free(parent);
    if (*newest)
        return *out ? WEFT_OK : weft_fail_memory(err);
    return weft_fail(
        err, WEFT_ERR_INPUT, WEFT_NOWHERE,
        "%s has no flight/: list the plugin flight in the run, and give its run folder", dir);
}

/* How many ranks there were: any of them knows. */
static weft_status read_all(flight_record *l, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int r = 0; !s && r < l->n; r++) {
        char *path = weft_format("%s/rank-%d", l->folder, r);
        FILE *there = path ? fopen(path, "r") : NULL;
        if (there) {
            fclose(there);
            s = read_rank(path, &l->ranks[r], err);
            if (!s && (l->ranks[r].head->rank != r || l->ranks[r].head->ranks != l->n))
                s = wrong(path, "it is another rank's, or of another number of ranks", err);
            l->here++;
        } else if (!path) {
            s = weft_fail_memory(err);
        }
        weft_free(path);
    }
    return s;
}

static weft_status find_ranks(flight_record *l, weft_error *err)
{
    DIR *d = opendir(l->folder);
    weft_status s = WEFT_OK;
    for (const struct dirent *e; d && !s && l->n == 0 && (e = readdir(d));) {
        if (strncmp(e->d_name, "rank-", 5) != 0)
            continue;
        flight_rank one = {0};
        char *path = weft_format("%s/%s", l->folder, e->d_name);
        s = path ? read_rank(path, &one, err) : weft_fail_memory(err);
        l->n = s ? 0 : one.head->ranks;
        weft_free(one.data);
        weft_free(path);
    }
    if (d)
        closedir(d);
    if (!s && l->n == 0)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: no rank has left a record",
                      l->folder);
    return s;
}

weft_status flight_record_read(const char *dir, flight_record *out, weft_error *err)
{
    *out = (flight_record){0};
    weft_status s = find_folder(dir, &out->folder, err);
    s = s ? s : find_ranks(out, err);
    if (s)
        return s;
    out->ranks = weft_alloc_zero((size_t)out->n, sizeof *out->ranks);
    return out->ranks ? read_all(out, err) : weft_fail_memory(err);
}

void flight_record_release(flight_record *l)
{
    for (int i = 0; l->ranks && i < l->n; i++)
        weft_free(l->ranks[i].data);
    weft_free(l->ranks);
    weft_free(l->folder);
    *l = (flight_record){0};
}
