/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of wrapped transports: see wrap.h. A group that who is called has not made would be read as
 * one of its own: threads would wait for a lock that is none. So it never gets there. */
#include "host/wrap.h"

/* ---- groups that were given out ---- */

static weft_status add_given(weft_given *given, void *group, weft_error *err)
{
    if (given->n == given->capacity) {
        int more = given->capacity ? 2 * given->capacity : 8;
        void **fresh = weft_realloc(given->list, (size_t)more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        given->list = fresh;
        given->capacity = more;
    }
    given->list[given->n++] = group;
    return WEFT_OK;
}

static int find_given(const weft_given *given, const void *group)
{
    for (int i = 0; i < given->n; i++)
        if (given->list[i] == group)
            return i;
    return -1;
}

/* Whose groups the functions of this link are called with. */
static const weft_link *maker_for(const weft_link *l)
{
    return weft_link_find(l, offsetof(weft_transport, group));
}

/* self: the link that was called; l: the one that has the function. */
static weft_status check_group(const weft_link *self, const weft_link *l, const char *function,
                               const void *group, weft_error *err)
{
    const weft_link *maker = maker_for(l), *outer = maker_for(self);
    const char *inner = maker->by->module.plugin->name;
    if (find_given(maker->given, group) >= 0)
        return WEFT_OK;
    if (outer != maker && find_given(outer->given, group) >= 0)
        return weft_fail(err, WEFT_ERR_RUN, outer->by->module.where,
                         "plugin '%s' hands out groups of its own, and has no %s for them; a wrap "
                         "that does has every function that takes a group",
                         outer->by->module.plugin->name, function);
    const char *by = weft_blame_get().plugin;
    return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                     "plugin '%s' calls %s of '%s' with a group that '%s' has not made; pass on "
                     "the one that next->group has given",
                     by ? by : "?", function, inner, inner);
}

static weft_status make_group(void *self, const int *ranks, int n, int me, void **group,
                              weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, group));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "group", err);
    weft_status s = weft_leave(&entry, t->group(l->self, ranks, n, me, group, err));
    return s ? s : add_given(l->given, *group, err);
}

static void ungroup(void *self, void *group)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, ungroup));
    const weft_transport *t = l->table;
    weft_given *given = maker_for(l)->given;
    weft_error err = {0};
    if (check_group(self, l, "ungroup", group, &err)) {
        weft_log_print(l->by->host.log, WEFT_LOG_WARN, "%s", weft_error_text(&err));
        weft_error_release(&err);
        return;
    }
    given->list[find_given(given, group)] = given->list[given->n - 1];
    given->n--;
    const weft_entry entry = weft_link_enter(l, "ungroup", NULL);
    t->ungroup(l->self, group);
    weft_leave(&entry, WEFT_OK);
}

static weft_status connect(void *self, void *group, int from, int to, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, connect));
    const weft_transport *t = l->table;
    weft_status s = check_group(self, l, "connect", group, err);
    if (s)
        return s;
    const weft_entry entry = weft_link_enter(l, "connect", err);
    return weft_leave(&entry, t->connect(l->self, group, from, to, err));
}

static weft_status check(void *self, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, check));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "check", err);
    return weft_leave(&entry, t->check(l->self, err));
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
    weft_status s = check_group(self, l, "all_gather", group, err);
    if (s)
        return s;
    const weft_entry entry = weft_link_enter(l, "all_gather", err);
    return weft_leave(&entry, t->all_gather(l->self, group, send, recv, count, dtype, queue, err));
}

static weft_status reduce_scatter(void *self, void *group, const void *send, void *recv,
                                  int64_t count, weft_dtype dtype, weft_reduce op,
                                  weft_queue *queue, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, reduce_scatter));
    const weft_transport *t = l->table;
    weft_status s = check_group(self, l, "reduce_scatter", group, err);
    if (s)
        return s;
    const weft_entry entry = weft_link_enter(l, "reduce_scatter", err);
    return weft_leave(&entry,
                      t->reduce_scatter(l->self, group, send, recv, count, dtype, op, queue, err));
}

static weft_status all_reduce(void *self, void *group, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, all_reduce));
    const weft_transport *t = l->table;
    weft_status s = check_group(self, l, "all_reduce", group, err);
    if (s)
        return s;
    const weft_entry entry = weft_link_enter(l, "all_reduce", err);
    return weft_leave(&entry,
                      t->all_reduce(l->self, group, send, recv, count, dtype, op, queue, err));
}

static weft_status all_to_all(void *self, void *group, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, all_to_all));
    const weft_transport *t = l->table;
    weft_status s = check_group(self, l, "all_to_all", group, err);
    if (s)
        return s;
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

static weft_status add_memory(void *self, void *memory, size_t bytes, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, add_memory));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "add_memory", err);
    return weft_leave(&entry, t->add_memory(l->self, memory, bytes, err));
}

static void remove_memory(void *self, void *memory, size_t bytes)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, remove_memory));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "remove_memory", NULL);
    t->remove_memory(l->self, memory, bytes);
    weft_leave(&entry, WEFT_OK);
}

/* A wrap with groups of its own need not know of it: nobody below is told then. */
static weft_status places(void *self, void *group, uint64_t digest, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, places));
    const weft_transport *t = l->table;
    if (find_given(maker_for(l)->given, group) < 0)
        return WEFT_OK;
    const weft_entry entry = weft_link_enter(l, "places", err);
    return weft_leave(&entry, t->places(l->self, group, digest, err));
}

static size_t library_bytes(void *self, const weft_planned_group *groups, int n)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, library_bytes));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "library_bytes", NULL);
    size_t answer = t->library_bytes(l->self, groups, n);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_status takes(void *self, const weft_device *device, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, takes));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "takes", err);
    return weft_leave(&entry, t->takes(l->self, device, err));
}

static bool sends_terms(void *self, weft_reduce op)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_transport, sends_terms));
    const weft_transport *t = l->table;
    const weft_entry entry = weft_link_enter(l, "sends_terms", NULL);
    bool answer = t->sends_terms(l->self, op);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static bool sees_collectives(const weft_transport *t)
{
    return t->all_gather || t->reduce_scatter || t->all_reduce || t->all_to_all || t->broadcast;
}

/* What is enqueued again passes by all that would have been called: each must allow it. */
static bool captured(void *self)
{
    bool may = true;
    for (const weft_link *l = self; l && may; l = l->inner) {
        const weft_transport *t = l->table;
        if (!t->captured) {
            may = !sees_collectives(t);
            continue;
        }
        const weft_entry entry = weft_link_enter(l, "captured", NULL);
        may = t->captured(l->self);
        weft_leave(&entry, WEFT_OK);
    }
    return may;
}

const weft_transport weft_forward_transport = {
    .captured = captured,
    .add_memory = add_memory,
    .remove_memory = remove_memory,
    .places = places,
    .library_bytes = library_bytes,
    .takes = takes,
    .sends_terms = sends_terms,
    .group = make_group,
    .ungroup = ungroup,
    .leave = leave,
    .connect = connect,
    .check = check,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_to_all = all_to_all,
    .send = send,
    .recv = recv,
    .wait = wait_for,
    .broadcast = broadcast,
};
