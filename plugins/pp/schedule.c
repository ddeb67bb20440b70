/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank runs what, and when: a schedule by name, or one from a file. */
#include "pp.h"

#include <string.h>
#include <weft/files.h>

static weft_status from_file(const pp *self, const char *path, weft_tasks *tasks, weft_error *err)
{
    char *text = NULL;
    size_t size;
    weft_status s = weft_read_file(path, &text, &size, err);
    if (s)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->params, "schedule"),
                         "[pp] schedule = %s: it is the name of no schedule (gpipe, 1f1b, "
                         "interleaved), and of no file that can be read",
                         path);
    s = strlen(text) == size
            ? weft_tasks_parse(tasks, path, text, err)
            : weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->params, "schedule"),
                        "[pp] schedule = %s: the file is not text", path);
    weft_free(text);
    return s;
}

weft_status pp_generate(void *self, int ranks, int stages, int64_t micro_batches, weft_tasks *tasks,
                        weft_error *err)
{
    const pp *p = self;
    const char *name = weft_params_text(p->params, "schedule");
    (void)micro_batches;
    if (strcmp(name, "auto") == 0)
        return weft_schedule_fill(stages > ranks ? WEFT_SCHEDULE_INTERLEAVED : WEFT_SCHEDULE_1F1B,
                                  tasks, err);
    for (int k = 0; k < WEFT_SCHEDULES; k++)
        if (strcmp(name, weft_schedule_name((weft_schedule_kind)k)) == 0)
            return weft_schedule_fill((weft_schedule_kind)k, tasks, err);
    return from_file(p, name, tasks, err);
}
