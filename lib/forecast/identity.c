/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan is, as a number: plans of which every rank of the pipeline runs the same
 * instructions, in the same order, at the same places in memory are one. Names of axes, of values
 * and of plugins do not count. */
#include "forecast/forecast.h"
#include "forecast/mix.h"

/* ---- instructions ---- */

static void mix_tensor(uint64_t *hash, const weft_tensor *t)
{
    const size_t n = (size_t)t->n_dims * sizeof *t->size;
    mix_number(hash, t->dtype * WEFT_MAX_DIMS + t->n_dims);
    mix(hash, t->size, n);
    mix(hash, t->lo, n);
    mix(hash, t->whole, n);
}

static void mix_buffer(uint64_t *hash, const weft_lowered *l, int buffer)
{
    const weft_buffer *b = buffer < 0 ? NULL : &l->buffers[buffer];
    const int64_t place[] = {b ? (int64_t)b->base : -1, b ? b->offset : 0, b ? b->bytes : 0,
                             b && b->base == WEFT_BASE_SLOT ? b->slots : 0};
    mix(hash, place, sizeof place);
}

/* What is sent, and over which axes. */
static void mix_steps(uint64_t *hash, const weft_node *n)
{
    mix_number(hash, n->n_ins ? (int64_t)n->ins[0]->layout.bits : 0);
    for (int i = 0; i < n->n_steps; i++) {
        const weft_step *s = &n->steps[i];
        const int64_t what[] = {s->move, s->dim, s->to, (int64_t)s->after.bits};
        mix(hash, what, sizeof what);
        mix(hash, s->axes, (size_t)s->n_axes * sizeof *s->axes);
    }
}

static void mix_node(uint64_t *hash, const weft_node *n)
{
    mix_text(hash, n->op->name);
    mix_attrs(hash, n->attrs, n->n_attrs);
    mix_steps(hash, n);
}

static void mix_instruction(uint64_t *hash, const weft_lowered *l, const weft_instruction *in)
{
    const int64_t how[] = {in->kind,  in->n_ins, in->n_outs, in->transfer,
                           in->every, in->queue, in->early,  in->accumulate,
                           in->fetch, in->event, in->n_waits};
    mix(hash, how, sizeof how);
    mix(hash, in->waits, (size_t)in->n_waits * sizeof *in->waits);
    mix_text(hash, in->kernel ? in->kernel->name : NULL);
    mix_node(hash, in->node);
    for (int i = 1; in->parts && i < in->n_ins; i++)
        mix_node(hash, in->parts[i]);
    for (int i = 0; i < in->n_ins + in->n_outs; i++) {
        mix_tensor(hash, &in->tensors[i]);
        mix_buffer(hash, l, in->buffers[i]);
    }
    mix_buffer(hash, l, in->workspace);
}

/* ---- ranks ---- */

static void mix_program(uint64_t *hash, const weft_lowered *l, const weft_program *p)
{
    const int64_t which[] = {p->part, p->stage, p->n, p->n_prologue};
    mix(hash, which, sizeof which);
    for (int i = 0; i < p->n; i++)
        mix_instruction(hash, l, &p->list[i]);
}

/* like: its programs are those of a rank that was mixed in. */
static void mix_rank(uint64_t *hash, const weft_plan *plan, const weft_lowered *l, bool like)
{
    const int64_t sizes[] = {l->arena_bytes, l->input_bytes, l->step_input_bytes, l->sending,
                             plan->states.bytes};
    mix(hash, sizes, sizeof sizes);
    for (int i = 0; i < l->tasks->n; i++) {
        const weft_task *t = &l->tasks->list[i];
        const int64_t task[] = {t->part, t->stage, t->micro_batch};
        mix(hash, task, sizeof task);
    }
    for (int i = 0; i < l->n_programs && !like; i++)
        mix_program(hash, l, &l->programs[i]);
}

uint64_t weft_plan_identity(const weft_plan *plan, const weft_forecast *f)
{
    const weft_mesh *mesh = &plan->mesh;
    const weft_lowered *own = plan->lowered[WEFT_MODE_TRAIN];
    const int64_t sizes[] = {plan->ranks, plan->global_batch, plan->micro_batch, plan->seq_len};
    uint64_t hash = weft_hash_name("plan");
    mix(&hash, sizes, sizeof sizes);
    for (int i = 0; i < mesh->n_axes; i++)
        mix_number(&hash, mesh->axis[i].size);
    for (int r = 0; r < plan->tasks[WEFT_MODE_TRAIN]->ranks; r++) {
        mix_number(&hash, f->like[r]);
        mix_rank(&hash, f->ranks[r] == own ? plan : &f->others[f->like[r]], f->ranks[r],
                 f->like[r] != r);
    }
    return hash;
}
