/* SPDX-License-Identifier: Apache-2.0 */
/* How many hosts a group of ranks is on. Ranks fill hosts in order. */
#include "forecast/roofline.h"

/* The group's axes from the innermost on. */
typedef struct group {
    int n_axes, n;
    int size[WEFT_MAX_AXES], stride[WEFT_MAX_AXES];
} group;

static group group_of(const weft_mesh *mesh, const int *axes, int n_axes)
{
    group g = {.n = 1};
    for (int a = 0; a < mesh->n_axes; a++)
        for (int k = 0; k < n_axes; k++)
            if (axes[k] == a) {
                g.size[g.n_axes] = mesh->axis[a].size;
                g.stride[g.n_axes++] = weft_mesh_stride(mesh, a);
                g.n *= mesh->axis[a].size;
            }
    return g;
}

/* Does each host end where ranks that differ along an axis begin again? Then all groups are alike.
 */
static bool fits(const weft_mesh *mesh, int host)
{
    for (int a = 0; a < mesh->n_axes; a++) {
        const int stride = weft_mesh_stride(mesh, a), end = stride * mesh->axis[a].size;
        if (host <= end)
            return host % stride == 0 && end % host == 0;
    }
    return true;
}

static weft_reach alike(const group *g, int host)
{
    weft_reach at = {g->n, 1, 1};
    for (int k = 0; k < g->n_axes; k++) {
        const int room = host / g->stride[k];
        at.near *= room < 1 ? 1 : room < g->size[k] ? room : g->size[k];
    }
    at.hosts = at.n / at.near;
    return at;
}

/* Member i's number, from that of the first; it rises with i. */
static int member(const group *g, int first, int i)
{
    for (int k = 0; k < g->n_axes; i /= g->size[k++])
        first += i % g->size[k] * g->stride[k];
    return first;
}

static weft_reach reach_from(const group *g, int host, int first)
{
    weft_reach at = {g->n, g->n, 0};
    for (int i = 0, here = 1; i < g->n; i++, here++) {
        const bool last = i + 1 == g->n;
        if (!last && member(g, first, i) / host == member(g, first, i + 1) / host)
            continue;
        at.near = here < at.near ? here : at.near;
        at.hosts++;
        here = 0;
    }
    return at;
}

static bool is_first(const group *g, int rank)
{
    int k = 0;
    while (k < g->n_axes && rank / g->stride[k] % g->size[k] == 0)
        k++;
    return k == g->n_axes;
}

/* Of groups that differ the one on most hosts, for in the end all wait for it. */
static weft_reach worst(const weft_mesh *mesh, const group *g, int host)
{
    weft_reach most = {0};
    for (int rank = 0; rank < weft_mesh_ranks(mesh); rank++) {
        const weft_reach at = is_first(g, rank) ? reach_from(g, host, rank) : most;
        if (at.hosts > most.hosts || (at.hosts == most.hosts && at.near < most.near))
            most = at;
    }
    return most;
}

weft_reach weft_reach_of(const weft_device_rates *rates, const weft_mesh *mesh, const int *axes,
                         int n_axes)
{
    const group g = group_of(mesh, axes, n_axes);
    if (rates->host <= 0)
        return (weft_reach){g.n, g.n, 1};
    return fits(mesh, rates->host) ? alike(&g, rates->host) : worst(mesh, &g, rates->host);
}
