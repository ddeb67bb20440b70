/* SPDX-License-Identifier: Apache-2.0 */
/* The groups that redistributes and transfers are carried out in. */
#ifndef WEFT_EXECUTE_COLLECTIVE_H
#define WEFT_EXECUTE_COLLECTIVE_H

#include "compile/program/lower.h"
#include "execute/control.h"

#include <weft/service.h>

/* The group of ranks that differ on these axes, in their order, the first slowest. */
typedef struct weft_group {
    weft_channel channel;
    int n, me;
    int *ranks;
    int n_axes, axes[WEFT_MAX_AXES];
    void *handle; /* the transport's */
    struct weft_pair {
        int from, to;
    } * pairs; /* [n_pairs] members that send to members, if the transport wants to know */
    int n_pairs;
} weft_group;

typedef struct weft_groups {
    const weft_mesh *mesh;
    int rank;
    const weft_transport *transport;
    void *transport_self;
    const char *transport_by; /* the plugin that gives it */
    weft_control *control;    /* is told what is being sent; NULL: there are no others */
    weft_group *list;
    int n, capacity;
} weft_groups;

/* Makes every group that the programs use, in their order. */
weft_status weft_groups_add(weft_groups *groups, const weft_lowered *l, weft_error *err);
/* Tells the transport, of every group, where its collectives lie. All groups are made. */
weft_status weft_groups_tell_places(const weft_groups *groups,
                                    weft_lowered *const lowered[WEFT_MODES], weft_error *err);
void weft_groups_release(weft_groups *groups);
/* NULL: there is none. */
weft_group *weft_groups_find(const weft_groups *groups, weft_channel channel, const int *axes,
                             int n_axes);
/* For whoever must be told in what this rank waits; returns what it was at, to be put back. */
weft_doing weft_groups_set_task(const weft_groups *groups, const weft_node *n, const char *what);
/* Is anything sent in this step? */
bool weft_step_communicates(const weft_step *step);
#endif
