/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes are live, the programs that they make, and how long each value is needed. */
#include "compile/program/compiler.h"

#include <string.h>
#include <weft/marks.h>

weft_program *weft_compiler_program(const weft_compiler *c, int position)
{
    weft_program *p = c->l->programs;
    while (position >= p->to)
        p++;
    return p;
}

weft_part weft_compiler_part(const weft_compiler *c, int position)
{
    return weft_compiler_program(c, position)->part;
}

int weft_compiler_end(const weft_compiler *c, weft_part part)
{
    int end = 0;
    for (int i = 0; i < c->l->n_programs; i++)
        if (c->l->programs[i].part <= part)
            end = c->l->programs[i].to;
    return end;
}

static const weft_value *root(const weft_graph *g, int i)
{
    const weft_value *const own[] = {g->loss_report, g->loss_sum, g->tokens, g->logits};
    return i < 4 ? own[i] : g->reports[i - 4].value;
}

/* Operands stand before their readers, so one walk from the end does. */
void weft_graph_mark_live(weft_graph *g)
{
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    for (int i = 0; i < 4 + g->n_reports; i++)
        if (root(g, i))
            root(g, i)->node->mark = 1;
    for (weft_node *n = g->last; n; n = n->prev) {
        for (int i = 0; i < n->n_outs; i++)
            if (n->outs[i]->update_of || n->outs[i]->fetch || (n->op->flags & WEFT_OP_SOURCE))
                n->mark = 1;
        for (int i = 0; n->mark && i < n->n_ins; i++)
            n->ins[i]->node->mark = 1;
    }
}

static void mark_live(weft_compiler *c)
{
    for (int i = 0; i < 4 + c->g->n_reports; i++)
        if (root(c->g, i))
            c->root[root(c->g, i)->id] = true;
    weft_graph_mark_live(c->g);
}

/* ---- what of it this rank has a part in ---- */

/* Keeping what is everywhere is for those alone who do. */
static bool is_over(const weft_node *n, int axis)
{
    for (int i = 0; i < n->n_steps; i++)
        for (int k = 0; k < n->steps[i].n_axes; k++)
            if (n->steps[i].axes[k] == axis && n->steps[i].move != WEFT_KEEP)
                return true;
    return false;
}

static bool runs_here(const weft_compiler *c, const weft_node *n, int axis)
{
    if (weft_node_sends(n))
        return weft_compile_is_sender(c, n) || weft_layout_held(n->outs[0]->layout, c->l->coord);
    const bool over = is_over(n, axis);
    for (int i = 0; i < n->n_outs && !over; i++)
        if (!weft_layout_held(n->outs[i]->layout, c->l->coord))
            return false;
    return true;
}

static bool is_wanted(const weft_compiler *c, const weft_node *n, int axis)
{
    bool wanted = weft_node_sends(n) || is_over(n, axis);
    for (int i = 0; i < n->n_outs && !wanted; i++)
        wanted = c->root[n->outs[i]->id] || n->outs[i]->update_of || n->outs[i]->fetch ||
                 weft_node_is(n, WEFT_OP_PARAMETER | WEFT_OP_STATE);
    return wanted;
}

/* What is everywhere is made by those who read it; whatever goes over the axis of stages, by all.
 */
static weft_status mark_held(weft_compiler *c, int axis)
{
    bool *read = weft_pool_alloc(&c->pool, ((size_t)c->g->n_nodes + 1) * sizeof *read);
    if (!read)
        return weft_fail_memory(c->err);
    for (weft_node *n = c->g->last; n; n = n->prev) {
        n->mark = n->mark && runs_here(c, n, axis) && (read[n->id] || is_wanted(c, n, axis));
        for (int i = 0; n->mark && i < n->n_ins; i++)
            read[n->ins[i]->node->id] |= weft_layout_held(n->ins[i]->layout, c->l->coord);
    }
    return WEFT_OK;
}

/* What is everywhere runs in the first of this rank's stages that reads it; in the backward, in the
 * last. */
static void find_stage(weft_compiler *c, const weft_node *n, int axis)
{
    int *stage = &c->stage[n->id];
    if (!weft_part_is_micro(n->part) || axis < 0 || n->n_outs == 0 ||
        weft_layout_at(n->outs[0]->layout, axis) >= 0) {
        bool leaves =
            weft_part_is_micro(n->part) && weft_node_sends(n) && weft_compile_is_sender(c, n);
        /* what leaves does so from the stage next to the one that it goes to */
        *stage = n->stage + (leaves ? n->part == WEFT_PART_F ? -1 : 1 : 0);
        return;
    }
    bool backward = n->part != WEFT_PART_F;
    *stage = -1;
    for (int r = 0; r < n->n_outs; r++)
        for (int i = 0; i < n->outs[r]->n_uses; i++) {
            const weft_node *user = n->outs[r]->uses[i].node;
            int of = user->mark && weft_part_is_micro(user->part) ? c->stage[user->id] : -1;
            bool sooner = backward ? of > *stage : of < *stage;
            *stage = of >= 0 && (*stage < 0 || sooner) ? of : *stage;
        }
    if (*stage < 0)
        *stage = weft_lowered_first_stage(c->l);
}

/* What is shifted is sent from where it lies until the first reader of what comes in its place, or
 * the end of the program. */
static int sent_until(const weft_compiler *c, const weft_node *n)
{
    const weft_program *p = weft_compiler_program(c, c->position[n->id]);
    int until = p->to - 1;
    for (int i = 0; i < n->outs[0]->n_uses; i++) {
        int reader = c->position[n->outs[0]->uses[i].node->id];
        until = reader >= p->from && reader < until ? reader : until;
    }
    return until;
}

/* What is evicted is read until something of another block is, or to the end of the program. */
static int evicted_until(const weft_compiler *c, const weft_node *n)
{
    const weft_program *p = weft_compiler_program(c, c->position[n->id]);
    int i = c->position[n->id] + 1;
    while (i < p->to &&
           (!weft_node_is(c->order[i], WEFT_OP_EVICT) || c->order[i]->block == n->block))
        i++;
    return i < p->to ? i : p->to - 1;
}

bool weft_compile_goes_beside(const weft_compiler *c, const weft_node *n)
{
    const weft_lower_options *o = c->options;
    return n->n_steps && o->n_queues > 1 && !o->adversary && o->kernels->device->record &&
           (weft_get_mark(n, WEFT_MARK_GROUP) || weft_get_mark(n, WEFT_MARK_PREFETCH) ||
            weft_get_mark(n, WEFT_MARK_BESIDE));
}

/* A gather is over when it is first read. A reduction is read late, or in another program: it has
 * time until the next one. */
int weft_compile_beside_until(const weft_compiler *c, const weft_node *n)
{
    const weft_program *p = weft_compiler_program(c, c->position[n->id]);
    const int until = sent_until(c, n);
    for (int i = c->position[n->id] + 1; i < until && !weft_is_gather(n); i++) {
        const weft_node *next = c->order[i];
        if (c->position[next->id] == i && weft_compile_goes_beside(c, next) &&
            !weft_is_gather(next))
            return i;
    }
    return until < p->to ? until : p->to - 1;
}

/* A step begins once and then has many micro-batches; a validation and a text being written begin
 * once, too, and end for each batch. */
static void find_last_uses(weft_compiler *c)
{
    const bool trains = c->g->config.mode == WEFT_MODE_TRAIN;
    const weft_part repeated = trains ? WEFT_PART_W : WEFT_PART_STEP_END;
    int repeats_end = weft_compiler_end(c, repeated) - 1;
    int reported = weft_compiler_end(c, WEFT_PART_STEP_END);
    for (int i = 0; i < c->n; i++) {
        weft_node *n = c->order[i];
        int p = c->position[n->id];
        for (int r = 0; r < n->n_outs; r++) {
            const weft_value *v = n->outs[r];
            bool to_the_end =
                c->root[v->id] || v->update_of; /* read by the host, or copied into a state */
            c->last_use[v->id] = to_the_end ? c->n : p;
        }
        weft_part a = weft_compiler_part(c, p);
        bool again = c->repeats && a >= WEFT_PART_F && a <= repeated;
        for (int k = 0; k < n->n_ins; k++) {
            int *last = &c->last_use[n->ins[k]->id];
            if (c->position[n->ins[k]->node->id] < 0) /* another rank's */
                continue;
            bool outer = weft_compiler_part(c, c->position[n->ins[k]->node->id]) == WEFT_PART_BEGIN;
            int until = again && outer                   ? repeats_end
                        : weft_node_shifts(n)            ? sent_until(c, n)
                        : weft_node_is(n, WEFT_OP_EVICT) ? evicted_until(c, n)
                        : weft_compile_goes_beside(c, n) ? weft_compile_beside_until(c, n)
                                                         : p;
            *last = *last > until ? *last : until;
        }
    }
    for (int i = 0; i < c->g->n_parameters && c->g->config.mode == WEFT_MODE_TRAIN;
         i++) { /* whoever compares or diagnoses gradients, before the update */
        const weft_value *gradient = c->g->parameters[i]->gradient;
        int *last = gradient ? &c->last_use[gradient->id] : NULL;
        if (last && c->position[gradient->node->id] >= 0 && *last < reported)
            *last = reported;
    }
}

bool weft_compile_is_sender(const weft_compiler *c, const weft_node *n)
{
    return weft_layout_held(n->ins[0]->layout, c->l->coord);
}

/* A program receives first, so that its prologue can post it. A task of a micro-batch sends last;
 * what is sent once a step goes as soon as it is there, for others may wait for it while all
 * communicate. */
static int turn_of(const weft_compiler *c, const weft_node *n)
{
    if (!weft_node_sends(n))
        return 1;
    return !weft_compile_is_sender(c, n) ? 0 : weft_part_is_micro(n->part) ? 2 : 1;
}

static void fill_program(weft_compiler *c, weft_node *const *live, int n_live, weft_program *p)
{
    p->from = c->n;
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < n_live; i++) {
            weft_node *n = live[i];
            if (n->part != p->part || c->stage[n->id] != p->stage || turn_of(c, n) != turn)
                continue;
            c->position[n->id] = c->n;
            c->order[c->n++] = n;
        }
    p->to = c->n;
}

/* Readers stand behind, so their stages are known. Most nodes may be other ranks'. */
static weft_status fill_programs(weft_compiler *c, int axis)
{
    const int end = c->g->n_nodes + 1;
    weft_node **live = weft_pool_alloc(&c->pool, (size_t)end * sizeof *live);
    int from = end;
    for (weft_node *n = c->g->last; live && n; n = n->prev)
        if (n->mark) {
            find_stage(c, n, axis);
            live[--from] = n;
        }
    for (int i = 0; live && i < c->l->n_programs; i++)
        fill_program(c, live + from, end - from, &c->l->programs[i]);
    return live ? WEFT_OK : weft_fail_memory(c->err);
}

/* Is there work of this part and stage here? */
static bool is_here(const weft_compiler *c, weft_part part, int stage, int axis)
{
    const weft_task_list *tasks = c->l->tasks;
    bool listed = part != WEFT_PART_W;
    for (int i = 0; i < tasks->n && !listed; i++)
        listed = tasks->list[i].part == part && tasks->list[i].stage == stage;
    return listed && (!weft_part_is_micro(part) || axis < 0 || weft_graph_stages(c->g) == 1 ||
                      weft_graph_stage_rank(c->g, stage) == c->l->coord[axis]);
}

static weft_status make_programs(weft_compiler *c)
{
    weft_lowered *l = c->l;
    int stages = weft_graph_stages(c->g), axis = weft_graph_stage_axis(c->g);
    l->programs = weft_alloc_zero((size_t)(WEFT_PARTS * stages), sizeof *l->programs);
    if (!l->programs)
        return weft_fail_memory(c->err);
    for (int part = 0; part < WEFT_PARTS; part++) {
        int n = weft_part_is_micro((weft_part)part) ? stages : 1;
        for (int i = 0; i < n; i++) {
            int stage = part > WEFT_PART_F ? n - 1 - i : i;
            if (is_here(c, (weft_part)part, stage, axis))
                l->programs[l->n_programs++] =
                    (weft_program){.part = (weft_part)part, .stage = stage};
        }
    }
    return WEFT_OK;
}

weft_status weft_compile_order(weft_compiler *c)
{
    weft_graph *g = c->g;
    if (!g->has_parts)
        return weft_fail(c->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "the graph's nodes have no parts yet");
    mark_live(c);
    const int axis = weft_graph_stage_axis(g);
    weft_status s = make_programs(c);
    s = s || axis < 0 ? s : mark_held(c, axis);
    memset(c->position, -1, ((size_t)g->n_nodes + 1) * sizeof *c->position);
    s = s ? s : fill_programs(c, axis);
    for (const weft_node *n = s ? NULL : g->first; n; n = n->next)
        if (n->mark && n->part == WEFT_PART_W && c->position[n->id] < 0)
            return weft_fail(
                c->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                "%s waits for a task of part %s, of which the schedule has none in stage %d",
                n->n_outs ? n->outs[0]->name : n->op->name, weft_part_name(n->part),
                c->stage[n->id]);
    s = s ? s : weft_compile_group(c);
    s = s ? s : weft_compile_early(c);
    if (!s)
        find_last_uses(c);
    return s;
}
