/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/mesh/axes.h"

#include <stdio.h>
#include <string.h>

void weft_mesh_plan_init(weft_mesh_plan *plan, int ranks)
{
    memset(plan, 0, sizeof *plan);
    plan->ranks = ranks;
}

static const weft_mesh_entry *find(const weft_mesh_plan *plan, const char *name)
{
    for (int i = 0; i < plan->n; i++)
        if (strcmp(plan->entry[i].name, name) == 0)
            return &plan->entry[i];
    return NULL;
}

/* Axis names are words of INIs, of layouts ("seq/cp/tp") and of sums ("+tp"). */
static const char in_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

weft_status weft_mesh_plan_axis(weft_mesh_plan *plan, const char *name, int64_t degree,
                                weft_where at, weft_error *err)
{
    const char *by = plan->by ? plan->by : "a plugin";
    if (!*name || name[strspn(name, in_names)])
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "%s declares a mesh axis '%s'; names are of letters, digits and '_'", by,
                         name);
    if (degree < 0)
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "%s declares mesh axis '%s' with degree %lld; a degree is at least 1, or 0 "
            "for as many ranks as are left",
            by, name, (long long)degree);
    if (plan->n == 2 * WEFT_MAX_AXES)
        return weft_fail(err, WEFT_ERR_INPUT, at, "too many mesh axes: at most %d can be declared",
                         2 * WEFT_MAX_AXES);
    const weft_mesh_entry *before = find(plan, name);
    if (before)
        return weft_fail(err, WEFT_ERR_INPUT, at, "mesh axis '%s' is declared by both %s and %s",
                         name, before->by, plan->by);
    weft_mesh_entry *e = &plan->entry[plan->n];
    if (strlen(name) >= sizeof e->name)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "mesh axis name '%s' is longer than %zu characters", name,
                         sizeof e->name - 1);
    snprintf(e->name, sizeof e->name, "%s", name);
    e->degree = degree;
    e->by = plan->by;
    e->at = at;
    e->cuts = NULL;
    plan->n++;
    return WEFT_OK;
}

weft_status weft_mesh_plan_cuts(weft_mesh_plan *plan, const char *name, const char *dim,
                                weft_error *err)
{
    const weft_mesh_entry *e = find(plan, name);
    if (e)
        plan->entry[e - plan->entry].cuts = dim;
    return e ? WEFT_OK
             : weft_fail(err, WEFT_ERR_PLUGIN, WEFT_NOWHERE,
                         "%s says what mesh axis '%s' cuts and has not declared that axis",
                         plan->by ? plan->by : "a plugin", name);
}

/* The degrees with `auto` resolved, in declared order. */
static weft_status resolve(const weft_mesh_plan *plan, int64_t degree[], weft_error *err)
{
    int64_t product = 1;
    int automatic = -1;
    for (int i = 0; i < plan->n; i++) {
        degree[i] = plan->entry[i].degree;
        if (degree[i] > 0) {
            if (__builtin_mul_overflow(product, degree[i], &product))
                return weft_fail(err, WEFT_ERR_INPUT, plan->entry[i].at,
                                 "the mesh has more than 2^63 ranks; choose smaller degrees");
        } else if (automatic >= 0) {
            return weft_fail(err, WEFT_ERR_INPUT, plan->entry[i].at,
                             "both %s and %s have degree auto; give one of them a number",
                             plan->entry[automatic].name, plan->entry[i].name);
        } else {
            automatic = i;
        }
    }
    if (automatic >= 0 && plan->ranks % product == 0) {
        degree[automatic] = plan->ranks / product;
        return WEFT_OK;
    }
    if (automatic < 0 && product == plan->ranks)
        return WEFT_OK;
    if (plan->n == 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%d ranks, but no listed plugin spreads a run over ranks; list one that "
                         "does, in [weft] plugins or on the command line%s%s, or start with -n 1",
                         plan->ranks, *plan->spread ? ", as with --with " : "", plan->spread);
    weft_text text = {0};
    for (int i = 0; i < plan->n; i++)
        if (degree[i] > 1)
            weft_text_print(&text, "%s%s %lld", text.size ? " x " : "", plan->entry[i].name,
                            (long long)degree[i]);
    weft_where at = plan->entry[plan->n - 1].at;
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, at,
                              "the mesh (%s = %lld) does not fit %d rank%s; start with -n %lld%s",
                              text.size ? weft_text_get(&text) : "no axes", (long long)product,
                              plan->ranks, plan->ranks == 1 ? "" : "s", (long long)product,
                              automatic >= 0 ? " or a multiple" : ", or change a degree");
    weft_text_release(&text);
    return s;
}

static void append(weft_mesh *mesh, const weft_mesh_entry *e, int64_t degree)
{
    if (degree <= 1)
        return;
    weft_axis *a = &mesh->axis[mesh->n_axes++];
    snprintf(a->name, sizeof a->name, "%s", e->name);
    a->size = (int)degree;
    a->by = e->by;
    a->at = e->at;
    a->cuts = e->cuts;
}

weft_status weft_mesh_plan_finish(const weft_mesh_plan *plan, const char *const *order, int n_order,
                                  weft_where order_at, weft_mesh *mesh, weft_error *err)
{
    int64_t degree[2 * WEFT_MAX_AXES];
    weft_status s = resolve(plan, degree, err);
    if (s)
        return s;
    int n_axes = 0;
    for (int i = 0; i < plan->n; i++)
        n_axes += degree[i] > 1;
    if (n_axes > WEFT_MAX_AXES)
        return weft_fail(err, WEFT_ERR_INPUT, plan->entry[plan->n - 1].at,
                         "the mesh has %d axes of size above 1; at most %d are possible", n_axes,
                         WEFT_MAX_AXES);
    memset(mesh, 0, sizeof *mesh);
    bool placed[2 * WEFT_MAX_AXES] = {false};
    for (int i = 0; i < n_order; i++) {
        const weft_mesh_entry *e = find(plan, order[i]);
        if (!e)
            return weft_fail(err, WEFT_ERR_INPUT, order_at,
                             "[mesh] order names '%s', but no listed plugin declares that axis",
                             order[i]);
        if (placed[e - plan->entry])
            return weft_fail(err, WEFT_ERR_INPUT, order_at, "[mesh] order names '%s' twice",
                             order[i]);
        placed[e - plan->entry] = true;
        append(mesh, e, degree[e - plan->entry]);
    }
    for (int i = 0; i < plan->n; i++)
        if (!placed[i])
            append(mesh, &plan->entry[i], degree[i]);
    return WEFT_OK;
}
