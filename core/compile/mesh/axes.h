/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting the axes that plugins declare into one mesh. Internal. */
#ifndef WEFT_MESH_AXES_H
#define WEFT_MESH_AXES_H

#include <weft/mesh.h>
#include <weft/plugin.h>

typedef struct weft_mesh_entry {
    char name[24];
    int64_t degree; /* 0: auto */
    const char *by;
    weft_where at;
    const char *cuts;
} weft_mesh_entry;

struct weft_mesh_plan {
    int ranks;
    int n;
    weft_mesh_entry entry[2 * WEFT_MAX_AXES];
    const char *by; /* the plugin being asked now */
    /* What --with could say to spread the run; empty: unknown. */
    char spread[80];
};

void weft_mesh_plan_init(weft_mesh_plan *plan, int ranks);
/* order: names innermost first ([mesh] order), NULL or empty: as declared. Resolves `auto`, checks
 * that the degrees multiply to the ranks. */
weft_status weft_mesh_plan_finish(const weft_mesh_plan *plan, const char *const *order, int n_order,
                                  weft_where order_at, weft_mesh *mesh, weft_error *err);

#endif
