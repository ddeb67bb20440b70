/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that libraries take beside what is planned: estimates of the device and the transport, for
 * what the plan will ask of them. */
#include "compile/graph/map.h"
#include "compile/program/walk.h"
#include "forecast/forecast.h"

#include <string.h>

/* ---- groups ---- */

typedef struct group_list {
    struct planned {
        weft_planned_group group;
        int axes[WEFT_MAX_AXES], n_axes;
        bool pairs;
    } * list;
    int n, capacity;
} group_list;

static struct planned *find(const group_list *groups, const weft_step *step, bool pairs)
{
    for (int i = 0; i < groups->n; i++) {
        struct planned *p = &groups->list[i];
        if (p->pairs == pairs && p->n_axes == step->n_axes &&
            memcmp(p->axes, step->axes, sizeof(int) * (size_t)step->n_axes) == 0)
            return p;
    }
    return NULL;
}

/* Each kind of pair is a group of its own: of a ring, of activations, of gradients. */
static struct planned *add(group_list *groups, const weft_plan *plan,
                           const weft_device_rates *rates, const weft_step *step, bool pairs)
{
    if (groups->n == groups->capacity) {
        int more = 2 * groups->capacity + 8;
        struct planned *fresh = weft_realloc(groups->list, (size_t)more * sizeof *fresh);
        if (!fresh)
            return NULL;
        groups->list = fresh;
        groups->capacity = more;
    }
    struct planned *p = &groups->list[groups->n++];
    const weft_reach at = weft_reach_of(rates, &plan->mesh, step->axes, step->n_axes);
    *p = (struct planned){.n_axes = step->n_axes, .pairs = pairs};
    p->group = (weft_planned_group){.n = at.n, .hosts = at.hosts, .collects = !pairs};
    memcpy(p->axes, step->axes, sizeof p->axes);
    return p;
}

/* Of a ring of two the two ways are two pairs, too; in a pipeline a rank sends both ways and
 * receives both ways, but for its ends. */
static int peers_of(const weft_step *step, const weft_mesh *mesh, const int *coord)
{
    if (step->move == WEFT_SHIFT)
        return 2;
    const int axis = step->axes[0], last = mesh->axis[axis].size - 1;
    return 2 * ((coord[axis] > 0) + (coord[axis] < last));
}

static bool add_step(group_list *groups, const weft_plan *plan, const weft_device_rates *rates,
                     const weft_step *step, weft_layout before, const int *coord)
{
    if (step->move == WEFT_SLICE || step->move == WEFT_ZERO || step->move == WEFT_KEEP)
        return true;
    const bool pairs = step->move == WEFT_SEND || step->move == WEFT_SHIFT;
    struct planned *p = find(groups, step, pairs);
    if (!p && !(p = add(groups, plan, rates, step, pairs)))
        return false;
    weft_planned_group *g = &p->group;
    if (pairs) {
        int peers = peers_of(step, &plan->mesh, coord);
        g->peers = peers > g->peers ? peers : g->peers;
    }
    if (step->move == WEFT_ALL_REDUCE || step->move == WEFT_REDUCE_SCATTER) {
        bool max = weft_layout_open(before, step->axes[0]) == WEFT_OPEN_MAX;
        g->maxima = g->maxima || max;
        g->sums = g->sums || !max;
    }
    return true;
}

static bool add_graph(group_list *groups, const weft_plan *plan, const weft_device_rates *rates,
                      const weft_lowered *l)
{
    bool ok = true;
    for (const weft_node *n = l->graph->first; n && ok; n = n->next) {
        weft_layout before = n->n_ins ? n->ins[0]->layout : (weft_layout){0};
        for (int k = 0; k < n->n_steps && ok; before = n->steps[k++].after)
            ok = add_step(groups, plan, rates, &n->steps[k], before, l->coord);
    }
    return ok;
}

static int64_t transport_bytes(const weft_transport *t, void *self, const group_list *groups)
{
    weft_planned_group *list = weft_alloc(((size_t)groups->n + 1) * sizeof *list);
    if (!list)
        return -1;
    for (int i = 0; i < groups->n; i++)
        list[i] = groups->list[i].group;
    size_t bytes = t->library_bytes(self, list, groups->n);
    weft_free(list);
    return (int64_t)bytes;
}

/* The instructions of a task's spans, once for the same places in memory. */
static bool add_kept(const weft_walk *w, weft_map *known, weft_pool *pool, int64_t *instructions)
{
    const weft_program *p = w->step.program;
    weft_captured span = weft_walk_captured(w, p->n_prologue);
    for (; span.from < p->n; span = weft_walk_captured(w, span.to)) {
        const uint64_t key = weft_walk_key(w, span.from);
        const size_t before = known->n;
        if (!weft_map_set(known, pool, &key, sizeof key, known))
            return false;
        *instructions += known->n > before ? span.to - span.from : 0;
    }
    return true;
}

/* How many instructions a device keeps. */
static weft_status count_kept(const weft_lowered *l, bool communicates, int64_t *instructions,
                              weft_error *err)
{
    weft_map known = {0};
    weft_pool pool = {0};
    weft_walk w;
    bool ok = true;
    *instructions = 0;
    for (int runs = -1; (runs = weft_lowered_next_runs(l, runs)) >= 0;) {
        weft_walk_init(&w, l, WEFT_PART_BEGIN, WEFT_PART_UPDATE);
        w.runs = (unsigned)runs;
        w.keeps = true;
        w.communicates = communicates;
        while (ok && weft_walk_next(&w))
            ok = w.step.kind != WEFT_WALK_BODY || add_kept(&w, &known, &pool, instructions);
    }
    weft_pool_release(&pool);
    return ok ? WEFT_OK : weft_fail_memory(err);
}

static weft_status gather(const weft_plan *plan, group_list *groups, int64_t *kept, weft_error *err)
{
    weft_device_rates rates;
    const bool communicates = weft_plan_captures_sent(plan);
    weft_status s = WEFT_OK;
    weft_device_find_rates(plan, &rates);
    *kept = 0;
    for (int m = 0; m < WEFT_MODES && !s; m++) {
        const weft_lowered *l = plan->lowered[m];
        int64_t mine = 0;
        if (l && plan->device->begin)
            s = count_kept(l, communicates, &mine, err);
        if (!s && l && !add_graph(groups, plan, &rates, l))
            s = weft_fail_memory(err);
        *kept += mine;
    }
    return s;
}

/* captured: instructions that the device keeps. */
static int64_t device_bytes(const weft_plan *p, int64_t captured)
{
    return p->device->library_bytes ? (int64_t)p->device->library_bytes(p->device_self, captured)
                                    : 0;
}

weft_status weft_plan_libraries(const weft_plan *plan, weft_libraries *out, weft_error *err)
{
    void *self;
    const weft_transport *t = weft_plugins_service(plan->plugins, "transport", &self);
    group_list groups = {0};
    int64_t kept;
    weft_status s = gather(plan, &groups, &kept, err);
    *out = (weft_libraries){.device = device_bytes(plan, 0)};
    for (int m = 0; m < WEFT_MODES; m++)
        if (plan->lowered[m] && plan->lowered[m]->load_bytes > out->loading)
            out->loading = plan->lowered[m]->load_bytes;
    out->captured = device_bytes(plan, kept) - out->device;
    if (!s && t && t->library_bytes && groups.n > 0) {
        out->transport = transport_bytes(t, self, &groups);
        out->transport_name = t->name;
        s = out->transport >= 0 ? WEFT_OK : weft_fail_memory(err);
    }
    weft_free(groups.list);
    return s;
}
