/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tasks at random: known schedules, any order that one machine could run, and such with
 * tasks that are lost, moved, twice or something else. */
#ifndef PIPELINE_LISTS_H
#define PIPELINE_LISTS_H

#include "compile/schedule/schedule.h"

enum { PIPELINE_MOST_STAGES = 32 };

typedef struct pipeline_case {
    weft_tasks *tasks;
    int64_t sending; /* as for weft_tasks_verify */
} pipeline_case;

/* The lists of a schedule of pp's, with its placement and the frame. */
weft_tasks *pipeline_schedule(const char *name, int ranks, int stages, int64_t micro);
/* What pp reads in a text, in lists of that size. */
weft_status pipeline_parse(weft_tasks *t, const char *text, weft_error *err);
/* The same for the same seed. Release. */
void pipeline_case_init(pipeline_case *c, uint64_t seed);
void pipeline_case_release(pipeline_case *c);
/* The lists and how many are sent, for messages. */
void pipeline_case_print(const pipeline_case *c, weft_text *text);

#endif
