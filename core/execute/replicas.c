/* SPDX-License-Identifier: Apache-2.0 */
/* [weft] check = replicas. Ranks that should hold the same bytes of a value, those that differ on
 * axes alone over which its layout is replicated, compare hashes of them over the control channel.
 * Every rank sees all hashes, so all come to the same end. */
#include "execute/run.h"

#include <string.h>
#include <weft/random.h>

typedef struct watched {
    const weft_value **values;
    uint64_t *mine, *all;
    int n;
} watched;

static void watch(watched *w, const weft_value *v)
{
    if (v)
        w->values[w->n++] = v;
}

/* Before the update: gradients and what is reported; after it: parameters and states. */
static weft_status choose(watched *w, const weft_run *run, bool updated, weft_error *err)
{
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    size_t most = (size_t)(g->n_parameters + g->n_states + g->n_reports) + 1;
    w->values = weft_alloc(most * sizeof *w->values);
    w->mine = weft_alloc(most * sizeof *w->mine);
    w->all = weft_alloc(most * (size_t)run->plan->ranks * sizeof *w->all);
    if (!w->values || !w->mine || !w->all)
        return weft_fail_memory(err);
    if (!updated)
        watch(w, g->loss_report);
    for (int i = 0; !updated && i < g->n_reports; i++)
        watch(w, g->reports[i].value);
    for (int i = 0; i < g->n_parameters; i++)
        watch(w, updated ? g->parameters[i] : g->parameters[i]->gradient);
    for (int i = 0; updated && i < g->n_states; i++)
        watch(w, g->states[i]);
    return WEFT_OK;
}

static weft_status hash(weft_run *run, const weft_value *v, uint64_t *out, weft_error *err)
{
    const weft_plan *plan = run->plan;
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    weft_tensor t;
    *out = 0;
    if (!weft_layout_held(v->layout, l->coord)) /* nor does any rank that would compare with it */
        return WEFT_OK;
    weft_local_tensor(l->graph, v, l->coord, &t);
    size_t bytes = (size_t)weft_tensor_count(&t) * weft_dtype_size(t.dtype);
    const void *at = weft_run_address(run, l, l->buffer_of[v->id], 0);
    void *copy = NULL;
    weft_status s = WEFT_OK;
    if (!plan->device->host_memory) {
        copy = weft_alloc(bytes);
        s = copy ? weft_run_download(run, copy, at, bytes, err) : weft_fail_memory(err);
    }
    *out = s ? 0 : weft_hash_bytes(weft_hash_name(v->name), copy ? copy : at, bytes);
    weft_free(copy);
    return s;
}

/* The first of the ranks that should hold what this one does. */
static int model_of(const weft_mesh *mesh, weft_layout layout, int rank)
{
    int coord[WEFT_MAX_AXES], first = 0, stride = 1;
    weft_mesh_coord(mesh, rank, coord);
    for (int a = 0; a < mesh->n_axes; a++) {
        first += weft_layout_byte(layout, a) ? coord[a] * stride : 0;
        stride *= mesh->axis[a].size;
    }
    return first;
}

static weft_status compare(const watched *w, const weft_run *run, bool updated, weft_error *err)
{
    const weft_plan *plan = run->plan;
    for (int i = 0; i < w->n; i++)
        for (int r = 0; r < plan->ranks; r++) {
            int first = model_of(&plan->mesh, w->values[i]->layout, r);
            if (w->all[r * w->n + i] != w->all[first * w->n + i])
                return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                 "step %lld, %s the update: %s is not the same on ranks %d and %d, "
                                 "which should hold it alike",
                                 (long long)run->view.step, updated ? "after" : "before",
                                 w->values[i]->name, first, r);
        }
    return WEFT_OK;
}

weft_status weft_replicas_check(weft_run *run, bool updated, weft_error *err)
{
    const weft_plan *plan = run->plan;
    weft_control *control = plan->plugins->control;
    if (!control || !weft_params_has(plan->weft, "check", "replicas"))
        return WEFT_OK;
    watched w = {0};
    weft_status s = choose(&w, run, updated, err);
    for (int i = 0; i < w.n && !s; i++)
        s = hash(run, w.values[i], &w.mine[i], err);
    s = weft_control_agree(control, plan->rank, "comparing replicas", s, err);
    s = s ? s
          : weft_control_exchange(control, plan->rank, w.mine, (size_t)w.n * sizeof *w.mine, w.all,
                                  err);
    s = s ? s : compare(&w, run, updated, err);
    weft_free(w.values);
    weft_free(w.mine);
    weft_free(w.all);
    return s;
}
