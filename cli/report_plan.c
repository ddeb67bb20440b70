/* SPDX-License-Identifier: Apache-2.0 */
/* What a report shows of the plan: memory over a step, collectives, choices, the pipeline. */
#include "execute/run.h"
#include "forecast/forecast.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 480, BUFFERS = 4000 };

/* jansson's functions take NULL for a value and fail: one look at the end is enough. */
static json_t *text_of(const weft_text *text)
{
    return text->out_of_memory ? NULL : json_string(weft_text_get(text));
}

/* ---- memory ---- */

static bool is_shown(const weft_buffer *b)
{
    return b->bytes > 0 && (b->base == WEFT_BASE_ARENA || b->base == WEFT_BASE_STATE);
}

static int column_of(const weft_lowered *l, int position)
{
    const int64_t n = l->n_positions > 0 ? l->n_positions : 1;
    return (int)((int64_t)position * COLUMNS / n);
}

/* Each class' bytes, by column: the most that any of its positions has of all classes together. */
static weft_status sum(const weft_plan *plan, const weft_lowered *l, double *curves,
                       weft_error *err)
{
    const size_t n = (size_t)l->n_positions + 2;
    double *change = weft_alloc_zero(n * WEFT_CLASSES, sizeof *change);
    double now[WEFT_CLASSES] = {0}, most[COLUMNS] = {0};
    if (!change)
        return weft_fail_memory(err);
    for (int i = 0; i < l->n_buffers; i++) {
        const weft_buffer *b = &l->buffers[i];
        if (!is_shown(b) || b->base == WEFT_BASE_STATE)
            continue;
        change[(size_t)b->kind * n + (size_t)(b->first > 0 ? b->first : 0)] += (double)b->bytes;
        change[(size_t)b->kind * n + (size_t)b->last + 1] -= (double)b->bytes;
    }
    now[WEFT_CLASS_STATE] = (double)plan->states.bytes;
    now[WEFT_CLASS_INPUT] = (double)(weft_lowered_inputs(l) + l->step_input_bytes);
    for (int p = 0; p < l->n_positions; p++) {
        double all = 0;
        for (int k = 0; k < WEFT_CLASSES; k++)
            all += now[k] += change[(size_t)k * n + (size_t)p];
        const int c = column_of(l, p);
        for (int k = 0; k < WEFT_CLASSES && all >= most[c]; k++)
            curves[k * COLUMNS + c] = now[k];
        most[c] = all > most[c] ? all : most[c];
    }
    weft_free(change);
    return WEFT_OK;
}

/* A column without positions is as the one before it. */
static json_t *curve_of(const double *curve, const weft_lowered *l)
{
    json_t *list = json_array();
    const int n = l->n_positions < COLUMNS ? l->n_positions : COLUMNS;
    for (int i = 0; i < n; i++) {
        const int c = n < COLUMNS ? column_of(l, i) : i;
        json_array_append_new(list, json_real(curve[c]));
    }
    return list;
}

static int larger(const void *a, const void *b)
{
    const weft_buffer *x = *(const weft_buffer *const *)a, *y = *(const weft_buffer *const *)b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* The largest of them: what is not among these nobody would look for. */
static json_t *buffers_of(const weft_lowered *l)
{
    const weft_buffer **list = weft_alloc((size_t)l->n_buffers * sizeof *list);
    json_t *out = list ? json_array() : NULL;
    int n = 0;
    for (int i = 0; list && i < l->n_buffers; i++)
        if (is_shown(&l->buffers[i]))
            list[n++] = &l->buffers[i];
    if (list)
        qsort((void *)list, (size_t)n, sizeof *list, larger);
    for (int i = 0; out && i < n && i < BUFFERS; i++) {
        const weft_buffer *b = list[i];
        const bool always = b->base == WEFT_BASE_STATE;
        json_array_append_new(out,
                              json_pack("[i,i,I,i,s]", always ? 0 : b->first,
                                        always ? l->n_positions : b->last, (json_int_t)b->bytes,
                                        (int)b->kind, b->value ? b->value->name : "workspace"));
    }
    weft_free((void *)list);
    return out;
}

static json_t *programs_of(const weft_lowered *l)
{
    json_t *out = json_array();
    for (int i = 0; i < l->n_programs; i++) {
        const weft_program *p = &l->programs[i];
        if (p->n > 0)
            json_array_append_new(out,
                                  json_pack("[s,i,i]", weft_part_name(p->part), p->from, p->to));
    }
    return out;
}

/* What lies far does so for the whole step: [where, bytes]; null: nothing does. */
static json_t *far_of(const weft_plan *plan)
{
    weft_text where = {0};
    if (!plan->states.far_bytes)
        return json_null();
    if (plan->far && plan->far->describe)
        plan->far->describe(plan->far_self, &where);
    json_t *far = json_pack("[o,I]", text_of(&where), (json_int_t)plan->states.far_bytes);
    weft_text_release(&where);
    return far;
}

static weft_status add_memory(json_t *page, const weft_plan *plan, weft_error *err)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    double *curves = weft_alloc_zero((size_t)WEFT_CLASSES * COLUMNS, sizeof *curves);
    weft_status s = curves ? sum(plan, l, curves, err) : weft_fail_memory(err);
    json_t *classes = json_array(), *list = json_array();
    for (int k = 0; !s && k < WEFT_CLASSES; k++) {
        json_array_append_new(classes, json_string(weft_class_name((weft_buffer_class)k)));
        json_array_append_new(list, curve_of(curves + (size_t)k * COLUMNS, l));
    }
    weft_free(curves);
    if (s) {
        json_decref(classes);
        json_decref(list);
        return s;
    }
    json_t *memory = json_pack(
        "{s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "rank", plan->rank, "positions", l->n_positions,
        "columns", l->n_positions < COLUMNS ? l->n_positions : COLUMNS, "classes", classes,
        "curves", list, "programs", programs_of(l), "buffers", buffers_of(l), "far", far_of(plan));
    return json_object_set_new(page, "memory", memory) ? weft_fail_memory(err) : WEFT_OK;
}

/* ---- collectives: [what, over, in, plugin, times, bytes] ---- */

static const weft_step *sends_in(const weft_node *n)
{
    for (int i = 0; i < n->n_steps; i++)
        if (weft_step_communicates(&n->steps[i]))
            return &n->steps[i];
    return NULL;
}

static json_t *find_row(json_t *rows, const char *what, const char *over, const char *in,
                        const char *by)
{
    const char *const words[] = {what, over, in, by};
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        size_t k = 0;
        while (k < 4 && strcmp(json_string_value(json_array_get(row, k)), words[k]) == 0)
            k++;
        if (k == 4)
            return row;
    }
    row = json_pack("[s,s,s,s,I,I]", what, over, in, by, (json_int_t)0, (json_int_t)0);
    json_array_append_new(rows, row);
    return row;
}

/* Of one instruction; forward and backward run once for every micro-batch. */
static void count(json_t *rows, const weft_plan *plan, const weft_program *p,
                  const weft_instruction *in)
{
    const weft_mesh *mesh = &plan->lowered[WEFT_MODE_TRAIN]->graph->config.mesh;
    const weft_step *step = sends_in(in->node);
    const bool sends = in->kind == WEFT_COLLECTIVE || in->kind == WEFT_POST_SEND;
    if (!sends || !step)
        return;
    weft_text over = {0};
    for (int a = 0; a < step->n_axes; a++)
        weft_text_print(&over, "%s%s", a ? "," : "", mesh->axis[step->axes[a]].name);
    char part[64];
    snprintf(part, sizeof part, in->every > 1 ? "%s, every %lld" : "%s", weft_part_name(p->part),
             (long long)in->every);
    const bool micro = weft_part_is_micro(p->part);
    const int64_t times = micro ? plan->micro_batches : 1;
    json_t *row = find_row(rows, weft_move_name(step->move), weft_text_get(&over), part,
                           in->node->by ? in->node->by : "");
    const json_int_t n = json_integer_value(json_array_get(row, 4)),
                     bytes = json_integer_value(json_array_get(row, 5));
    json_array_set_new(row, 4, json_integer(n + times));
    json_array_set_new(
        row, 5,
        json_integer(bytes + times * weft_instruction_bytes(plan->graphs[WEFT_MODE_TRAIN], in)));
    weft_text_release(&over);
}

static weft_status add_collectives(json_t *page, const weft_plan *plan, weft_error *err)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    json_t *rows = json_array();
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++)
            count(rows, plan, &l->programs[a], &l->programs[a].list[i]);
    return json_object_set_new(page, "collectives", rows) ? weft_fail_memory(err) : WEFT_OK;
}

/* ---- the pipeline, at the device's rates or assumed ones ---- */

static weft_status draw(json_t *page, const weft_timeline *timeline, const weft_roofline *r,
                        const weft_costs *costs, weft_error *err)
{
    weft_text svg = {0}, words = {0};
    weft_timeline_print_svg(timeline, &svg);
    weft_timeline_print_summary(timeline, &words);
    if (r->rates.name)
        weft_text_print(&words, "(predicted by a roofline of %s)", r->rates.name);
    else
        weft_text_print(&words, "(if a rank computes %g flop/s and sends %g byte/s)",
                        r->rates.other, costs->bytes_per_s);
    const char *begin = strstr(weft_text_get(&svg), "<svg"); /* behind XML's own first line */
    bool failed = svg.out_of_memory || words.out_of_memory || !begin ||
                  json_object_set_new(page, "pipeline", json_string(begin)) ||
                  json_object_set_new(page, "pipeline_words", text_of(&words));
    weft_text_release(&svg);
    weft_text_release(&words);
    return failed ? weft_fail_memory(err) : WEFT_OK;
}

static weft_status add_pipeline(json_t *page, const weft_plan *plan, weft_error *err)
{
    weft_roofline r;
    weft_forecast f;
    if (plan->tasks[WEFT_MODE_TRAIN]->ranks < 2)
        return WEFT_OK;
    weft_plan_roofline(plan, &r);
    weft_status s = weft_plan_forecast(plan, &r, &f, err);
    if (s)
        return s;
    s = draw(page, f.timeline, &r, &f.costs, err);
    weft_forecast_release(plan, &f);
    return s;
}

/* ---- what reviews have asked for, and what plugins note ---- */

static void add_request(json_t *list, const weft_request *r)
{
    if (!r)
        return;
    add_request(list, r->next);
    json_array_append_new(list, json_pack("[s,s,s]", r->by, r->what, r->value));
}

static weft_status add_choices(json_t *page, const weft_plan *plan, weft_error *err)
{
    const weft_graph *g = plan->graphs[WEFT_MODE_TRAIN];
    json_t *choices = json_array(), *notes = json_array();
    add_request(choices, plan->plugins->asked);
    for (int i = 0; i < g->n_notes; i++)
        json_array_append_new(notes, json_string(g->notes[i]));
    const bool failed =
        json_object_set_new(page, "choices", choices) | json_object_set_new(page, "notes", notes);
    return failed ? weft_fail_memory(err) : WEFT_OK;
}

weft_status weft_page_add_plan(json_t *page, const weft_plan *plan, weft_error *err)
{
    weft_status s = add_memory(page, plan, err);
    s = s ? s : add_collectives(page, plan, err);
    s = s ? s : add_choices(page, plan, err);
    return s ? s : add_pipeline(page, plan, err);
}
