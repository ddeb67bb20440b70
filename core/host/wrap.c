/* SPDX-License-Identifier: Apache-2.0 */
#include "host/wrap.h"
#include "host/host.h"

#include <string.h>

/* A table is words: each is a function, or belongs to what is not one. */
typedef uintptr_t word;

static word word_at(const void *table, size_t offset)
{
    word w;
    memcpy(&w, (const char *)table + offset, sizeof w);
    return w;
}

const weft_service_link *weft_service_link_find(const void *self, size_t offset)
{
    const weft_service_link *l = self;
    while (l->inner && !word_at(l->table, offset))
        l = l->inner;
    return l;
}

weft_entry weft_service_link_enter(const weft_service_link *l, const char *function,
                                   weft_error *err)
{
    return weft_enter(l->by->module.plugin->name, function, l->by->module.where, err);
}

/* ---- chains ---- */

const weft_service_link *weft_wraps_find(const weft_plugins *plugins, const char *service)
{
    const weft_service_link *l = plugins->links;
    while (l && strcmp(l->service, service) != 0)
        l = l->next;
    return l;
}

const weft_service_link *weft_wraps_find_table(const weft_plugins *plugins, const void *table)
{
    const weft_service_link *l = plugins->links;
    while (l && l->outside != table)
        l = l->next;
    return l;
}

/* The functions that the chain has somewhere; all else as the service has it, or a table that was
 * chosen. */
static const void *make_outside(weft_plugins *plugins, const weft_service_link *l,
                                const weft_service_kind *kind)
{
    const weft_service_link *service = l;
    while (service->inner && !service->chosen)
        service = service->inner;
    char *outside = weft_pool_alloc(&plugins->link_pool, kind->size);
    for (size_t at = 0; outside && at < kind->size; at += sizeof(word)) {
        word function = word_at(kind->forward, at);
        word w = function ? word_at(weft_service_link_find(l, at)->table, at) ? function : 0
                          : word_at(service->table, at);
        memcpy(outside + at, &w, sizeof w);
    }
    return outside;
}

/* kind NULL, or without functions to call it: a table that is called as it is. */
static weft_service_link *add_link(weft_plugins *plugins, const weft_loaded *by,
                                   const weft_contribution *c, const void *table,
                                   const weft_service_link *inner, const weft_service_kind *kind,
                                   weft_error *err)
{
    weft_service_link *l = weft_pool_alloc(&plugins->link_pool, sizeof *l);
    weft_given *given = weft_pool_alloc(&plugins->link_pool, sizeof *given);
    if (l && given) {
        *l = (weft_service_link){.service = inner ? inner->service : c->service,
                                 .by = by,
                                 .table = table,
                                 .self = by->self,
                                 .inner = inner,
                                 .chosen = inner && c->around,
                                 .outside = table,
                                 .outside_self = by->self,
                                 .given = given,
                                 .next = plugins->links};
        if (kind && kind->forward) {
            l->outside = make_outside(plugins, l, kind);
            l->outside_self = l;
        }
    }
    if (!l || !given || !l->outside) {
        weft_fail_memory(err);
        return NULL;
    }
    plugins->links = l;
    return l;
}

/* What weft does not know it can still compare. */
static weft_status check_size(const weft_loaded *by, const weft_contribution *c,
                              const weft_service_link *inner, weft_error *err)
{
    size_t mine = *(const size_t *)c->table, theirs = *(const size_t *)inner->table;
    if (mine == theirs)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, by->module.where,
                     "plugin '%s' wraps service '%s' with a table of size %zu, and that of '%s' "
                     "has %zu; both must begin with size_t size, of one type",
                     by->module.plugin->name, inner->service, mine, inner->by->module.plugin->name,
                     theirs);
}

/* NULL: it does not stand around the service here. */
static const void *choose_table(const weft_plugins *plugins, const weft_loaded *by,
                                const weft_contribution *c, const weft_service_link *inner)
{
    if (!c->around)
        return c->table;
    const weft_service_link *device = weft_wraps_find(plugins, "device");
    const weft_entry entry = weft_enter(by->module.plugin->name, "around", by->module.where, NULL);
    const void *table = c->around(by->self, inner->outside, device ? device->outside : NULL);
    weft_leave(&entry, WEFT_OK);
    return table;
}

static weft_status add_wrap(weft_plugins *plugins, const weft_loaded *by,
                            const weft_contribution *c, weft_error *err)
{
    char name[64];
    bool optional;
    const char *service = weft_plain_capability(c->service, name, &optional);
    const weft_service_kind *kind = weft_service_kind_find(service);
    const weft_service_link *inner = weft_wraps_find(plugins, service);
    if (!inner && optional)
        return WEFT_OK;
    if (!inner)
        return weft_fail(err, WEFT_ERR_INPUT, by->module.where,
                         "plugin '%s' wraps '%s', and no listed plugin gives a service of this "
                         "name; list one that does",
                         by->module.plugin->name, service);
    weft_status s = kind ? WEFT_OK : check_size(by, c, inner, err);
    const void *table = s ? NULL : choose_table(plugins, by, c, inner);
    if (!table)
        return s;
    const weft_service_link *l = add_link(plugins, by, c, table, inner, kind, err);
    if (!l)
        return WEFT_ERR_MEMORY;
    const weft_entry entry = weft_service_link_enter(l, "wrap", err);
    return weft_leave(&entry, c->wrap(by->self, inner->outside, inner->outside_self, err));
}

weft_status weft_wraps_add(weft_plugins *plugins, const weft_loaded *loaded, weft_error *err)
{
    const weft_contribution *first = loaded->module.plugin->contributions;
    weft_status s = WEFT_OK;
    for (const weft_contribution *c = first; c && c->kind != WEFT_END; c++)
        if (c->kind == WEFT_SERVICE && !weft_wraps_find(plugins, c->service) &&
            !add_link(plugins, loaded, c, c->table, NULL, weft_service_kind_find(c->service), err))
            return WEFT_ERR_MEMORY;
    for (const weft_contribution *c = first; c && c->kind != WEFT_END && !s; c++)
        if (c->kind == WEFT_WRAP)
            s = add_wrap(plugins, loaded, c, err);
    return s;
}

void weft_wraps_release(weft_plugins *plugins)
{
    for (const weft_service_link *l = plugins->links; l; l = l->next)
        weft_free(l->given->list);
    weft_pool_release(&plugins->link_pool);
    plugins->links = NULL;
}

/* ---- looking at them ---- */

bool weft_plugins_inner(const weft_plugins *plugins, const void **table, void **self)
{
    const weft_service_link *l = weft_wraps_find_table(plugins, *table);
    if (!l || !l->inner)
        return false;
    *table = l->inner->outside;
    *self = l->inner->outside_self;
    return true;
}
