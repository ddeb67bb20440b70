/* SPDX-License-Identifier: Apache-2.0 */
/* What observers are shown. Their errors are logged and switch them off, unless the system may
 * allow tomorrow what it refuses today, and the run goes on; those of an observer that `fails` end
 * it. */
#include "execute/run.h"
#include "host/enter.h"

#include <string.h>

void weft_run_ask(const weft_run_view *view, unsigned what)
{
    struct weft_asked *a = view->core ? &view->core->asked : NULL;
    if (!a)
        return;
    a->what |= what;
    if (what & WEFT_ASK_STOP)
        a->stops = a->now;
    if (what & WEFT_ASK_SAVE)
        a->saves = a->now;
}

/* A disk that is full now may have room later, and none again at the next save: said once, and once
 * when it has been over for a while, for longer each time that it comes back. */
static void note(const weft_run *run, weft_watcher *w, weft_event event, weft_status s,
                 const char *why)
{
    const char *plugin = w->loaded->module.plugin->name;
    const double now = weft_now();
    w->off = s && s != WEFT_ERR_IO;
    if (s && (w->off || w->lost_s <= 0)) {
        weft_log_print(run->log, WEFT_LOG_ERROR, "%s failed at %s and %s; the run goes on: %s",
                       plugin, weft_event_name(event),
                       w->off ? "is switched off" : "will try again", why);
        w->lost_s = now;
        w->patience_s = w->patience_s > 0 ? 2 * w->patience_s : 5;
    }
    w->well_s = s ? 0 : w->well_s > 0 ? w->well_s : now;
    if (s || w->lost_s <= 0 || (event != WEFT_EVENT_STOP && now - w->well_s < w->patience_s))
        return;
    weft_log_print(run->log, WEFT_LOG_INFO, "%s no longer fails, %.1f s later", plugin,
                   w->well_s - w->lost_s);
    w->lost_s = 0;
}

static weft_status call(weft_run *run, const weft_watcher *w, weft_event event, weft_error *err)
{
    run->asked.now = (int)(w->loaded - run->plan->plugins->list);
    const weft_entry entry = weft_enter(w->loaded->module.plugin->name, weft_event_name(event),
                                        w->loaded->module.where, err);
    const bool outer = run->is_showing;
    run->is_showing = true;
    weft_status s = w->contribution->observe(w->loaded->self, event, &run->view, err);
    run->is_showing = outer;
    return weft_leave(&entry, s);
}

static weft_status show(weft_run *run, weft_watcher *w, weft_event event, weft_error *err)
{
    if (w->off || !(w->events & (unsigned)event))
        return WEFT_OK;
    if (w->contribution->fails)
        return call(run, w, event, err);
    if (run->is_showing) /* what another observer runs */
        return WEFT_OK;
    weft_error why = {0};
    weft_status s = call(run, w, event, &why);
    note(run, w, event, s, weft_error_text(&why));
    weft_error_release(&why);
    return WEFT_OK;
}

/* In listed order; the end of things in reverse. */
weft_status weft_observe(weft_run *run, weft_event event, weft_error *err)
{
    weft_status s = WEFT_OK;
    bool reverse = event == WEFT_EVENT_STOP || event == WEFT_EVENT_STEP_END ||
                   event == WEFT_EVENT_INSTRUCTION_END;
    for (int i = 0; i < run->n_watchers && !s; i++)
        s = show(run, &run->watchers[reverse ? run->n_watchers - 1 - i : i], event, err);
    return s;
}

bool weft_is_observed(const weft_run *run, weft_event event)
{
    for (int i = 0; i < run->n_watchers; i++)
        if (!run->watchers[i].off && (run->watchers[i].events & (unsigned)event))
            return true;
    return false;
}

static void add_operand(weft_run *run, const weft_value *v)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_TRAIN];
    if (!v)
        return;
    weft_operand *o = &run->operands[run->view.n_operands++];
    *o = (weft_operand){.value = v, .buffer = l->buffer_of[v->id], .last = -1};
    weft_local_tensor(l->graph, v, l->coord, &o->tensor);
    o->bytes = (size_t)weft_tensor_count(&o->tensor) * weft_dtype_size(v->dtype);
    if (weft_layout_held(v->layout, l->coord))
        o->tensor.data = weft_run_address(run, l, o->buffer, 0);
}

weft_status weft_observe_step(weft_run *run, weft_event event, weft_error *err)
{
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    const bool updated = event == WEFT_EVENT_UPDATED;
    if (!weft_is_observed(run, event))
        return WEFT_OK;
    weft_status s = weft_run_operands(run, g->n_parameters + g->n_states + g->n_reports + 1, err);
    if (s)
        return s;
    if (!updated)
        add_operand(run, g->loss_report);
    for (int i = 0; !updated && i < g->n_reports; i++)
        add_operand(run, g->reports[i].value);
    for (int i = 0; i < g->n_parameters; i++)
        add_operand(run, updated ? g->parameters[i] : g->parameters[i]->gradient);
    for (int i = 0; updated && i < g->n_states; i++)
        add_operand(run, g->states[i]);
    run->view.operands = run->operands;
    s = weft_observe(run, event, err);
    run->view.operands = NULL;
    run->view.n_operands = 0;
    return s;
}

static weft_status show_piece(weft_run *run, const weft_value *v, const weft_tensor *t,
                              int64_t micro, weft_error *err)
{
    run->view.value = v;
    run->view.tensor = t;
    run->view.micro_batch = micro;
    weft_status s = weft_observe(run, WEFT_EVENT_VALUE, err);
    if (!s && run->probe && run->probe->value)
        s = run->probe->value(run->probe, run, v, t, micro, err);
    run->view.value = NULL;
    run->view.tensor = NULL;
    return s;
}

/* Places [from, from + n) of dim d, which lie together in the sample. */
static void copy_piece(const weft_graph *g, const weft_tensor *t, int d, int64_t from, int64_t n,
                       weft_tensor *piece)
{
    int64_t outer = 1, inner = (int64_t)weft_dtype_size(t->dtype);
    char *to = piece->data;
    for (int i = 0; i < d; i++)
        outer *= t->size[i];
    for (int i = d + 1; i < t->n_dims; i++)
        inner *= t->size[i];
    *piece = *t;
    piece->data = to;
    piece->size[d] = n;
    piece->lo[d] = g->seq_order[t->lo[d] + from];
    for (int64_t i = 0; i < outer; i++)
        memcpy(to + i * n * inner, (const char *)t->data + (i * t->size[d] + from) * inner,
               (size_t)(n * inner));
}

/* The dim that is the sequence in an order of its own; -1: none. */
static int ordered_dim(const weft_graph *g, const weft_value *v)
{
    int d = g->seq_order ? weft_value_dim(v, "seq") : -1;
    return d >= 0 && v->dims[d].size == weft_graph_seq_len(g) ? d : -1;
}

/* Whoever looks on sees the sample's order. */
static weft_status show_pieces(weft_run *run, const weft_graph *g, const weft_value *v,
                               const weft_tensor *t, int64_t micro, weft_error *err)
{
    int d = ordered_dim(g, v);
    if (d < 0)
        return show_piece(run, v, t, micro, err);
    size_t bytes = (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
    weft_tensor piece = {.data = weft_alloc(bytes + 1)};
    weft_status s = piece.data ? WEFT_OK : weft_fail_memory(err);
    const int32_t *place = g->seq_order + t->lo[d];
    for (int64_t from = 0, n; from < t->size[d] && !s; from += n) {
        for (n = 1; from + n < t->size[d] && place[from + n] == place[from] + n;)
            n++;
        copy_piece(g, t, d, from, n, &piece);
        s = show_piece(run, v, &piece, micro, err);
        run->view.piece++;
    }
    run->view.piece = 0;
    weft_free(piece.data);
    return s;
}

weft_status weft_observe_value(weft_run *run, const weft_lowered *l, const weft_value *v,
                               int64_t micro, weft_error *err)
{
    const weft_plan *plan = run->plan;
    weft_tensor t;
    weft_local_tensor(l->graph, v, l->coord, &t);
    size_t bytes = (size_t)weft_tensor_count(&t) * weft_dtype_size(t.dtype);
    const weft_buffer *b = &l->buffers[l->buffer_of[v->id]];
    void *at = weft_run_address(run, l, l->buffer_of[v->id], micro), *copy = NULL;
    const bool far = b->base == WEFT_BASE_FAR;
    weft_status s = WEFT_OK;
    if (!plan->device->host_memory || far) {
        copy = weft_alloc(bytes + 1);
        s = !copy ? weft_fail_memory(err)
            : far ? weft_far_move(run, weft_buffer_offset(l, b, micro), (int64_t)bytes, copy, NULL,
                                  err)
                  : weft_run_download(run, copy, at, bytes, err);
    }
    t.data = copy ? copy : at;
    s = s ? s : show_pieces(run, l->graph, v, &t, micro, err);
    weft_free(copy);
    return s;
}

/* Parameters, state and inputs are made by no instruction. micro -1: those of the step; else the
 * micro-batch's inputs. */
weft_status weft_observe_sources(weft_run *run, const weft_lowered *l, int64_t micro,
                                 weft_error *err)
{
    weft_status s = WEFT_OK;
    const bool any = weft_is_observed(run, WEFT_EVENT_VALUE);
    for (const weft_node *n = any ? l->graph->first : NULL; n && !s; n = n->next) {
        if (n->n_ins || !(n->op->flags & WEFT_OP_SOURCE) || !n->outs[0]->fetch ||
            l->buffer_of[n->outs[0]->id] < 0)
            continue;
        bool of_micro = l->buffers[l->buffer_of[n->outs[0]->id]].base == WEFT_BASE_INPUT;
        if (of_micro == (micro >= 0))
            s = weft_observe_value(run, l, n->outs[0], micro, err);
    }
    return s;
}
