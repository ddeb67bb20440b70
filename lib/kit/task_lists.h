/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tasks as text that can be edited, which pp reads. */
#ifndef WEFT_LIB_KIT_TASK_LISTS_H
#define WEFT_LIB_KIT_TASK_LISTS_H

#include "compile/schedule/schedule.h"

/* Of each rank "rank 0:" and its tasks, in lines that an editor can show. */
void weft_tasks_print(const weft_tasks *tasks, weft_text *text);
/* A row a rank, a cell a task, as torch.distributed.pipelining reads and writes them. */
void weft_tasks_print_csv(const weft_tasks *tasks, weft_text *text);

#endif
