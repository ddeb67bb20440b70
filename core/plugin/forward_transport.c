/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of wrapped transports: see wrap.h. */
#include "plugin/wrap.h"

static weft_status make_group(void *self, const int *ranks, int n, int me, void **group,
                              weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, group));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "group", err);
    return weft_leave(&entry, t->group(l->self, ranks, n, me, group, err));
}

static void ungroup(void *self, void *group)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, ungroup));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "ungroup", NULL);
    t->ungroup(l->self, group);
    weft_leave(&entry, WEFT_OK);
}

static void leave(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, leave));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "leave", NULL);
    t->leave(l->self);
    weft_leave(&entry, WEFT_OK);
}

static weft_status all_gather(void *self, void *group, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, all_gather));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "all_gather", err);
    return weft_leave(&entry, t->all_gather(l->self, group, send, recv, count, dtype, queue, err));
}

static weft_status reduce_scatter(void *self, void *group, const void *send, void *recv,
                                  int64_t count, weft_dtype dtype, weft_reduce op,
                                  weft_queue *queue, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, reduce_scatter));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "reduce_scatter", err);
    return weft_leave(&entry,
                      t->reduce_scatter(l->self, group, send, recv, count, dtype, op, queue, err));
}

static weft_status all_reduce(void *self, void *group, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, all_reduce));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "all_reduce", err);
    return weft_leave(&entry,
                      t->all_reduce(l->self, group, send, recv, count, dtype, op, queue, err));
}

static weft_status all_to_all(void *self, void *group, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, all_to_all));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "all_to_all", err);
    return weft_leave(&entry, t->all_to_all(l->self, group, send, recv, count, dtype, queue, err));
}

const weft_transport weft_forward_transport = {
    .group = make_group,
    .ungroup = ungroup,
    .leave = leave,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_to_all = all_to_all,
};
