/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of wrapped stores and weights: see wrap.h. */
#include "host/wrap.h"

/* ---- store ---- */

static int64_t store_buffer_bytes(void *self, const weft_state_view *state)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_store, buffer_bytes));
    const weft_store *t = l->table;
    const weft_entry entry = weft_link_enter(l, "buffer_bytes", NULL);
    int64_t answer = t->buffer_bytes(l->self, state);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_status store_load(void *self, const weft_state_view *state, weft_progress *progress,
                              weft_store_found *found, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_store, load));
    const weft_store *t = l->table;
    const weft_entry entry = weft_link_enter(l, "load", err);
    return weft_leave(&entry, t->load(l->self, state, progress, found, err));
}

static bool store_want(void *self, const weft_progress *at, double elapsed_s, bool last)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_store, want));
    const weft_store *t = l->table;
    const weft_entry entry = weft_link_enter(l, "want", NULL);
    bool answer = t->want(l->self, at, elapsed_s, last);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_status store_begin(void *self, const weft_state_view *state, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_store, begin));
    const weft_store *t = l->table;
    const weft_entry entry = weft_link_enter(l, "begin", err);
    return weft_leave(&entry, t->begin(l->self, state, err));
}

static weft_status store_before_update(void *self, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_store, before_update));
    const weft_store *t = l->table;
    const weft_entry entry = weft_link_enter(l, "before_update", err);
    return weft_leave(&entry, t->before_update(l->self, err));
}

static bool store_ready(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_store, ready));
    const weft_store *t = l->table;
    const weft_entry entry = weft_link_enter(l, "ready", NULL);
    bool answer = t->ready(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_status store_advance(void *self, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_store, advance));
    const weft_store *t = l->table;
    const weft_entry entry = weft_link_enter(l, "advance", err);
    return weft_leave(&entry, t->advance(l->self, err));
}

static weft_status store_finish(void *self, bool last, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_store, finish));
    const weft_store *t = l->table;
    const weft_entry entry = weft_link_enter(l, "finish", err);
    return weft_leave(&entry, t->finish(l->self, last, err));
}

static void store_abandon(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_store, abandon));
    const weft_store *t = l->table;
    const weft_entry entry = weft_link_enter(l, "abandon", NULL);
    t->abandon(l->self);
    weft_leave(&entry, WEFT_OK);
}

const weft_store weft_forward_store = {
    .buffer_bytes = store_buffer_bytes,
    .load = store_load,
    .want = store_want,
    .begin = store_begin,
    .before_update = store_before_update,
    .ready = store_ready,
    .advance = store_advance,
    .finish = store_finish,
    .abandon = store_abandon,
};

/* ---- weights ---- */

static weft_status weights_load(void *self, const weft_state_view *state, bool *loaded,
                                weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_weights, load));
    const weft_weights *t = l->table;
    const weft_entry entry = weft_link_enter(l, "load", err);
    return weft_leave(&entry, t->load(l->self, state, loaded, err));
}

static weft_status weights_save(void *self, const weft_state_view *state, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_weights, save));
    const weft_weights *t = l->table;
    const weft_entry entry = weft_link_enter(l, "save", err);
    return weft_leave(&entry, t->save(l->self, state, err));
}

const weft_weights weft_forward_weights = {
    .load = weights_load,
    .save = weights_save,
};
