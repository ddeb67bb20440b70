/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel between ranks: agreement on status, small exchanges. Carries no tensors. */
#ifndef WEFT_RUN_CONTROL_H
#define WEFT_RUN_CONTROL_H

#include "plugin/plugins.h"

/* Shared by all ranks that are threads of this process. */
typedef struct weft_control weft_control;

weft_status weft_control_create(int ranks, weft_control **out, weft_error *err);
void weft_control_destroy(weft_control *control);
/* all receives ranks * n bytes. Fails on every rank, instead of waiting, once one has left. */
weft_status weft_control_exchange(weft_control *control, int rank, const void *mine, size_t n, void *all, weft_error *err);
/* Ends a phase: every rank's status is made known to all. WEFT_OK if all are; a rank that was fine itself gets
 * WEFT_ERR_PEER and is told who failed and why. */
weft_status weft_control_agree(weft_control *control, int rank, const char *phase, weft_status mine, weft_error *err);
/* host->exchange, over the channel that the host's plugin set holds. */
weft_status weft_host_exchange(const weft_host *host, const void *mine, size_t n, void *all, weft_error *err);
/* This rank takes part no more; whoever waits for it is woken with an error. */
void weft_control_leave(weft_control *control, int rank);

#endif
