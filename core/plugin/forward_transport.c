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

static weft_status send(void *self, void *group, int to, const void *data, int64_t count,
                        weft_dtype dtype, weft_queue *queue, weft_request **request,
                        weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, send));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "send", err);
    return weft_leave(&entry, t->send(l->self, group, to, data, count, dtype, queue, request, err));
}

static weft_status recv(void *self, void *group, int from, void *data, int64_t count,
                        weft_dtype dtype, weft_queue *queue, weft_request **request,
                        weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, recv));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "recv", err);
    return weft_leave(&entry,
                      t->recv(l->self, group, from, data, count, dtype, queue, request, err));
}

static weft_status wait_for(void *self, weft_request *request, weft_queue *queue, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, wait));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "wait", err);
    return weft_leave(&entry, t->wait(l->self, request, queue, err));
}

static weft_status broadcast(void *self, void *group, int root, void *data, int64_t count,
                             weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, broadcast));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "broadcast", err);
    return weft_leave(&entry, t->broadcast(l->self, group, root, data, count, dtype, queue, err));
}

const weft_transport weft_forward_transport = {
    .group = make_group,
    .ungroup = ungroup,
    .leave = leave,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_to_all = all_to_all,
    .send = send,
    .recv = recv,
    .wait = wait_for,
    .broadcast = broadcast,
};
