/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that prove a schedule share. */
#ifndef WEFT_SCHEDULE_VERIFY_H
#define WEFT_SCHEDULE_VERIFY_H

#include "compile/schedule/schedule.h"

enum { NONE = -1, FORWARD = 0, BACKWARD = 1 };

typedef struct weft_verifier {
    const weft_tasks *t;
    const weft_tasks_limits *limits;
    weft_error *err;
    int *start;    /* by rank: number of its first task, all ranks' counted; [ranks]: of all */
    int *rank_of;  /* by task */
    int *place[2]; /* forward, backward; by stage and micro-batch: its task */
    int *transfer; /* by task: the transfer that its result leaves by; NONE: it stays */
    int *arrival;  /* by task: the transfer that brings its operand; NONE: it is here */
    int n_transfers;
} weft_verifier;

const weft_task *weft_verifier_task(const weft_verifier *v, int task);
/* "rank 1, task 5 (1F3)" */
void weft_verifier_name(const weft_verifier *v, int task, weft_text *text);
/* circles.c: transfers are known. */
weft_status weft_verify_circles(const weft_verifier *v);

#endif
