/* SPDX-License-Identifier: Apache-2.0 */
/* [weft] check = replicas. Ranks that should hold the same bytes of a value, those that differ on
 * axes alone over which its layout is replicated, compare hashes of them over the control channel.
 * Every rank sees all hashes, so all come to the same end. */
#include "check.h"

#include <weft/random.h>

/* 0 of what this rank does not hold: nor does any that would compare with it. */
static weft_status hash(const weft_run_view *run, int i, uint64_t *out, weft_error *err)
{
    const weft_operand *o = &run->operands[i];
    weft_tensor t;
    *out = 0;
    weft_status s = weft_run_tensor(run, i, &t, err);
    if (!s && t.data)
        *out = weft_hash_bytes(weft_hash_name(o->value->name), t.data, o->bytes);
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

static weft_status compare(const weft_run_view *run, const uint64_t *all, bool updated,
                           weft_error *err)
{
    const int n = run->n_operands;
    for (int i = 0; i < n; i++)
        for (int r = 0; r < run->ranks; r++) {
            const weft_value *v = run->operands[i].value;
            int first = model_of(run->mesh, v->layout, r);
            if (all[r * n + i] != all[first * n + i])
                return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                 "step %lld, %s the update: %s is not the same on ranks %d and %d, "
                                 "which should hold it alike",
                                 (long long)run->step, updated ? "after" : "before", v->name, first,
                                 r);
        }
    return WEFT_OK;
}

weft_status check_replicas(const weft_host *host, const weft_run_view *run, bool updated,
                           weft_error *err)
{
    const size_t n = (size_t)run->n_operands;
    uint64_t *mine = weft_alloc((n + 1) * sizeof *mine);
    uint64_t *all = weft_alloc((n + 1) * (size_t)run->ranks * sizeof *all);
    weft_status s = mine && all ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < run->n_operands && !s; i++)
        s = hash(run, i, &mine[i], err);
    s = s ? s : host->exchange(host, mine, n * sizeof *mine, all, err);
    s = s ? s : compare(run, all, updated, err);
    weft_free(mine);
    weft_free(all);
    return s;
}
