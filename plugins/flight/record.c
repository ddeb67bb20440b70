/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a run's ranks. What cannot be read, or is of another run, is left out; the others
 * are worth reading without it. */
#include "flight.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/files.h>

bool flight_is_record(const char *name)
{
    return strlen(name) > 17 && name[8] == 'T' && name[15] == 'Z' && name[16] == '-' &&
           strspn(name, "0123456789") == 8;
}

/* ---- the folder ---- */

/* Whose the file is by its name; -1: nobody's. */
static int rank_of(const char *name)
{
    int rank, end = 0;
    bool is = sscanf(name, "rank-%9d%n", &rank, &end) == 1 && !name[end] && rank >= 0;
    return is ? rank : -1;
}

static int is_rank(const struct dirent *e)
{
    return rank_of(e->d_name) >= 0;
}

static int is_run(const struct dirent *e)
{
    return flight_is_record(e->d_name);
}

static int by_rank(const struct dirent **a, const struct dirent **b)
{
    return rank_of((*a)->d_name) - rank_of((*b)->d_name);
}

static void free_list(struct dirent **list, int n)
{
    for (int i = 0; i < n; i++)
        free(list[i]); /* libc's */
    free(list);
}

static weft_status no_folder(const char *dir, const char *folder, weft_error *err)
{
    if (errno == ENOENT)
        return weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "%s has no flight/: list the plugin flight in the run, and give its run folder", dir);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: cannot read this folder: %s", folder,
                     strerror(errno));
}

/* The newest record of a run folder: names are times. */
static weft_status find_newest(const char *dir, char **out, weft_error *err)
{
    struct dirent **list = NULL;
    char *parent = weft_format("%s/flight", dir);
    if (!parent)
        return weft_fail_memory(err);
    int n = scandir(parent, &list, is_run, alphasort);
    weft_status s = n < 0 ? no_folder(dir, parent, err) : WEFT_OK;
    if (n == 0)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: no run has left a record", parent);
    if (n > 0)
        *out = weft_format("%s/%s", parent, list[n - 1]->d_name);
    if (n > 0 && !*out)
        s = weft_fail_memory(err);
    free_list(list, n);
    weft_free(parent);
    return s;
}

static weft_status find_folder(const char *dir, char **out, weft_error *err)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, is_rank, NULL);
    free_list(list, n);
    if (n < 0)
        return no_folder(dir, dir, err);
    if (n == 0)
        return find_newest(dir, out, err);
    *out = weft_strdup(dir);
    return *out ? WEFT_OK : weft_fail_memory(err);
}

/* ---- what of it is one run ---- */

typedef struct files {
    struct dirent **list;
    flight_rank *ranks; /* one for each */
    int n;
} files;

/* What is wrong with one is noted, and the others are read. */
static weft_status read_files(const char *folder, files *f, weft_error *notes, weft_error *err)
{
    for (int i = 0; i < f->n; i++) {
        flight_rank *r = &f->ranks[i];
        char *path = weft_format("%s/%s", folder, f->list[i]->d_name);
        weft_status s = path ? flight_rank_read(path, r, notes) : WEFT_ERR_MEMORY;
        if (!s && r->head->rank != rank_of(f->list[i]->d_name)) {
            weft_fail(notes, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: it is of rank %d", path,
                      r->head->rank);
            flight_rank_release(r);
        }
        weft_free(path);
        if (s == WEFT_ERR_MEMORY)
            return weft_fail_memory(err);
    }
    return WEFT_OK;
}

static bool same_run(const flight_head *a, const flight_head *b)
{
    return a->run_ns == b->run_ns && a->ranks == b->ranks;
}

/* The run that most are of; of as many the one of the lowest rank. */
static const flight_head *find_run(const files *f)
{
    const flight_head *best = NULL;
    int most = 0;
    for (int i = 0; i < f->n && most < f->n - i; i++) {
        const flight_head *h = f->ranks[i].head;
        int n = 0;
        for (int k = i; h && k < f->n; k++)
            n += f->ranks[k].head && same_run(h, f->ranks[k].head);
        best = n > most ? h : best;
        most = n > most ? n : most;
    }
    return best;
}

static void note_other_run(const char *folder, const char *name, const flight_head *h,
                           weft_error *notes)
{
    weft_text began = {0};
    weft_text_add_utc(&began, h->run_ns);
    weft_fail(notes, WEFT_ERR_INPUT, WEFT_NOWHERE,
              "%s/%s: it is of another run, of %d ranks, begun at %s", folder, name, h->ranks,
              weft_text_get(&began));
    weft_text_release(&began);
}

static weft_status take_run(flight_record *l, files *f, weft_error *notes, weft_error *err)
{
    const flight_head *run = find_run(f);
    l->n = run ? run->ranks : 0;
    l->ranks = weft_alloc_zero((size_t)l->n + 1, sizeof *l->ranks);
    if (!l->ranks)
        return weft_fail_memory(err);
    for (int i = 0; i < f->n; i++) {
        const flight_head *h = f->ranks[i].head;
        if (h && !same_run(h, run)) {
            note_other_run(l->folder, f->list[i]->d_name, h, notes);
        } else if (h && !l->ranks[h->rank].head) {
            l->ranks[h->rank] = f->ranks[i];
            f->ranks[i] = (flight_rank){0};
            l->here++;
        }
    }
    return WEFT_OK;
}

static void warn(const weft_log *log, const weft_error *notes)
{
    for (int i = 0; i < notes->n_items; i++)
        if (notes->items[i].text)
            weft_log_print(log, WEFT_LOG_WARN, "%s; left out", notes->items[i].text);
}

static weft_status give_up(const char *folder, const weft_error *notes, weft_error *err)
{
    weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: no rank has left a record%s", folder,
              notes->n_items ? " that can be read" : "");
    for (int i = 0; i < notes->n_items; i++)
        if (notes->items[i].text)
            weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s", notes->items[i].text);
    return WEFT_ERR_INPUT;
}

weft_status flight_record_read(const char *dir, const weft_log *log, flight_record *out,
                               weft_error *err)
{
    files f = {0};
    weft_error notes = {0};
    *out = (flight_record){0};
    weft_status s = find_folder(dir, &out->folder, err);
    if (s)
        return s;
    f.n = scandir(out->folder, &f.list, is_rank, by_rank);
    if (f.n < 0)
        return no_folder(dir, out->folder, err);
    f.ranks = weft_alloc_zero((size_t)f.n + 1, sizeof *f.ranks);
    s = f.ranks ? read_files(out->folder, &f, &notes, err) : weft_fail_memory(err);
    s = s ? s : take_run(out, &f, &notes, err);
    if (!s && out->here == 0)
        s = give_up(out->folder, &notes, err);
    else if (!s)
        warn(log, &notes);
    out->read_ns = weft_utc();
    for (int i = 0; f.ranks && i < f.n; i++)
        flight_rank_release(&f.ranks[i]);
    weft_free(f.ranks);
    free_list(f.list, f.n);
    weft_error_release(&notes);
    return s;
}

void flight_record_release(flight_record *l)
{
    for (int i = 0; l->ranks && i < l->n; i++)
        flight_rank_release(&l->ranks[i]);
    weft_free(l->ranks);
    weft_free(l->folder);
    *l = (flight_record){0};
}

/* ---- does it go on ---- */

static bool moves(const flight_record *l)
{
    bool is = false;
    for (int r = 0; r < l->n && !is; r++) {
        const flight_rank *rank = &l->ranks[r];
        char *path = flight_may_run(rank) ? weft_format("%s/rank-%d", l->folder, r) : NULL;
        is = path && flight_rank_moves(rank, path);
        weft_free(path);
    }
    return is;
}

bool flight_record_moves(const flight_record *l, int64_t within_s)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    const double until = weft_now() + (double)within_s;
    while (weft_now() < until) {
        if (nanosleep(&pause, NULL) != 0 && errno != EINTR)
            return false;
        if (moves(l))
            return true;
    }
    return false;
}
