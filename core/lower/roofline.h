/* SPDX-License-Identifier: Apache-2.0 */
/* How long planned work takes, by a roofline: every instruction the larger of its operations and
 * its bytes over what the device reaches, and instructions beside each other as their queues and
 * waits let them. A prediction, and no more. */
#ifndef WEFT_LOWER_ROOFLINE_H
#define WEFT_LOWER_ROOFLINE_H

#include "lower/lower.h"
#include "schedule/timeline.h"

typedef struct weft_roofline {
    weft_device_rates rates;
    bool in_turn; /* all queues are one */
    bool staged;  /* what the device has no kernel for is computed by the host */
} weft_roofline;

/* Of who knows no device: one rate for all that is computed and one for all that is sent, 0: as it
 * is; nothing else takes time. */
void weft_roofline_assume(weft_roofline *r, double flops_per_s, double bytes_per_s);

typedef enum weft_work {
    WEFT_WORK_PRODUCT,
    WEFT_WORK_ATTENTION,
    WEFT_WORK_OTHER,
    WEFT_WORK_SENT,
    WEFT_WORKS
} weft_work;

/* Of one run of an instruction. */
typedef struct weft_work_cost {
    weft_work work;
    double seconds;
    bool known; /* no: its kernel is the host's, or the device has no rate for it; the time is that
                   of what is known */
} weft_work_cost;

weft_work_cost weft_roofline_cost(const weft_roofline *r, const weft_lowered *l,
                                  const weft_instruction *in);
/* How many of a group's ranks are on a rank's host, and how many hosts have some. */
typedef struct weft_reach {
    int n, near, hosts;
} weft_reach;
weft_reach weft_reach_of(const weft_device_rates *rates, const weft_mesh *mesh, const int *axes,
                         int n_axes);
/* What a call of the transport takes; count: as in its table of functions. */
double weft_roofline_send(const weft_device_rates *rates, const weft_mesh *mesh,
                          const weft_step *step, int64_t count, weft_dtype dtype);

/* When each instruction of a program begins and ends, into times[p->n], and when all are done. What
 * the prologue begins is there from the start, and takes its queue's time beside the body: that of
 * the next task does. */
double weft_roofline_run(const weft_roofline *r, const weft_lowered *l, const weft_program *p,
                         weft_task_time *times);

#endif
