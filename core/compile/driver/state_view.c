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

/* PLUGIN.NAME and the mesh: what a rank keeps for itself is of no use to those of another. */
static weft_status name_kept(weft_plan *plan, const weft_kept_bytes *k, const char **name,
                             weft_error *err)
{
    weft_text text = {0};
    weft_text_print(&text, "%s.%s", k->by, k->name);
    for (int a = 0; a < plan->mesh.n_axes; a++)
        weft_text_print(&text, "%c%s%d", a ? '.' : '@', plan->mesh.axis[a].name,
                        plan->mesh.axis[a].size);
    *name = text.out_of_memory ? NULL : weft_pool_strdup(&plan->states.pool, weft_text_get(&text));
    weft_text_release(&text);
    return *name ? WEFT_OK : weft_fail_memory(err);
}

weft_status weft_plan_keep(weft_plan *plan, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (weft_kept_bytes *k = plan->plugins->kept; k && !s; k = k->next) {
        k->offset = plan->states.bytes;
        plan->states.bytes += weft_align(k->bytes, plan->states.alignment);
        plan->n_kept++;
        s = name_kept(plan, k, &k->file_name, err);
        if (!s && (k->flags & WEFT_KEEP_HOST) && !plan->device->host_memory)
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "plugin %s works in the host's memory on what it keeps as '%s', and the "
                          "device '%s' has its own; take one of them out",
                          k->by, k->name, plan->device->name);
    }
    return s;
}

/* One behind the other, rank after rank; bytes: of each rank, NULL: only this one is known. */
static void add_kept(const weft_plan *plan, const int64_t *bytes, weft_state_tensor *list)
{
    int i = 0;
    for (const weft_kept_bytes *k = plan->plugins->kept; k; k = k->next, i++) {
        weft_tensor *t = &list[i].tensor;
        list[i] = (weft_state_tensor){.name = k->file_name,
                                      .moment = true,
                                      .kept_by = k->by,
                                      .resets = k->flags & WEFT_KEEP_RESETS,
                                      .replicas = 1};
        *t = (weft_tensor){.dtype = WEFT_U8, .n_dims = 1, .size = {k->bytes}, .grain = {1}};
        for (int r = 0; r < plan->ranks && bytes; r++) {
            const int64_t n = bytes[r * plan->n_kept + i];
            t->whole[0] += n;
            t->lo[0] += r < plan->rank ? n : 0;
        }
        t->whole[0] = bytes ? t->whole[0] : k->bytes;
    }
}

weft_status weft_plan_state(const weft_plan *plan, const int64_t *kept, weft_state_tensor **out,
                            weft_error *err)
{
    const int *coord = plan->coord;
    weft_state_tensor *list =
        weft_alloc_zero((size_t)(plan->states.n + plan->n_kept) + 1, sizeof *list);
    *out = list;
    if (!list)
        return weft_fail_memory(err);
    for (int i = 0; i < plan->states.n; i++) {
        const weft_state_entry *e = &plan->states.list[i];
        list[i].name = e->name;
        list[i].moment = weft_node_is(e->value->node, WEFT_OP_STATE);
        list[i].buffer = list[i].moment && e->value->kind == WEFT_STATE_BUFFER;
        weft_local_tensor(weft_plan_model(plan), e->value, coord, &list[i].tensor);
        list[i].elsewhere = !weft_layout_held(e->value->layout, coord);
        for (int d = 0; d < list[i].tensor.n_dims && list[i].elsewhere; d++)
            list[i].tensor.size[d] = 0;
        count_replicas(&plan->mesh, e->value->layout, coord, &list[i]);
    }
    add_kept(plan, kept, list + plan->states.n);
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
                                  .tensors = list,
                                  .n_tensors = plan->states.n + plan->n_kept};
    int64_t bytes = store->buffer_bytes(self, &view);
    weft_free(list);
    return bytes;
}
