/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and optimizer state as a store sees them. */
#include "compile/driver/plan.h"

#include <string.h>

/* Ranks that differ on axes alone over which the layout is replicated hold the same. */
static void count_replicas(const weft_mesh *mesh, weft_layout layout,
                           const int coord[WEFT_MAX_AXES], weft_state_tensor *t)
{
    t->replicas = 1;
    for (int a = 0; a < mesh->n_axes; a++) {
        if (weft_layout_byte(layout, a)) /* cut, or at one place */
            continue;
        t->replica += coord[a] * t->replicas;
        t->replicas *= mesh->axis[a].size;
    }
}

weft_status weft_plan_state(const weft_plan *plan, void *memory, weft_state_tensor **out,
                            weft_error *err)
{
    int coord[WEFT_MAX_AXES];
    weft_state_tensor *list = weft_alloc_zero((size_t)plan->states.n + 1, sizeof *list);
    *out = list;
    if (!list)
        return weft_fail_memory(err);
    weft_mesh_coord(&plan->mesh, plan->rank, coord);
    for (int i = 0; i < plan->states.n; i++) {
        const weft_state_entry *e = &plan->states.list[i];
        list[i].name = e->name;
        list[i].moment = weft_node_is(e->value->node, WEFT_OP_STATE);
        list[i].buffer = list[i].moment && e->value->kind == WEFT_STATE_BUFFER;
        weft_local_tensor(weft_plan_model(plan), e->value, coord, &list[i].tensor);
        list[i].elsewhere = !weft_layout_held(e->value->layout, coord);
        for (int d = 0; d < list[i].tensor.n_dims && list[i].elsewhere; d++)
            list[i].tensor.size[d] = 0;
        list[i].tensor.data = memory ? (char *)memory + e->offset : NULL;
        count_replicas(&plan->mesh, e->value->layout, coord, &list[i]);
    }
    return WEFT_OK;
}

int64_t weft_plan_store_bytes(const weft_plan *plan)
{
    void *self;
    weft_state_tensor *list;
    const weft_store *store = weft_plugins_service(plan->plugins, "store", &self);
    if (!store || !store->buffer_bytes || !plan->lowered[WEFT_MODE_TRAIN] ||
        weft_plan_state(plan, NULL, &list, NULL))
        return 0;
    const weft_state_view view = {.rank = plan->rank,
                                  .ranks = plan->ranks,
                                  .device = plan->device,
                                  .tensors = list,
                                  .n_tensors = plan->states.n};
    int64_t bytes = store->buffer_bytes(self, &view);
    weft_free(list);
    return bytes;
}
