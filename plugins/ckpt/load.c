/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a checkpoint and filling the state from it. Rank 0 chooses; every rank reads its own
 * boxes; all go on, or to the next older one, alike. */
#include "ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What rank 0 has chosen. */
typedef struct candidate {
    int32_t status;  /* not 0: rank 0 could not choose; text says why */
    bool found, own; /* own: of this run's folder, where an older one may take its place */
    bool weights;    /* [ckpt] initial: parameters alone */
    char path[CKPT_PATH];
} candidate;

/* ---- choosing, on rank 0 ---- */

static weft_status set_path(candidate *c, char *path, weft_error *err)
{
    size_t n = path ? strlen(path) : 0;
    if (!path)
        return weft_fail_memory(err);
    weft_status s = n < sizeof c->path ? WEFT_OK
                                       : weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                                   "%.60s...: the path is too long", path);
    if (!s)
        memcpy(c->path, path, n + 1);
    c->found = !s;
    weft_free(path);
    return s;
}

static weft_status choose_step(const ckpt *self, int64_t step, candidate *c, weft_error *err)
{
    weft_text have = {0};
    ckpt_list list;
    weft_status s = ckpt_scan(self->io, self->root, &list, err);
    bool there = false;
    for (int i = 0; i < list.n; i++) {
        there = there || (list.list[i].step == step && list.list[i].whole);
        if (list.list[i].whole)
            weft_text_print(&have, " %" PRId64, list.list[i].step);
    }
    if (!s && !there)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->params, "load"),
                      "[ckpt] load = %" PRId64 ": %s has no whole checkpoint of that step%s%s",
                      step, self->root, have.size ? "; there are those of steps" : "",
                      weft_text_get(&have));
    s = s ? s : set_path(c, ckpt_step_path(self->root, step), err);
    weft_text_release(&have);
    ckpt_list_release(&list);
    return s;
}

/* Files of a checkpoint that may be worth much, and nothing to go on from: whoever comes back in
 * the morning would rather put a manifest back than find a night's training from step 1. */
static weft_status refuse_strays(const ckpt *self, const ckpt_list *list, weft_error *err)
{
    for (int i = list->n - 1; i >= 0; i--)
        if (!list->list[i].unfinished)
            return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->params, "load"),
                             "%s has no whole checkpoint, but step-%" PRId64
                             ", which has files and no manifest.json; put the manifest back, or "
                             "begin anew with [ckpt] load = none, which sets such folders aside",
                             self->root, list->list[i].step);
    return WEFT_OK;
}

/* The newest whole one that is older than `below`; unfinished ones are passed over aloud. */
static weft_status choose_latest(const ckpt *self, int64_t below, candidate *c, weft_error *err)
{
    ckpt_list list;
    bool any = false;
    weft_status s = ckpt_scan(self->io, self->root, &list, err);
    for (int i = list.n - 1; i >= 0 && !s && !c->found; i--) {
        any = any || list.list[i].whole;
        if (list.list[i].step >= below)
            continue;
        if (list.list[i].whole)
            s = set_path(c, ckpt_step_path(self->root, list.list[i].step), err);
        else if (list.list[i].unfinished)
            weft_log_print(self->host->log, WEFT_LOG_WARN,
                           "%s/step-%" PRId64
                           " is unfinished: the run ended while it was written; it is left out",
                           self->root, list.list[i].step);
    }
    s = s || any ? s : refuse_strays(self, &list, err);
    ckpt_list_release(&list);
    return s;
}

static bool is_number(const char *text, int64_t *n)
{
    char *end;
    errno = 0;
    *n = strtoll(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

static weft_status choose_folder(const ckpt *self, const char *key, candidate *c, weft_error *err)
{
    char *path;
    weft_error why = {0};
    weft_status s = ckpt_resolve(self->io, weft_params_text(self->params, key), &path, &why);
    if (s)
        weft_fail(err, s, weft_params_where(self->params, key), "[ckpt] %s: %s", key,
                  weft_error_text(&why));
    weft_error_release(&why);
    return s ? s : set_path(c, path, err);
}

static weft_status choose(const ckpt *self, int64_t below, candidate *c, weft_error *err)
{
    const char *load = weft_params_text(self->params, "load");
    int64_t step;
    weft_status s = WEFT_OK;
    if (strcmp(load, "latest") == 0) {
        c->own = true;
        s = self->root ? choose_latest(self, below, c, err) : WEFT_OK;
    } else if (is_number(load, &step)) {
        s = self->root
                ? choose_step(self, step, c, err)
                : weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->params, "load"),
                            "[ckpt] load = %s: there is no run folder; set [weft] dir", load);
    } else if (strcmp(load, "none") != 0) {
        s = choose_folder(self, "load", c, err);
    }
    if (s || c->found || below < INT64_MAX || !*weft_params_text(self->params, "initial"))
        return s;
    c->weights = true;
    c->own = false; /* no older one takes its place */
    return choose_folder(self, "initial", c, err);
}

/* ---- reading, on every rank ---- */

static bool same_shape(const weft_stored *a, const weft_tensor *b)
{
    return weft_sizes_are_same(a->size, a->n_dims, b->whole, b->n_dims);
}

static weft_status wrong_shape(const ckpt_manifest *m, const weft_stored *a,
                               const weft_state_tensor *t, weft_error *err)
{
    char then[WEFT_SIZES_TEXT], now[WEFT_SIZES_TEXT];
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s is of another model: %s is %s there, %s here", m->path, t->name,
                     weft_sizes_print(then, a->size, a->n_dims),
                     weft_sizes_print(now, t->tensor.whole, t->tensor.n_dims));
}

typedef struct loading {
    const ckpt *self;
    const weft_state_view *state;
    const candidate *c;
    ckpt_manifest manifest;
    weft_text changes;
    bool other_data;
} loading;

/* What a plugin keeps for each rank, and does without where it is not that of this mesh. */
static bool begins_anew(const weft_state_tensor *t, const weft_folder *folder)
{
    const weft_stored *stored = weft_folder_find(folder, t->name);
    return t->resets && (!stored || !same_shape(stored, &t->tensor));
}

/* Is it left as it begins? */
static bool is_left(const loading *l, const weft_state_tensor *t, const weft_folder *folder)
{
    return (l->c->weights && !ckpt_of_model(t)) || ckpt_excluded(l->self->params, t->name) ||
           begins_anew(t, folder);
}

static const char *why_missing(const weft_state_tensor *t)
{
    return t->kept_by  ? ": it was made without the plugin that keeps it, or on another mesh; "
                         "[ckpt] exclude begins it anew"
           : t->moment ? ": it was made with another optimizer, or without it; [ckpt] exclude "
                         "leaves it out, [ckpt] initial takes the weights alone"
                       : "";
}

/* Tensors of which one thing is said: how many, and one of them. */
typedef struct tensors {
    int n;
    const char *first;
} tensors;

static void count(tensors *t, const char *name)
{
    t->first = t->n++ ? t->first : name;
}

/* "b0.attn.amax", "b0.attn.amax and 99 more". */
static void warn_of(const loading *l, const tensors *t, const char *before, const char *behind)
{
    char more[32] = "";
    if (t->n == 0 || l->self->host->rank != 0)
        return;
    if (t->n > 1)
        snprintf(more, sizeof more, " and %d more", t->n - 1);
    weft_log_print(l->self->host->log, WEFT_LOG_WARN, "%s %s %s%s%s", l->manifest.path, before,
                   t->first, more, behind);
}

/* Same names, same shapes; all that is wrong at once. Only parameters, if weights. */
static weft_status check_tensors(const loading *l, const weft_folder *folder, weft_error *err)
{
    const ckpt_manifest *m = &l->manifest;
    const weft_state_view *state = l->state;
    const bool weights = l->c->weights;
    tensors anew = {0}, unused = {0};
    weft_status s = WEFT_OK;
    int found = 0;
    for (int i = 0; i < state->n_tensors; i++) {
        const weft_state_tensor *t = &state->tensors[i];
        const weft_stored *stored = weft_folder_find(folder, t->name);
        found += stored != NULL;
        if (!weights && begins_anew(t, folder))
            count(&anew, t->name);
        if (is_left(l, t, folder))
            continue;
        if (!stored)
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s has no %s%s", m->path, t->name,
                          why_missing(t));
        else if (!same_shape(stored, &t->tensor))
            s = wrong_shape(m, stored, t, err);
    }
    const int n = weights || found == weft_folder_count(folder) ? 0 : weft_folder_count(folder);
    for (int i = 0; i < n; i++) { /* where some are of no use, all pairs are looked at */
        const char *name = weft_folder_get(folder, i)->name;
        bool used = false;
        for (int k = 0; k < state->n_tensors && !used; k++)
            used = strcmp(state->tensors[k].name, name) == 0;
        if (!used)
            count(&unused, name);
    }
    warn_of(l, &anew, "has no", ", as another mesh has none: begun anew");
    warn_of(l, &unused, "holds", ", which this run does not have: left out");
    return s;
}

/* Whatever is wrong with files is damage, for which an older checkpoint may help; what a file's
 * reader takes for bad input is no input of the user's.
 */
static weft_status damage(weft_status s)
{
    return s == WEFT_ERR_INPUT ? WEFT_ERR_IO : s;
}

static weft_status read_all(loading *l, weft_error *err)
{
    const ckpt *self = l->self;
    weft_folder *folder = NULL;
    bool restart = weft_params_is(self->params, "data", "restart");
    bool *skip = weft_alloc_zero((size_t)l->state->n_tensors + 1, sizeof *skip);
    weft_status s = skip ? damage(ckpt_manifest_read(self->io, l->c->path, &l->manifest, err))
                         : weft_fail_memory(err);
    if (!s && !l->c->weights)
        s = ckpt_identity_check(&l->manifest, l->state, restart, &l->other_data, &l->changes, err);
    s = s ? s : damage(weft_manifest_open(self->io, &l->manifest.base, false, &folder, err));
    s = s ? s : check_tensors(l, folder, err);
    for (int i = 0; i < l->state->n_tensors && skip; i++)
        skip[i] = !s && is_left(l, &l->state->tensors[i], folder);
    s = s ? s : damage(ckpt_read(self->host, l->state, folder, skip, err));
    weft_free(skip);
    weft_folder_destroy(folder);
    return s;
}

static void say(const loading *l, const weft_progress *at)
{
    const weft_log *log = l->self->host->log;
    if (l->c->weights) {
        weft_log_print(log, WEFT_LOG_INFO,
                       "the weights are those of step %" PRId64 " in %s; the run begins at step 1",
                       l->manifest.progress.step, l->c->path);
        return;
    }
    weft_log_print(
        log, WEFT_LOG_INFO,
        "going on from step %" PRId64 " of %s, after %" PRId64 " samples; read in %.2f s", at->step,
        l->c->path, l->manifest.progress.samples, weft_now() - l->self->began_s);
    if (l->changes.size)
        weft_log_print(log, WEFT_LOG_INFO, "changed since then: %s", weft_text_get(&l->changes));
    if (l->other_data)
        weft_log_print(log, WEFT_LOG_WARN,
                       "the data is other data than the checkpoint's and begins with its first "
                       "sample ([ckpt] data = restart)");
}

/* One candidate, on all ranks. *next: it is damaged, and the one before it may do. */
static weft_status try_one(ckpt *self, const weft_state_view *state, const candidate *c,
                           weft_progress *progress, bool *next, weft_error *err)
{
    loading l = {.self = self, .state = state, .c = c};
    self->began_s = weft_now(); /* all are here: they have just heard what rank 0 chose */
    weft_error mine = {0};
    weft_text text = {0};
    int whose;
    weft_status own = read_all(&l, &mine);
    weft_status s = ckpt_agree(self->host, own, &mine, &text, &whose, err);
    *next = s == WEFT_ERR_IO && whose >= 0 && c->own;
    if (*next && self->host->rank == 0)
        weft_log_print(self->host->log, WEFT_LOG_WARN,
                       "%s cannot be used: %s; looking for the one before it", c->path,
                       weft_text_get(&text));
    const bool ends = s && whose >= 0 && !*next;
    if (ends && own)
        weft_error_move(err, &mine, WEFT_OK, WEFT_NOWHERE, "%s", "");
    else if (ends)
        weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "rank %d: %s", whose, weft_text_get(&text));
    if (!s && !c->weights) {
        *progress = l.manifest.progress;
        progress->samples = l.other_data ? 0 : progress->samples;
    }
    if (!s && self->host->rank == 0)
        say(&l, progress);
    ckpt_manifest_release(&l.manifest);
    weft_text_release(&l.changes);
    weft_text_release(&text);
    weft_error_release(&mine);
    return s;
}

/* Rank 0's choice becomes everyone's. */
static weft_status choose_alike(ckpt *self, int64_t below, candidate *c, weft_error *err)
{
    candidate mine = {0};
    weft_error why = {0};
    weft_text text = {0};
    int whose;
    candidate *all = weft_alloc((size_t)self->host->ranks * sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    weft_status t = self->host->rank == 0 ? choose(self, below, &mine, &why) : WEFT_OK;
    weft_status s = ckpt_agree(self->host, t, &why, &text, &whose, err);
    if (s && whose >= 0)
        weft_fail(err, t ? s : WEFT_ERR_PEER, WEFT_NOWHERE, "%s", weft_text_get(&text));
    s = s ? s : ckpt_exchange(self->host, &mine, sizeof mine, all, err);
    *c = s ? mine : all[0];
    weft_free(all);
    weft_error_release(&why);
    weft_text_release(&text);
    return s;
}

/* What lies after the point that the run begins at is another run's future. */
static weft_status set_later_aside(ckpt *self, const candidate *c, const weft_progress *at,
                                   weft_error *err)
{
    weft_error mine = {0};
    weft_text text = {0};
    int n = 0, whose;
    char *own = self->root ? ckpt_step_path(self->root, at->step) : NULL;
    bool from_own = c->found && own && strcmp(own, c->path) == 0;
    weft_status s = WEFT_OK;
    if (self->root && self->host->rank == 0)
        s = ckpt_set_strays_aside(self->io, self->root, self->host->log, &mine);
    if (!s && self->root && self->host->rank == 0)
        s = ckpt_set_aside(self->io, self->root, c->found && !c->weights ? at->step : 0, !from_own,
                           &n, &mine);
    if (n)
        weft_log_print(self->host->log, WEFT_LOG_WARN,
                       "%d checkpoint%s in %s %s not of this run's past: renamed to "
                       "step-N.aside-M, never removed",
                       n, n > 1 ? "s" : "", self->root, n > 1 ? "are" : "is");
    if (from_own)
        self->saved_step = at->step;
    s = ckpt_agree(self->host, s, &mine, &text, &whose, err);
    if (s && whose >= 0)
        weft_fail(err, s, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_error_release(&mine);
    weft_text_release(&text);
    weft_free(own);
    return s;
}

static int64_t step_of(const candidate *c)
{
    const char *at = strrchr(c->path, '-');
    return at ? strtoll(at + 1, NULL, 10) : 0;
}

static weft_status find_and_read(ckpt *self, const weft_state_view *state, candidate *c,
                                 weft_progress *progress, weft_error *err)
{
    bool tried = false, next = true;
    weft_status s = WEFT_OK;
    for (int64_t below = INT64_MAX; next; below = step_of(c)) {
        s = choose_alike(self, below, c, err);
        next = false;
        if (!s && c->found)
            s = try_one(self, state, c, progress, &next, err);
        else if (!s && tried)
            s = weft_fail(
                err, self->host->rank ? WEFT_ERR_PEER : WEFT_ERR_INPUT, WEFT_NOWHERE,
                "no checkpoint in %s is whole; [ckpt] load = none begins anew, and sets them aside",
                self->root);
        tried = true;
    }
    return s;
}

/* When it was made, for observers. */
static void note(const weft_state_view *state, const candidate *c, const weft_progress *at)
{
    struct stat info;
    char *path = weft_format("%s/manifest.json", c->path);
    if (path && state->saves && stat(path, &info) == 0) {
        state->saves->step = at->step;
        state->saves->time_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    }
    weft_free(path);
}

weft_status ckpt_load(void *self_, const weft_state_view *state, weft_progress *progress,
                      weft_store_found *found, weft_error *err)
{
    ckpt *self = self_;
    candidate c = {0};
    *found = WEFT_STORE_NOTHING;
    *progress = state->progress;
    weft_status s = find_and_read(self, state, &c, progress, err);
    s = s ? s : set_later_aside(self, &c, progress, err);
    if (!s && c.found)
        *found = c.weights ? WEFT_STORE_WEIGHTS : WEFT_STORE_STATE;
    if (!s && c.found && self->saved_step == progress->step)
        note(state, &c, progress);
    if (!s && self->root) {
        self->buffer.capacity = ckpt_store.buffer_bytes(self, state);
        self->buffer.data = weft_alloc_aligned(4096, (size_t)self->buffer.capacity + 1);
        if (!self->buffer.data)
            return weft_fail_memory(err);
        memset(self->buffer.data, 0,
               (size_t)self->buffer.capacity); /* pages are made now, not while a step waits */
    }
    return s;
}
