/* SPDX-License-Identifier: Apache-2.0 */
/* Runs lists of tasks without work: ranks that go on as far as they can, channels that are queues.
 * Shares no code with the verifier of schedules. */
#ifndef PIPELINE_SIM_H
#define PIPELINE_SIM_H

#include "compile/schedule/schedule.h"

/* Do all ranks come to their end, each task with what it needs? seed: of the order in which ranks
 * go on. sending: as for weft_tasks_verify. */
bool pipeline_finishes(const weft_tasks *t, int64_t sending, uint64_t seed);

/* Seconds of each rank between its first and its last task in which it does nothing, the most of
 * all ranks: a forward of one micro-batch through all stages of a rank takes 1, a backward 2,
 * transfers nothing. t must be one that finishes. */
double pipeline_bubble(const weft_tasks *t);

#endif
