/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank runs what, and when: a schedule by name, or one from a file. */
#include "pp.h"

#include <string.h>
#include <weft/files.h>

static weft_where where_of(const pp *self, const char *key)
{
    return weft_params_where(self->params, key);
}

/* Each stage is of one rank, and each rank is there. */
static weft_status check_table(const pp *self, weft_error *err)
{
    const pp_lists *l = &self->lists;
    if (l->stages == 0)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){l->name, 0},
                         "no cell is a task of a stage, as 0F0; a row has those of a rank");
    if (l->ranks != self->degree)
        return weft_fail(err, WEFT_ERR_INPUT, where_of(self, "degree"),
                         "[pp] degree = %d: %s has %d row%s, one for each rank; degree = %d is "
                         "what it needs",
                         (int)self->degree, l->name, l->ranks, l->ranks == 1 ? "" : "s", l->ranks);
    for (size_t i = 0; i < l->n; i++)
        if (l->rank_of[l->items[i].stage] != l->items[i].rank)
            return weft_fail(err, WEFT_ERR_INPUT, (weft_where){l->name, l->items[i].line},
                             "stage %d is on rank %d, and on rank %d as well; a stage has one rank",
                             l->items[i].stage, l->rank_of[l->items[i].stage], l->items[i].rank);
    for (int s = 0; s < l->stages; s++)
        if (l->rank_of[s] < 0)
            return weft_fail(err, WEFT_ERR_INPUT, (weft_where){l->name, 0},
                             "stage %d is on no rank, and stages are 0 to %d", s, l->stages - 1);
    return WEFT_OK;
}

static void print_names(weft_text *text)
{
    for (int i = 0; pp_schedule_name(i); i++)
        weft_text_print(text, "%s, ", pp_schedule_name(i));
    weft_text_add(text, "auto");
}

static weft_status no_such(const pp *self, const char *name, weft_error *err)
{
    weft_text names = {0};
    print_names(&names);
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, where_of(self, "schedule"),
                              "[pp] schedule = %s: it is the name of no schedule (%s), and of no "
                              "file that can be read",
                              name, weft_text_get(&names));
    weft_text_release(&names);
    return s;
}

weft_status pp_load(pp *self, weft_error *err)
{
    const char *name = weft_params_text(self->params, "schedule");
    char *text = NULL;
    size_t size;
    if (self->schedule || self->lists.name || self->automatic)
        return WEFT_OK;
    weft_error why = {0};
    weft_status s = weft_read_file(name, &text, &size, &why);
    weft_error_release(&why);
    if (s)
        return no_such(self, name, err);
    s = pp_lists_read(name, text, size, &self->lists, err);
    weft_free(text);
    s = s || !self->lists.table ? s : check_table(self, err);
    if (s)
        pp_lists_release(&self->lists);
    return s;
}

/* What is worth knowing of a file. */
static void tell(const pp *self)
{
    const pp_lists *l = &self->lists;
    if (l->left_out)
        weft_inform(self->host,
                    "%s: %d cells of what ranks send and gather are left out: it follows from the "
                    "plan",
                    l->name, l->left_out);
    if (l->overlapped)
        weft_inform(self->host, "%s: %d pairs of a forward and a backward run one after the other",
                    l->name, l->overlapped);
    if (l->out_of_order >= 0)
        weft_inform(self->host,
                    "%s: gradients of stage %d are not summed micro-batch after micro-batch: they "
                    "are those of one rank within rounding, not to the bit",
                    l->name, l->out_of_order);
}

/* What of a micro-batch a stage has: a whole backward is both halves. */
enum { FORWARD = 1, BACKWARD = 2, WEIGHTS = 4 };

static int halves_of(const pp_item *item)
{
    return item->letter == 'F'   ? FORWARD
           : item->letter == 'I' ? BACKWARD
           : item->letter == 'W' ? WEIGHTS
                                 : BACKWARD | WEIGHTS;
}

/* A task is one of the step's, of its own rank, there once, and behind what it reads of its stage:
 * told by its line. The rest is for the core to prove. */
static weft_status enter(const pp_lists *l, const pp_item *item, const weft_pipeline_view *view,
                         int *seen, weft_error *err)
{
    const weft_where at = {l->name, item->line};
    const int halves = halves_of(item);
    const char *why = NULL;
    if (item->stage >= view->stages || item->micro >= view->micro_batches)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "%d%c%lld of rank %d is no task of a step, which has stages 0 to %d "
                         "and micro-batches 0 to %lld (global_batch over micro_batch)",
                         item->stage, item->letter, (long long)item->micro, item->rank,
                         view->stages - 1, (long long)view->micro_batches - 1);
    if (view->rank_of[item->stage] != item->rank)
        why = "is of another rank's stage";
    else if (*seen & halves)
        why = "is there twice";
    else if (halves != FORWARD && !(*seen & FORWARD))
        why = "has no forward before it";
    else if (halves == WEIGHTS && !(*seen & BACKWARD))
        why = "has no I before it";
    if (why)
        return weft_fail(err, WEFT_ERR_INPUT, at, "%d%c%lld of rank %d %s", item->stage,
                         item->letter, (long long)item->micro, item->rank, why);
    *seen |= halves;
    return WEFT_OK;
}

/* Each stage has every micro-batch of a step, forward and backward, both halves where it has them
 * apart: told of the file, where what waits for what does not matter. */
static weft_status check_tasks(const pp_lists *l, const weft_pipeline_view *view, weft_error *err)
{
    static const char letters[] = "FBW", halves[] = "FIW";
    const int64_t micro = view->micro_batches, none = view->stages * micro;
    int *seen = weft_alloc_zero((size_t)none + 1, sizeof *seen);
    weft_status s = seen ? WEFT_OK : weft_fail_memory(err);
    for (size_t i = 0; i < l->n && !s; i++) {
        const pp_item *item = &l->items[i];
        const bool there = item->stage < view->stages && item->micro < micro;
        if (item->letter)
            s = enter(l, item, view, &seen[there ? item->stage * micro + item->micro : none], err);
    }
    for (int64_t i = 0; i < view->stages * micro && !s; i++) {
        const int stage = (int)(i / micro);
        const bool split = stage < l->stages && l->split[stage];
        for (int way = 0; way < 2 + split && !s; way++)
            if (!(seen[i] >> way & 1))
                s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){l->name, 0},
                              "rank %d lacks %d%c%lld; a step has stages 0 to %d and "
                              "micro-batches 0 to %lld (global_batch over micro_batch)",
                              view->rank_of[stage], stage, (split ? halves : letters)[way],
                              (long long)(i % micro), view->stages - 1, (long long)micro - 1);
    }
    weft_free(seen);
    return s;
}

static weft_status from_file(const pp *self, const weft_pipeline_view *view, weft_tasks *tasks,
                             weft_error *err)
{
    const pp_lists *l = &self->lists;
    if (l->table && l->micro_batches != view->micro_batches)
        return weft_fail(err, WEFT_ERR_INPUT, where_of(self, "schedule"),
                         "[pp] schedule = %s: it has %lld micro-batches, and a step has %lld: "
                         "global_batch over micro_batch",
                         l->name, (long long)l->micro_batches, (long long)view->micro_batches);
    if (l->ranks > view->ranks)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){l->name, 0},
                         "it has rank %d, which the pipeline of %d does not have", l->ranks - 1,
                         view->ranks);
    weft_status s = check_tasks(l, view, err);
    if (s)
        return s;
    tell(self);
    return pp_lists_fill(l, tasks, err);
}

weft_status pp_generate(void *self, const weft_pipeline_view *view, weft_tasks *tasks,
                        weft_error *err)
{
    pp *p = self;
    weft_status s = pp_load(p, err);
    if (s)
        return s;
    if (p->lists.name)
        return from_file(p, view, tasks, err);
    return p->schedule ? pp_fill(p->schedule, view, tasks, err) : pp_auto_fill(view, tasks, err);
}
