/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of tasks of a mode: a plugin's schedule, or the trivial one. */
#include "compile/driver/plan.h"

static weft_status generate(const weft_plan *p, const weft_schedule *schedule, void *self,
                            weft_tasks *tasks, weft_error *err)
{
    const weft_pipeline_view view = {tasks->ranks, tasks->stages, tasks->micro_batches,
                                     tasks->rank_of};
    weft_status s = schedule->generate(self, &view, tasks, err);
    s = s ? s : weft_tasks_frame(tasks, err);
    s = s ? s : weft_tasks_find_sending(tasks, err);
    if (s)
        weft_fail(err, s, WEFT_NOWHERE, "the schedule is that of plugin %s",
                  weft_plugins_giver(p->plugins, schedule));
    return s;
}

weft_status weft_plan_schedule(weft_plan *p, weft_mode mode, weft_error *err)
{
    void *self = NULL;
    const weft_graph *g = p->graphs[mode];
    bool train = mode == WEFT_MODE_TRAIN;
    const weft_schedule *schedule =
        train ? weft_plugins_service(p->plugins, "schedule", &self) : NULL;
    if (train && p->micro_batches > WEFT_MAX_TASKS / 2)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->train, "global_batch"),
                         "[train] global_batch: %lld micro-batches a step are more than a schedule "
                         "can hold; at most %lld",
                         (long long)p->micro_batches, (long long)WEFT_MAX_TASKS / 2);
    int axis = weft_graph_stage_axis(g);
    int ranks = axis < 0 ? 1 : p->mesh.axis[axis].size;
    weft_status s = weft_tasks_create(ranks, weft_graph_stages(g), train ? p->micro_batches : 1,
                                      train, &p->tasks[mode], err);
    if (s)
        return s;
    for (int i = 0; i < p->tasks[mode]->stages; i++)
        p->tasks[mode]->rank_of[i] = weft_graph_stage_rank(g, i);
    return schedule ? generate(p, schedule, self, p->tasks[mode], err)
                    : weft_tasks_trivial(p->tasks[mode], err);
}
