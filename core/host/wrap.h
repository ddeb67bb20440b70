/* SPDX-License-Identifier: Apache-2.0 */
/* Services, and plugins that stand around them. Internal to core/host.
 *
 * A chain of links: the service, and every wrap of it in listed order. Whoever calls link n calls
 * its `outside`, a table of the core's with the link as self. Each function of that table finds the
 * link that has it, from n inwards, enters the plugin there, and calls its own table (services.c).
 * So the thread always knows whose code it is in, and what a wrap leaves out goes past it. A
 * service whose table weft does not know, or whose functions take no instance, is called as it is.
 */
#ifndef WEFT_HOST_WRAP_H
#define WEFT_HOST_WRAP_H

#include "host/enter.h"

/* A service whose table weft knows. */
typedef struct weft_service_kind {
    const char *name, *type; /* "data", "weft_data" */
    size_t size;
    const void *forward; /* a table of functions that call the link's; what is not a function is 0.
                            NULL: its functions take no instance, so nothing can stand around it */
} weft_service_kind;

/* NULL: a plugin's own. */
const weft_service_kind *weft_service_kind_find(const char *name);

/* The groups that a transport's `group` has given out and `ungroup` not taken back. */
typedef struct weft_given {
    void **list;
    int n, capacity;
} weft_given;

typedef struct weft_service_link {
    const char *service;
    const weft_loaded *by;
    const void *table; /* the plugin's own */
    void *self;
    const struct weft_service_link *inner; /* NULL: this is the service */
    bool chosen; /* by `around`: what is not a function is this table's, too */
    const void *outside;
    void *outside_self;
    weft_given *given;                    /* of this plugin's transport */
    const struct weft_service_link *next; /* of the set, newest first */
} weft_service_link;

/* The link at `self` or further in whose table has a function at this offset: one has, or the
 * function could not have been called. */
const weft_service_link *weft_service_link_find(const void *self, size_t offset);
weft_entry weft_service_link_enter(const weft_service_link *l, const char *function,
                                   weft_error *err);

/* Makes the links of a plugin that was just created: its services, then what it wraps. */
weft_status weft_wraps_add(weft_plugins *plugins, const weft_loaded *loaded, weft_error *err);
void weft_wraps_release(weft_plugins *plugins);
/* The outermost link of a service; NULL: no plugin that is created gives it. */
const weft_service_link *weft_wraps_find(const weft_plugins *plugins, const char *service);
/* The link that is called by this table; NULL: none is. */
const weft_service_link *weft_wraps_find_table(const weft_plugins *plugins, const void *table);

#endif
