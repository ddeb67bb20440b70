/* SPDX-License-Identifier: Apache-2.0 */
/* The plan as text. */
#include "console/columns.h"
#include "forecast/forecast.h"
#include "print/graph.h"
#include "print/wraps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *weft_class_name(weft_buffer_class c)
{
    static const char *const names[] = {
        "state",         "key-value cache",   "inputs",           "gradients",
        "weight copies", "saved activations", "held for weights", "being sent",
        "temporaries",   "workspace"};
    return names[c];
}

void weft_print_flops(weft_text *text, double flops)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    int u = 0;
    for (; flops >= 1000 && u < 6; u++)
        flops /= 1000;
    weft_text_print(text, "%.3g %sFLOP", flops, units[u]);
}

/* Elements of all parameters, or of those that are frozen. */
static int64_t count_parameters(const weft_graph *g, bool frozen)
{
    int64_t total = 0;
    for (int i = 0; i < g->n_parameters; i++) {
        int64_t n = frozen && !g->parameters[i]->frozen ? 0 : 1;
        for (int d = 0; d < g->parameters[i]->n_dims; d++)
            n *= g->parameters[i]->dims[d].size;
        total += n;
    }
    return total;
}

int64_t weft_plan_parameters(const weft_plan *plan)
{
    return count_parameters(weft_plan_model(plan), false);
}

int64_t weft_plan_idle(const weft_plan *plan)
{
    const weft_graph *g = plan->graphs[WEFT_MODE_TRAIN];
    const weft_value *ids = NULL; /* or whatever else has samples */
    for (int i = 0; i < g->n_inputs && !ids; i++)
        if (weft_value_dim(g->inputs_list[i], "batch") == 0)
            ids = g->inputs_list[i];
    int axes[WEFT_MAX_AXES];
    int64_t shares = 1;
    for (int i = ids ? weft_layout_list(ids->layout, 0, axes) - 1 : -1; i >= 0; i--)
        shares *= g->config.mesh.axis[axes[i]].size;
    return shares > plan->micro_batch ? shares - plan->micro_batch : 0;
}

static bool is_parameter(const weft_state_entry *e)
{
    return weft_node_is(e->value->node, WEFT_OP_PARAMETER);
}

static int64_t parameter_bytes(const weft_plan *plan)
{
    int64_t total = 0;
    for (int i = 0; i < plan->states.n; i++)
        total += is_parameter(&plan->states.list[i]) && !plan->states.list[i].far
                     ? plan->states.list[i].bytes
                     : 0;
    return total;
}

static int64_t kept_bytes(const weft_plan *plan)
{
    int64_t total = 0;
    for (const weft_kept_bytes *k = plan->plugins->kept; k; k = k->next)
        total += k->bytes;
    return total;
}

static int64_t state_bytes(const weft_plan *plan, weft_state_kind kind)
{
    int64_t total = 0;
    for (int i = 0; i < plan->states.n; i++) {
        const weft_state_entry *e = &plan->states.list[i];
        total += !is_parameter(e) && !e->far && e->value->kind == kind ? e->bytes : 0;
    }
    return total;
}

void weft_print_named(weft_text *text, const char *name, int width, double bytes)
{
    weft_text_print(text, "  %-*s  ", width - 1, name);
    weft_print_bytes(text, bytes);
    weft_text_add(text, "\n");
}

static void print_line(weft_text *text, const char *name, double bytes)
{
    weft_print_named(text, name, 21, bytes);
}

static int compare_bytes(const void *a, const void *b)
{
    const weft_buffer *x = *(const weft_buffer *const *)a, *y = *(const weft_buffer *const *)b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static const weft_instruction *instruction_at(const weft_lowered *l, int position, weft_part *part)
{
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++)
            if (l->programs[a].list[i].position == position) {
                *part = l->programs[a].part;
                return &l->programs[a].list[i];
            }
    return NULL;
}

/* Where the arena is fullest, by class, and the largest pieces alive there. */
static void print_peak(const weft_lowered *l, weft_text *text)
{
    int64_t by_class[WEFT_CLASSES] = {0};
    const weft_buffer **alive = weft_alloc(((size_t)l->n_buffers + 1) * sizeof *alive);
    int n = 0;
    for (int i = 0; alive && i < l->n_buffers; i++) {
        const weft_buffer *b = &l->buffers[i];
        if (b->base != WEFT_BASE_ARENA || b->first > l->peak_position || b->last < l->peak_position)
            continue;
        by_class[b->kind] += b->bytes;
        alive[n++] = b;
    }
    for (int c = WEFT_CLASS_GRADIENT; c < WEFT_CLASSES; c++)
        if ((c != WEFT_CLASS_SENT && c != WEFT_CLASS_HELD) || by_class[c]) /* of pipelines alone */
            print_line(text, weft_class_name((weft_buffer_class)c), (double)by_class[c]);
    print_line(text, "fragmentation", (double)(l->arena_bytes - l->live_peak));
    weft_part part = WEFT_PART_BEGIN;
    const weft_instruction *in = instruction_at(l, l->peak_position, &part);
    if (in)
        weft_text_print(text,
                        "peak of the arena: in %s, at %s = %s%s; the largest of %d alive there:\n",
                        weft_part_name(part), in->node->outs[0]->name, in->node->op->name,
                        weft_block_describe(", ", in->node->block).text, n);
    text->out_of_memory = text->out_of_memory || !alive;
    if (n > 1)
        qsort(alive, (size_t)n, sizeof *alive, compare_bytes);
    for (int i = 0; i < n && i < 8; i++)
        weft_print_named(text, alive[i]->value ? alive[i]->value->name : "(workspace)", 44,
                         (double)alive[i]->bytes);
    weft_free(alive);
}

static void add_program(const weft_program *p, weft_text *text)
{
    weft_text_print(text, "%s.%d", weft_part_name(p->part), p->stage);
}

/* What lies there for several micro-batches at once. */
static void print_slots(const weft_lowered *l, weft_text *text)
{
    for (int i = 0; i < l->n_slots; i++) {
        const weft_slots *s = &l->slots[i];
        weft_text_print(text, "%s%d slots of ", i ? "" : "of it for several micro-batches\n  ",
                        s->n);
        weft_print_bytes(text, (double)s->bytes);
        weft_text_add(text, " from ");
        add_program(&l->programs[s->maker], text);
        weft_text_add(text, " to ");
        add_program(&l->programs[s->reader], text);
        weft_text_add(text, i + 1 < l->n_slots ? "\n  " : "\n");
    }
}

static void print_memory(const weft_plan *plan, weft_text *text)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    weft_text_add(text, "memory per rank\n");
    print_line(text, "parameters", (double)parameter_bytes(plan));
    print_line(text, "optimizer state", (double)state_bytes(plan, WEFT_STATE_OPTIMIZER));
    static const char *const others[] = {[WEFT_STATE_AVERAGE] = "averages",
                                         [WEFT_STATE_HISTORY] = "histories",
                                         [WEFT_STATE_BUFFER] = "buffers"};
    for (int k = WEFT_STATE_AVERAGE; k <= WEFT_STATE_BUFFER; k++)
        if (state_bytes(plan, (weft_state_kind)k))
            print_line(text, others[k], (double)state_bytes(plan, (weft_state_kind)k));
    if (kept_bytes(plan))
        print_line(text, "kept by plugins", (double)kept_bytes(plan));
    const weft_held held = weft_plan_held(plan);
    if (held.caches)
        print_line(text, weft_class_name(WEFT_CLASS_CACHE), (double)held.caches);
    print_line(text, "inputs", (double)held.inputs);
    print_line(text, "arena", (double)held.arena);
    if (held.store)
        print_line(text, "checkpoint buffer", (double)held.store);
    if (held.moving)
        print_line(text, "to move what lies far", (double)held.moving);
    print_line(text, "total planned", (double)weft_plan_bytes(plan));
    weft_plan_print_libraries(plan, text);
    weft_plan_print_far(plan, text);
    if (held.host_inputs)
        print_line(text, "on the host, inputs", (double)held.host_inputs);
    if (plan->sending)
        print_line(text, "on the host, to send", (double)plan->sending);
    print_slots(l, text);
    weft_text_add(text, "the arena at its peak, by class\n");
    print_peak(l, text);
}

/* ---- the table that placement went by ---- */

/* What lines of this kind call v; NULL: they do not speak of it. */
static const char *table_name(const weft_value *v, weft_rule_of of)
{
    switch (of) {
    case WEFT_RULE_PARAM:
        return weft_node_is(v->node, WEFT_OP_PARAMETER) ? v->name : NULL;
    case WEFT_RULE_INPUT:
        return weft_node_is(v->node, WEFT_OP_INPUT) ? v->name : NULL;
    case WEFT_RULE_VALUE:
        return v->name;
    default:
        return v->role;
    }
}

/* What it says the last word on; else why on nothing. */
static void print_effect(const weft_graph *g, const weft_table_line *line, weft_text *text)
{
    const char *name, *first = NULL;
    bool found = false;
    int n = 0;
    for (const weft_node *node = g->first; node; node = node->next)
        for (int i = 0; i < node->n_outs; i++) {
            const weft_value *v = node->outs[i];
            if (!(name = table_name(v, line->of)) || !weft_table_matches(line, line->of, name))
                continue;
            found = found || !line->dim || weft_value_dim(v, line->dim) >= 0;
            if (weft_table_line_of(g, line->of, name, v, line->axis) != line)
                continue;
            first = first ? first : v->name;
            n++;
        }
    if (line->axis < 0)
        weft_text_add(text, "no effect: the axis has one rank\n");
    else if (n == 0)
        weft_text_add(text,
                      found ? "no effect: other rules count\n" : "no effect: nothing has it\n");
    else
        weft_text_print(text, "%d: %s%s\n", n, first, n > 1 ? ", ..." : "");
}

static void print_table(const weft_graph *g, weft_text *text)
{
    static const char *const words[] = {"param", "input", "role", "value"};
    if (g->n_table)
        weft_text_add(text, "placement rules                           by                      cut "
                            "(or whole, '-')\n");
    for (int i = 0; i < g->n_table; i++) {
        const weft_table_line *line = g->table[i];
        char rule[256], by[128];
        snprintf(by, sizeof by, "%s", line->by);
        if (line->text)
            snprintf(rule, sizeof rule, "%s", line->text);
        else
            snprintf(rule, sizeof rule, "%s%s%s %s %s", words[line->of], line->pattern ? ":" : "",
                     line->pattern ? line->pattern : "", line->dim ? line->dim : "-",
                     g->config.mesh.axis[line->axis].name);
        if (line->where.file)
            snprintf(by, sizeof by, line->where.line ? "%s:%d" : "%s", line->where.file,
                     line->where.line);
        weft_text_print(text, "  %-38s  %-22s  ", rule, by);
        print_effect(g, line, text);
    }
}

/* Collectives of one kind, cause and time. */
typedef struct traffic {
    const weft_node *node;
    const weft_step *step;
    int64_t count, bytes; /* of a step: micro-batches counted */
    int64_t sends;        /* instructions that carry them: what is grouped counts once */
} traffic;

static bool same_traffic(const traffic *t, const weft_node *n, const weft_step *s)
{
    return t->step->move == s->move && t->node->outs[0]->dtype == n->outs[0]->dtype &&
           t->step->n_axes == s->n_axes &&
           memcmp(t->step->axes, s->axes, sizeof(int) * (size_t)s->n_axes) == 0 &&
           t->node->phase == n->phase && t->node->scope == n->scope && t->node->every == n->every &&
           strcmp(t->node->by, n->by) == 0;
}

/* Does this rank send what the node moves? Of stages of a pipeline, each sends its own. */
static bool sends_here(const weft_graph *g, const weft_node *n, const int *coord)
{
    if (weft_graph_stage_axis(g) < 0 || n->n_ins == 0)
        return true;
    return weft_layout_held(n->ins[0]->layout, coord);
}

static int collect(const weft_lowered *l, traffic *rows, int capacity)
{
    const weft_graph *g = l->graph;
    int n_rows = 0;
    for (const weft_node *n = g->first; n; n = n->next) {
        if (!sends_here(g, n, l->coord))
            continue;
        for (int i = 0; i < n->n_steps; i++) {
            const weft_step *s = &n->steps[i];
            if (s->move == WEFT_SLICE || s->move == WEFT_ZERO || s->move == WEFT_KEEP)
                continue;
            int r = 0;
            while (r < n_rows && !same_traffic(&rows[r], n, s))
                r++;
            if (r == n_rows && n_rows == capacity)
                continue;
            if (r == n_rows)
                rows[n_rows++] = (traffic){n, s, 0, 0, 0};
            rows[r].count += n->scope == WEFT_MICRO_BATCH ? g->config.sizes.micro_batches : 1;
        }
    }
    return n_rows;
}

/* How often an instruction counts in a row: one that carries several nodes counts once in every row
 * that has some of them. */
static int64_t sends_of(const weft_instruction *in, const traffic *row)
{
    int64_t n = 0;
    for (int p = 0; p < (in->parts ? in->n_outs : 1); p++) {
        const weft_node *node = in->parts ? in->parts[p] : in->node;
        for (int k = 0; k < node->n_steps; k++)
            n += same_traffic(row, node, &node->steps[k]);
    }
    return in->parts && n ? 1 : n;
}

/* Are they sent to all ranks, which reduce them themselves? terms: by weft_reduce. */
static bool sends_terms(const weft_step *s, weft_layout before, const bool *terms)
{
    const bool max = weft_layout_open(before, s->axes[0]) == WEFT_OPEN_MAX;
    return s->move == WEFT_ALL_REDUCE && terms[max ? WEFT_REDUCE_MAX : WEFT_REDUCE_SUM];
}

static int64_t terms_bytes(const weft_graph *g, const weft_step *s, weft_layout before,
                           const weft_value *v)
{
    return (weft_step_members(&g->config.mesh, s) - 1) *
           weft_layout_elements(&g->config.mesh, before, v->n_dims, v->dims) *
           (int64_t)weft_dtype_size(v->dtype);
}

/* What parts that run as one send together, of one that has several steps each step by itself. */
static int64_t bytes_of(const weft_lowered *l, const weft_instruction *in, const traffic *row,
                        const bool *terms)
{
    const weft_graph *g = l->graph;
    int64_t bytes = 0;
    for (int p = 0; p < (in->parts ? in->n_outs : 1); p++) {
        const weft_node *n = in->parts ? in->parts[p] : in->node;
        const weft_value *v = n->outs[0];
        weft_layout before = n->n_ins ? n->ins[0]->layout : (weft_layout){0};
        for (int k = 0; k < n->n_steps && sends_here(g, n, l->coord);
             before = n->steps[k++].after) {
            if (!same_traffic(row, n, &n->steps[k]))
                continue;
            bytes += sends_terms(&n->steps[k], before, terms)
                         ? terms_bytes(g, &n->steps[k], before, v)
                     : in->parts ? weft_part_sent_bytes(g, in, p)
                                 : weft_step_bytes(&g->config.mesh, &n->steps[k], before, v->n_dims,
                                                   v->dims, v->dtype);
        }
    }
    return bytes;
}

static void count_sends(const weft_plan *plan, traffic *rows, int n_rows)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    const bool terms[] = {[WEFT_REDUCE_SUM] = weft_plan_sends_terms(plan, WEFT_REDUCE_SUM),
                          [WEFT_REDUCE_MAX] = weft_plan_sends_terms(plan, WEFT_REDUCE_MAX)};
    int64_t repeats = l->graph->config.sizes.micro_batches;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            int64_t times = in->node && in->node->scope == WEFT_MICRO_BATCH ? repeats : 1;
            bool sends = in->kind == WEFT_COLLECTIVE || in->kind == WEFT_POST_SEND;
            for (int r = 0; r < n_rows && sends; r++) {
                rows[r].sends += times * sends_of(in, &rows[r]);
                rows[r].bytes += times * bytes_of(l, in, &rows[r], terms);
            }
        }
}

static void add_axes(const weft_mesh *mesh, const weft_step *s, weft_columns *c)
{
    for (int k = 0; k < s->n_axes; k++)
        weft_text_print(&c->cells, "%s%s", k ? "," : "", mesh->axis[s->axes[k]].name);
    weft_columns_next(c);
}

static void print_mesh(const weft_mesh *mesh, weft_text *text)
{
    weft_text_add(text, "mesh:");
    for (int a = 0; a < mesh->n_axes; a++)
        weft_text_print(text, "%s %s %d", a ? "," : "", mesh->axis[a].name, mesh->axis[a].size);
    weft_text_add(text, " (innermost first)\n");
}

static void add_traffic(weft_columns *c, const weft_mesh *mesh, const traffic *row)
{
    weft_text_print(&c->cells, "  %s", weft_move_name(row->step->move));
    weft_columns_next(c);
    add_axes(mesh, row->step, c);
    weft_columns_add(c, weft_dtype_name(row->node->outs[0]->dtype));
    weft_columns_add(c, weft_phase_name(row->node->phase));
    weft_text_add(&c->cells, weft_scope_name(row->node->scope));
    if (row->node->every > 1)
        weft_text_print(&c->cells, ", every %lld", (long long)row->node->every);
    weft_columns_next(c);
    weft_columns_add(c, row->node->by);
    weft_text_print(&c->cells, "%lld", (long long)row->count);
    weft_columns_next(c);
    weft_text_print(&c->cells, "%lld", (long long)row->sends);
    weft_columns_next(c);
    weft_print_bytes(&c->cells, (double)row->bytes);
    weft_columns_next(c);
}

/* Where not all steps send the same. */
static void print_average(const weft_lowered *l, const traffic *rows, int n, weft_text *text)
{
    double all = 0, least = 0, average = 0;
    for (int i = 0; i < n; i++) {
        const double bytes = (double)rows[i].bytes;
        all += bytes;
        average += bytes / (double)rows[i].node->every;
        least += rows[i].node->every == 1 ? bytes : 0;
    }
    if (!l->n_periods)
        return;
    weft_text_add(text, "bytes sent by a rank in a step: on average ");
    weft_print_bytes(text, average);
    weft_text_add(text, ", at least ");
    weft_print_bytes(text, least);
    weft_text_add(text, ", at most ");
    weft_print_bytes(text, all);
    weft_text_add(text, "\n");
}

/* How often the transport is called in a program for collectives, and to send or receive; those of
 * an instruction that stand side by side are one call where it takes them so. */
static int64_t calls_of(const weft_program *p, bool side_by_side)
{
    int64_t n = 0;
    for (int i = 0; i < p->n; i++) {
        const weft_instruction *in = &p->list[i];
        n += in->kind == WEFT_POST_SEND || in->kind == WEFT_POST_RECV;
        for (int k = 0; in->kind == WEFT_COLLECTIVE && k < in->exchange->n_parts; k++) {
            const weft_exchange_part *part = &in->exchange->parts[k];
            const bool joins = side_by_side && in->parts && k && part[-1].sends;
            n += part->sends && !joins;
        }
    }
    return n;
}

static void print_calls(const weft_plan *plan, weft_text *text)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    int64_t in_micro = 0, alone = 0, others = 0;
    for (int a = 0; a < l->n_programs; a++) {
        const weft_program *p = &l->programs[a];
        const bool repeats = weft_part_is_micro(p->part);
        in_micro += repeats ? calls_of(p, true) : 0;
        alone += repeats ? calls_of(p, false) : 0;
        others += repeats ? 0 : calls_of(p, true);
    }
    weft_text_print(text,
                    "calls of the transport: %lld a micro-batch (%lld where each is made alone), "
                    "%lld more a step\n",
                    (long long)in_micro, (long long)alone, (long long)others);
}

static void print_collectives(const weft_plan *plan, weft_text *text)
{
    enum { ROWS = 128 };
    traffic rows[ROWS];
    const weft_graph *g = plan->graphs[WEFT_MODE_TRAIN];
    if (g->config.mesh.n_axes == 0) {
        weft_text_add(text, "collectives: none (one rank)\n");
        return;
    }
    print_mesh(&g->config.mesh, text);
    int n = collect(plan->lowered[WEFT_MODE_TRAIN], rows, ROWS);
    count_sends(plan, rows, n);
    weft_columns c;
    weft_columns_init(&c, "llllllrrl");
    static const char *const heads[] = {
        "collectives per step", "axes", "dtype", "phase", "scope", "plugin", "count", "sent as",
        "bytes sent by a rank"};
    for (int i = 0; i < c.n; i++)
        weft_columns_add(&c, heads[i]);
    for (int i = 0; i < n; i++)
        add_traffic(&c, &g->config.mesh, &rows[i]);
    weft_columns_print(&c, text);
    weft_columns_release(&c);
    print_average(plan->lowered[WEFT_MODE_TRAIN], rows, n, text);
    print_calls(plan, text);
}

static void print_passes(const weft_plan *plan, bool times, weft_text *text)
{
    static const char *const heads[] = {"passes", "stage", "nodes", "", "ms"};
    weft_columns c;
    weft_columns_init(&c, times ? "llrrr" : "llrr");
    for (int i = 0; i < c.n; i++)
        weft_columns_add(&c, heads[i]);
    for (int i = 0; i < plan->n_records; i++) {
        const weft_pass_record *r = &plan->records[i];
        weft_text_print(&c.cells, "  %s%s%s", r->plugin, r->after ? ", after " : "",
                        r->after ? r->after : "");
        weft_columns_next(&c);
        weft_columns_add(&c, r->stage);
        weft_text_print(&c.cells, "%d", r->nodes_after);
        weft_columns_next(&c);
        weft_text_print(&c.cells, "%+d", r->nodes_after - r->nodes_before);
        weft_columns_next(&c);
        if (!times)
            continue;
        weft_text_print(&c.cells, "%8.2f", r->ms); /* the rest of the table must not depend on it */
        weft_columns_next(&c);
    }
    weft_columns_print(&c, text);
    weft_columns_release(&c);
}

static void print_notes(const weft_graph *g, weft_text *text)
{
    for (int i = 0; i < g->n_notes; i++)
        weft_text_print(text, "%s  %s\n", i ? "" : "notes\n", g->notes[i]);
}

static void print_wraps(const weft_plan *plan, weft_text *text)
{
    weft_text line = {0};
    for (int i = 0; weft_print_wraps(plan->plugins, &i, &line); weft_text_clear(&line))
        weft_text_print(text, "%s  %s\n", i == 1 ? "services with wraps, outermost first\n" : "",
                        weft_text_get(&line));
    text->out_of_memory = text->out_of_memory || line.out_of_memory;
    weft_text_release(&line);
}

/* Is there such a program for every one of several stages? */
static bool is_staged(const weft_lowered *l, const weft_program *p)
{
    return weft_part_is_micro(p->part) && weft_graph_stages(l->graph) > 1;
}

static void print_sizes(const weft_plan *plan, weft_mode mode, weft_text *text)
{
    static const char *const prefix[] = {"", "evaluate.", "generate.", "decode."};
    const weft_lowered *l = plan->lowered[mode];
    for (int i = 0; l && i < l->n_programs; i++) {
        const weft_program *p = &l->programs[i];
        if (p->n == 0)
            continue;
        weft_text_print(text, " %s%s", prefix[mode], weft_part_name(p->part));
        if (is_staged(l, p))
            weft_text_print(text, ".%d", p->stage);
        weft_text_print(text, " %d", p->n);
    }
}

static void print_seen(weft_lowered *l, weft_text *text)
{
    weft_causal seen;
    if (weft_forecast_see(l, &seen, NULL)) {
        text->out_of_memory = true;
        return;
    }
    if (!seen.cut)
        return;
    weft_text_add(text, "attention: ");
    weft_print_flops(text, seen.flops);
    weft_text_add(text, " of them, ");
    weft_print_flops(text, seen.seen);
    weft_text_add(text, " of these for what causality lets queries see\n");
}

/* What reviews have asked for, in the order of asking. */
static void print_asked(const weft_request *r, weft_text *text)
{
    if (!r)
        return;
    print_asked(r->next, text);
    weft_text_print(text, "  %s: %s = %s\n", r->by, r->what, r->value);
}

void weft_plan_print(const weft_plan *plan, bool times, weft_text *text)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    const weft_graph *g = plan->graphs[WEFT_MODE_TRAIN];
    int64_t parameters = weft_plan_parameters(plan), frozen = count_parameters(g, true);
    weft_text_print(text, "parameters: %lld in %d tensors, %d blocks", (long long)parameters,
                    g->n_parameters, weft_graph_blocks(g));
    if (frozen)
        weft_text_print(text, "; %lld are trained, the others frozen",
                        (long long)(parameters - frozen));
    weft_text_add(text, "\n");
    weft_text_print(text, "step: %lld %s", (long long)plan->units, plan->unit);
    if (strcmp(plan->unit, "tokens") == 0)
        weft_text_print(text, " = %lld samples of %lld", (long long)plan->global_batch,
                        (long long)plan->seq_len);
    weft_text_print(text, " in %lld micro-batch%s, on %d rank%s\n", (long long)plan->micro_batches,
                    plan->micro_batches == 1 ? "" : "es", plan->ranks, plan->ranks == 1 ? "" : "s");
    if (weft_plan_idle(plan) > 0)
        weft_text_print(text,
                        "warning: shares of a micro-batch that have no sample, and whose ranks "
                        "compute padding: %lld; a micro-batch of %lld is cut too often\n",
                        (long long)weft_plan_idle(plan), (long long)plan->micro_batch);
    weft_text_add(text, "compute per step and rank: ");
    weft_print_flops(text, l->flops);
    weft_text_add(text, " in all, ");
    weft_print_flops(text, l->model_flops);
    weft_text_add(text, " of them count for MFU\n");
    print_seen(plan->lowered[WEFT_MODE_TRAIN], text);
    weft_plan_print_forecast(plan, text);
    weft_plan_print_repeats(plan, text);
    weft_plan_print_gathers(plan, text);
    print_memory(plan, text);
    print_collectives(plan, text);
    print_table(plan->graphs[WEFT_MODE_TRAIN], text);
    weft_text_add(text, "programs:");
    for (int m = 0; m < WEFT_MODES; m++)
        print_sizes(plan, (weft_mode)m, text);
    weft_text_add(text, " instructions\n");
    print_wraps(plan, text);
    print_passes(plan, times, text);
    if (plan->plugins->asked)
        weft_text_print(text, "asked for by reviews, of %d plan%s\n", plan->round + 1,
                        plan->round ? "s" : "");
    print_asked(plan->plugins->asked, text);
    print_notes(plan->graphs[WEFT_MODE_TRAIN], text);
}

/* " waits forward.0:12": for instruction 12 of a forward before it. */
static void add_boundaries(const weft_lowered *l, const weft_program *p, int i, weft_text *text)
{
    for (int k = 0; k < l->n_boundaries; k++) {
        const weft_boundary *b = &l->boundaries[k];
        for (int w = 0; w < b->n_waits && &l->programs[b->after] == p; w++) {
            if (b->waits[w].after != i)
                continue;
            weft_text_add(text, " waits ");
            add_program(&l->programs[b->before], text);
            weft_text_print(text, ":%d", b->waits[w].before);
        }
    }
}

static void print_program(const weft_lowered *l, const weft_program *p, weft_text *text)
{
    static const char *const bases[WEFT_BASES] = {"none", "arena", "state", "input",
                                                  "step", "cache", "far",   "slot"},
                             *const kinds[] = {"",        "zero_fill", "copy",  "collective",
                                               "observe", "send",      "recv",  "await",
                                               "fetch",   "evict",     "arrive"};
    weft_columns c;
    weft_columns_init(&c, "rlll");
    for (int i = 0; i < p->n; i++) {
        const weft_instruction *in = &p->list[i];
        weft_text_print(&c.cells, "%5d", i);
        weft_columns_next(&c);
        weft_columns_add(&c, in->kind == WEFT_COMPUTE ? in->node->op->name : kinds[in->kind]);
        weft_columns_add(&c, in->kind != WEFT_COMPUTE ? ""
                             : in->kernel             ? in->kernel->name
                                                      : "plain");
        for (int k = 0; k < in->n_ins + in->n_outs; k++) {
            static const weft_buffer elsewhere;
            const weft_buffer *b = in->buffers[k] < 0 ? &elsewhere : &l->buffers[in->buffers[k]];
            weft_text_print(&c.cells, "%s%s+%lld",
                            k == in->n_ins ? (in->accumulate ? " += " : " -> ")
                            : k            ? " "
                                           : "",
                            bases[b->base], (long long)b->offset);
        }
        if (in->workspace >= 0)
            weft_text_print(&c.cells, " workspace arena+%lld",
                            (long long)l->buffers[in->workspace].offset);
        if (in->every > 1)
            weft_text_print(&c.cells, " every %lld", (long long)in->every);
        if (in->early)
            weft_text_print(&c.cells, " prologue");
        if (in->queue)
            weft_text_print(&c.cells, " queue %d", in->queue);
        for (int k = 0; k < in->n_waits; k++)
            weft_text_print(&c.cells, " waits %d", in->waits[k]);
        add_boundaries(l, p, i, &c.cells);
        weft_text_print(&c.cells, "   %s", in->node->n_outs ? in->node->outs[0]->name : "");
        weft_columns_next(&c);
    }
    weft_columns_print(&c, text);
    weft_columns_release(&c);
}

void weft_plan_print_program(const weft_plan *plan, weft_mode mode, weft_part part, int stage,
                             weft_text *text)
{
    const weft_lowered *l = plan->lowered[mode];
    for (int i = 0; l && i < l->n_programs; i++) {
        const weft_program *p = &l->programs[i];
        if (p->part != part || p->n == 0 || (stage >= 0 && p->stage != stage))
            continue;
        if (is_staged(l, p))
            weft_text_print(text, "stage %d\n", p->stage);
        print_program(l, p, text);
    }
}
