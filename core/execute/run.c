/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/run.h"
#include "base/array.h"
#include "host/enter.h"

#include <stdio.h>
#include <string.h>

size_t weft_peak_bytes(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %llu kB", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return (size_t)kb * 1024;
}

static size_t allocated(const weft_run *run, size_t bytes)
{
    return (bytes ? bytes : 64) + (run->has_margins ? WEFT_MARGIN_BYTES : 0);
}

enum { PIECES = 5 };

/* As planned; at NULL: it was not allocated. */
static weft_memory piece_of(const weft_run *run, int i)
{
    const weft_held *held = &run->held;
    const weft_memory list[PIECES] = {{"arena", run->arena, (size_t)held->arena},
                                      {"state", run->state, (size_t)held->state},
                                      {"inputs", run->inputs, (size_t)held->micro_inputs},
                                      {"step inputs", run->step_inputs, (size_t)held->step_inputs},
                                      {"key-value cache", run->cache, (size_t)held->caches}};
    return list[i];
}

static weft_status allocate(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    void **const at[PIECES] = {&run->arena, &run->state, &run->inputs, &run->step_inputs,
                               &run->cache};
    run->held = weft_plan_held(plan);
    weft_status s = WEFT_OK;
    for (int i = 0; i < PIECES && !s; i++) {
        const size_t bytes = piece_of(run, i).bytes;
        if (bytes || at[i] != &run->cache)
            s = plan->device->alloc(plan->device_self, allocated(run, bytes), at[i], err);
    }
    if (s) {
        weft_text need = {0};
        weft_print_bytes(&need, (double)weft_plan_bytes(plan));
        weft_fail(err, s, WEFT_NOWHERE,
                  "this run needs %s on this rank; `weft plan` shows what for; a smaller [train] "
                  "micro_batch or seq_len needs less",
                  weft_text_get(&need));
        weft_text_release(&need);
    }
    return s;
}

/* What plugins keep lies in the state's memory, while that is there. */
static void place_kept(const weft_run *run)
{
    for (weft_kept_bytes *k = run->plan->plugins->kept; k; k = k->next)
        k->at = run->state ? (char *)run->state + k->offset : NULL;
}

/* The transport is told of all of it, if it wants to be. */
static weft_status add_memory(weft_run *run, weft_error *err)
{
    const weft_transport *t = run->groups.transport;
    if (!t || !t->add_memory)
        return WEFT_OK;
    weft_status s = WEFT_OK;
    for (int i = 0; i < PIECES && !s; i++) {
        const weft_memory p = piece_of(run, i);
        s = p.at ? t->add_memory(run->groups.transport_self, p.at, allocated(run, p.bytes), err)
                 : WEFT_OK;
        run->n_added += !s;
    }
    return s;
}

static void remove_memory(weft_run *run)
{
    const weft_transport *t = run->groups.transport;
    while (run->n_added > 0) {
        const weft_memory p = piece_of(run, --run->n_added);
        if (p.at && t->remove_memory)
            t->remove_memory(run->groups.transport_self, p.at, allocated(run, p.bytes));
    }
}

static void free_memory(weft_run *run)
{
    for (int i = 0; i < PIECES; i++) {
        const weft_memory p = piece_of(run, i);
        if (p.at)
            run->plan->device->free(run->plan->device_self, p.at, allocated(run, p.bytes));
    }
}

static weft_status observe_memory(weft_run *run, weft_error *err)
{
    weft_memory list[PIECES];
    int n = 0;
    for (int i = 0; i < PIECES; i++) {
        list[n] = piece_of(run, i);
        n += list[n].at != NULL;
    }
    run->view.memory = list;
    run->view.n_memory = n;
    weft_status s = weft_observe(run, WEFT_EVENT_MEMORY, err);
    run->view.memory = NULL;
    run->view.n_memory = 0;
    return s;
}

static unsigned wanted_events(const weft_loaded *loaded, const weft_contribution *c)
{
    if (!c->wants)
        return c->events;
    const weft_entry entry =
        weft_enter(loaded->module.plugin->name, "wants", loaded->module.where, NULL);
    const unsigned events = c->wants(loaded->self) & c->events;
    weft_leave(&entry, WEFT_OK);
    return events;
}

static weft_status find_watchers(weft_run *run, weft_error *err)
{
    const weft_loaded *loaded;
    const weft_contribution *c;
    int capacity = 0;
    for (int i = 0, k = 0;
         weft_plugins_next(run->plan->plugins, WEFT_OBSERVER, &i, &k, &loaded, &c);) {
        const unsigned events = wanted_events(loaded, c);
        weft_watcher *w =
            weft_pool_push(&run->pool, &run->watchers, &run->n_watchers, &capacity, sizeof *w);
        if (!w)
            return weft_fail_memory(err);
        *w = (weft_watcher){.loaded = loaded, .contribution = c, .events = events};
        bool times = events & WEFT_EVENT_INSTRUCTION_TIMES;
        if (times || events & (WEFT_EVENT_INSTRUCTION_BEGIN | WEFT_EVENT_INSTRUCTION_END))
            run->shows_instructions = true;
        run->shows_times = run->shows_times || times;
        run->has_margins = run->has_margins || (events & WEFT_EVENT_MEMORY);
    }
    return WEFT_OK;
}

static weft_status allocate_reports(weft_run *run, weft_error *err)
{
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    const size_t n = 2 + (size_t)(g ? g->n_reports : 0);
    run->n_scalars = (int)n;
    run->reports = weft_pool_alloc(&run->pool, (n + 2 * WEFT_MOST_COUNTS) * sizeof *run->reports);
    run->most = weft_pool_alloc(&run->pool, n * sizeof *run->most);
    run->view.reports = run->reports;
    run->scalars = weft_pool_alloc(&run->pool, n * sizeof *run->scalars);
    run->scalars_read = weft_pool_alloc(&run->pool, n * sizeof *run->scalars_read);
    if (run->pool.out_of_memory)
        return weft_fail_memory(err);
    return weft_device_alloc_host(run->plan, n * WEFT_SCALAR_BYTES, &run->scalars_host, err);
}

/* Where the user set it, in whatever plugin's section. */
static weft_where place_of(const weft_plugins *plugins, const char *key)
{
    for (int i = 0; i < plugins->n; i++)
        if (weft_params_given(plugins->list[i].params, key))
            return weft_params_where(plugins->list[i].params, key);
    return WEFT_NOWHERE;
}

static weft_status find_transport(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    weft_groups *g = &run->groups;
    g->transport = weft_plugins_service(plan->plugins, "transport", &g->transport_self);
    g->transport_by = weft_plugins_giver(plan->plugins, g->transport);
    const weft_device *d = plan->device;
    if (!g->transport || g->transport->device_memory || plan->ranks == 1 ||
        (d->host_memory && !weft_device_is_async(plan)))
        return WEFT_OK;
    return weft_fail(
        err, WEFT_ERR_INPUT, weft_params_where(plan->weft, "defaults"),
        "transport %s carries what lies in the host's memory, and %s has memory of its "
        "own: a plugin must stand around the transport that brings it there and back",
        g->transport->name, d->name);
}

static weft_status begin_data(weft_run *run, weft_error *err)
{
    static const char *const right[] = {"for training, which repeats for ever, it is INT64_MAX",
                                        "for validation it is 0 or more"};
    const weft_plugins *plugins = run->plan->plugins;
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    run->tokenizer = weft_plugins_service(plugins, "tokenizer", &run->tokenizer_self);
    if (!g) /* text is written, nothing learnt */
        return WEFT_OK;
    run->data = weft_plugins_service(plugins, "data", &run->data_self);
    if (!run->data)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(run->plan->weft, "plugins"),
                         "no listed plugin gives data; list one, as text, in [weft] plugins");
    weft_status s = run->data->fit ? run->data->fit(run->data_self, g, err) : WEFT_OK;
    s = s ? s : run->data->begin(run->data_self, run->plan->seq_len, run->seed, err);
    for (int split = WEFT_SPLIT_TRAIN; split <= WEFT_SPLIT_VALIDATION && !s; split++)
        s = weft_service_check_count(plugins, "data", "samples",
                                     run->data->samples(run->data_self, (weft_split)split),
                                     split == WEFT_SPLIT_TRAIN, right[split], err);
    if (s || !run->tokenizer)
        return s;
    const weft_dim *vocab = weft_map_get(&g->dims, "vocab", 5);
    int ids = run->tokenizer->vocab_size(run->tokenizer_self);
    s = weft_service_check_count(plugins, "tokenizer", "vocab_size", ids, 1, "there are ids", err);
    if (s)
        return s;
    if (vocab && vocab->size < ids)
        return weft_fail(err, WEFT_ERR_INPUT, place_of(plugins, "vocab_size"),
                         "the tokenizer has %d ids and the model's vocabulary only %lld; set "
                         "vocab_size to %d or more",
                         ids, (long long)vocab->size, ids);
    return WEFT_OK;
}

static weft_status prepare(weft_run *run, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int m = 0; m < WEFT_MODES && !s; m++) {
        if (!run->plan->lowered[m])
            continue;
        s = weft_groups_add(&run->groups, run->plan->lowered[m], err);
        s = s ? s : weft_prepare(&run->prepared, &run->plan->kernels, run->plan->lowered[m], err);
    }
    s = s ? s : weft_groups_tell_places(&run->groups, run->plan->lowered, err);
    const weft_plan *plan = run->plan;
    return s || !plan->device->settle ? s : plan->device->settle(plan->device_self, err);
}

weft_status weft_run_create(weft_plan *plan, const weft_host *host, weft_run **out, weft_error *err)
{
    weft_run *run = weft_alloc_zero(1, sizeof *run);
    *out = run;
    if (!run)
        return weft_fail_memory(err);
    run->plan = plan;
    plan->plugins->run = run;
    run->log = host->log;
    run->dir = host->dir;
    run->threads = host->threads;
    run->seed = (uint64_t)weft_params_int(plan->train, "seed");
    run->asked = (struct weft_asked){.now = -1, .stops = -1};
    run->view = (weft_run_view){
        .rank = plan->rank,
        .ranks = plan->ranks,
        .dir = host->dir,
        .steps = plan->steps,
        .unit = plan->unit,
        .micro_batch = -1,
        .core = run,
        .mesh = &plan->mesh,
        .micro_batches = plan->micro_batches,
        .planned_bytes = weft_plan_bytes(plan),
        .base_bytes = weft_device_peak_bytes(plan) ? 0 : weft_peak_bytes(),
        .flops = plan->lowered[WEFT_MODE_TRAIN] ? plan->lowered[WEFT_MODE_TRAIN]->model_flops : 0};
    run->host = host;
    run->watch = plan->plugins->control ? weft_control_watch(plan->plugins->control, plan->rank)
                                        : &run->alone;
    run->groups =
        (weft_groups){.mesh = &plan->mesh, .rank = plan->rank, .control = plan->plugins->control};
    weft_status s = weft_services_check(plan->plugins, true, err);
    s = s ? s : find_transport(run, err);
    s = s ? s : begin_data(run, err);
    s = s ? s : find_watchers(run, err);
    s = s ? s : allocate_reports(run, err);
    s = s ? s : allocate(run, err);
    place_kept(run);
    s = s ? s : add_memory(run, err);
    s = s ? s : weft_streams_create(run, err);
    s = s ? s : weft_timing_create(run, err);
    s = s ? s : weft_far_open(run, err);
    s = s ? s : weft_transfers_create(run, err);
    s = s ? s : prepare(run, err);
    s = s ? s : weft_init_state(run, err);
    s = s ? s : observe_memory(run, err);
    if (!s && plan->lowered[WEFT_MODE_TRAIN])
        s = weft_loader_create(run, err);
    if (!s)
        return WEFT_OK;
    weft_run_destroy(run);
    *out = NULL;
    return s;
}

void weft_run_destroy(weft_run *run)
{
    if (!run)
        return;
    run->plan->plugins->run = NULL;
    /* first, for what a device still waits for of others keeps it from giving anything back */
    if (run->plan->device->forget)
        run->plan->device->forget(run->plan->device_self);
    remove_memory(run);
    weft_groups_release(&run->groups);
    if (run->streams) /* what was enqueued before an error reads and writes what goes now */
        weft_streams_drain(run);
    weft_loader_destroy(run);
    weft_keeper_destroy(run);
    weft_far_close(run);
    weft_transfers_destroy(run);
    weft_timing_destroy(run);
    weft_streams_destroy(run);
    weft_free(run->boxes);
    weft_prepared_release(&run->prepared);
    free_memory(run);
    run->state = NULL;
    place_kept(run);
    weft_free(run->operands);
    weft_free(run->host_copy);
    weft_pool_release(&run->pool);
    if (run->scalars_host)
        weft_device_free_host(run->plan, run->scalars_host,
                              (size_t)run->n_scalars * WEFT_SCALAR_BYTES);
    weft_free(run);
}
