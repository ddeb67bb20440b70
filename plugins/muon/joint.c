/* SPDX-License-Identifier: Apache-2.0 */
/* The step_end graph. Momentum lies as the parameter does. Matrices that are alike, in size and
 * layout, are put into a stack; where their own dims were cut the stack is cut between matrices
 * instead, so that each is whole on one of the ranks that share it, by one all_to_all an axis; and
 * back the same way. No rank computes what another one does. */
#include "muon.h"

#include <fnmatch.h>
#include <string.h>

enum {
    MOST = 64,              /* matrices of a stack: what a node can have as operands */
    STACK_BYTES = 64 << 20, /* of it that a rank has, unless one matrix is larger */
};

typedef struct plan {
    const weft_params *keys;
    weft_graph *g;
    weft_value *clip, *lr;
    double weight_decay;
    bool decays_all; /* what models leave out of weight decay, too */
    const char *dtype;
    weft_axes stages;  /* the axis of a pipeline, whose ranks share nothing */
    int64_t ranks, at; /* that share the matrices of a stage; which stage's */
    double *flops;     /* of each of these ranks, so far */
    int64_t *matrices;
    int64_t least, most, all; /* matrices of a rank, of all stages before */
} plan;

/* ---- which parameters ---- */

static bool matches(const weft_params *keys, const char *key, const char *name)
{
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(keys, key, i)); i++)
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    return false;
}

static bool takes(const weft_value *p, void *keys)
{
    bool named = weft_params_is(keys, "parameters", "auto") ? p->node->block >= 0
                                                            : matches(keys, "parameters", p->name);
    return p->n_dims >= 2 && named && !matches(keys, "exclude", p->name);
}

/* A pattern that speaks of no matrix is a slip of the pen. */
static weft_status check_patterns(const weft_params *keys, const char *key, const weft_graph *g,
                                  weft_error *err)
{
    weft_status status = WEFT_OK;
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(keys, key, i)); i++) {
        const weft_value *p;
        int k = 0;
        while ((p = weft_graph_parameter(g, k)) &&
               (p->n_dims < 2 || fnmatch(pattern, p->name, 0) != 0))
            k++;
        if (!p && !weft_params_is(keys, key, "auto"))
            status =
                weft_fail(err, WEFT_ERR_INPUT, weft_params_where(keys, key),
                          "[muon] %s: '%s' matches no parameter of two dims or more", key, pattern);
    }
    return status;
}

/* ---- what is shared with the optimizer that takes the rest ---- */

static weft_status share(plan *p, weft_error *err)
{
    weft_value *lr = weft_graph_find(p->g, "lr");
    double highest = lr ? weft_node_real(lr->node, "lr") : 0, own = weft_params_real(p->keys, "lr");
    p->lr = lr;
    p->weight_decay = weft_params_is(p->keys, "weight_decay", "auto")
                          ? (lr ? weft_node_real(lr->node, "weight_decay") : 0)
                          : weft_params_real(p->keys, "weight_decay");
    p->decays_all = lr && weft_node_int(lr->node, "decay_all");
    p->clip = weft_gradient_clip(p->g, lr ? weft_node_real(lr->node, "max_norm") : 0);
    if (!lr)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "muon: no optimizer says the learning rate; list adamw behind it");
    if (weft_params_is(p->keys, "lr", "auto"))
        return WEFT_OK;
    if (highest == 0)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->keys, "lr"),
                         "[muon] lr: warm-up and decay are those of the optimizer that takes the "
                         "rest, whose lr is 0; give that another, or use auto");
    weft_value *factor = weft_add(p->g, "constant", NULL, 0, NULL);
    weft_set_real(p->g, factor, "value", own / highest);
    p->lr = weft_add2(p->g, "scale", NULL, lr, factor);
    weft_add_report(p->g, "muon.lr", p->lr);
    return weft_graph_status(p->g);
}

static const char *find_dtype(const plan *p)
{
    const char *given = weft_params_text(p->keys, "dtype");
    if (!weft_params_is(p->keys, "dtype", "auto"))
        return given;
    for (const weft_node *n = weft_graph_first(p->g); n; n = n->next)
        if (n->n_outs && n->outs[0]->dtype == WEFT_BF16 && n->scope == WEFT_MICRO_BATCH)
            return "bf16";
    return "f32";
}

/* ---- who computes what ---- */

static bool is_alike(const weft_value *a, const weft_value *b)
{
    bool alike = a->n_dims == b->n_dims && a->dtype == b->dtype &&
                 a->gradient->dtype == b->gradient->dtype && a->layout.bits == b->layout.bits;
    for (int d = 0; alike && d < a->n_dims; d++)
        alike = a->dims[d].size == b->dims[d].size && a->dims[d].grain == b->dims[d].grain &&
                strcmp(a->dims[d].name, b->dims[d].name) == 0;
    return alike;
}

/* Flops of one matrix. */
static double cost(const weft_value *v, int64_t iterations)
{
    double r = (double)v->dims[v->n_dims - 2].size, c = (double)v->dims[v->n_dims - 1].size;
    double least = r < c ? r : c;
    return (double)iterations * (4 * r * c * least + 2 * least * least * least);
}

/* The slot to begin at, so that the rank with most to do has as little as can be. */
static int64_t find_first(const plan *p, int64_t n)
{
    int64_t best = 0;
    double lowest = -1;
    for (int64_t first = 0; first < p->ranks; first++) {
        double highest = 0;
        for (int64_t i = 0; i < n; i++)
            if (p->flops[(first + i) % p->ranks] > highest)
                highest = p->flops[(first + i) % p->ranks];
        if (lowest < 0 || highest < lowest) {
            lowest = highest;
            best = first;
        }
    }
    return best;
}

/* The ranks of a stage are done: what each has counts, and the next stage's have nothing yet. */
static void close_stage(plan *p)
{
    for (int64_t i = 0; i < p->ranks; i++) {
        p->least = p->all == 0 || p->matrices[i] < p->least ? p->matrices[i] : p->least;
        p->most = p->matrices[i] > p->most ? p->matrices[i] : p->most;
        p->all += p->matrices[i];
        p->matrices[i] = 0;
        p->flops[i] = 0;
    }
}

/* How many of the n matrices that are left go into the next stack, and into which slots. */
static muon_slots plan_stack(plan *p, const weft_value *like, int n)
{
    muon_slots s = {p->ranks, 0, n < p->ranks && n < MOST ? n : MOST};
    int64_t bytes = weft_value_bytes(p->g, like), each = STACK_BYTES / (bytes > 0 ? bytes : 1);
    if (n >= p->ranks && p->ranks <= MOST) {
        each = each < 1 ? 1 : each > MOST / p->ranks ? MOST / p->ranks : each;
        each = each > n / p->ranks ? n / p->ranks : each;
        s.matrices = s.slots = each * p->ranks;
    }
    if (s.slots > s.matrices)
        s.first = find_first(p, s.matrices);
    for (int64_t i = 0; i < s.matrices; i++) {
        int64_t rank = muon_slot(&s, i) / (s.slots / p->ranks);
        p->flops[rank] += cost(like, weft_params_int(p->keys, "iterations"));
        p->matrices[rank]++;
    }
    return s;
}

/* ---- the graph ---- */

/* The layout in which every axis that cut a matrix, or that had all ranks hold it, cuts the stack
 * between matrices. An axis leaves a dim from the end of its list, so that is the order here. */
static weft_layout whole_layout(const plan *p, const weft_value *stack)
{
    const weft_mesh *mesh = weft_graph_mesh(p->g);
    weft_layout l = stack->layout;
    int order[WEFT_MAX_AXES], n = 0;
    for (int a = mesh->n_axes - 1; a >= 0; a--)
        if (weft_layout_byte(l, a) == 0 && !(p->stages >> a & 1u))
            order[n++] = a;
    for (int d = stack->n_dims - 2; d < stack->n_dims; d++) {
        int list[WEFT_MAX_AXES];
        for (int i = weft_layout_list(stack->layout, d, list); i > 0; i--) {
            order[n++] = list[i - 1];
            l = weft_layout_clear(l, list[i - 1]);
        }
    }
    for (int i = 0; i < n; i++)
        l = weft_layout_cut(l, 0, order[i], false);
    return l;
}

static weft_value *momentum(const plan *p, weft_value *parameter, weft_error *err)
{
    char *name = weft_format("%s.momentum", parameter->name);
    if (!name)
        return weft_fail_memory(err), NULL;
    weft_value *m =
        weft_add_state_like(p->g, name, parameter, parameter->dtype, WEFT_STATE_OPTIMIZER);
    weft_free(name);
    weft_value *ins[] = {parameter->gradient, m, p->clip}, *outs[] = {NULL, NULL};
    weft_add_many(p->g, "muon_momentum", NULL, 3, ins, 2, outs);
    weft_set_real(p->g, outs[0], "momentum", weft_params_real(p->keys, "momentum"));
    weft_set_int(p->g, outs[0], "nesterov", weft_params_bool(p->keys, "nesterov"));
    weft_set_update(p->g, m, outs[1]);
    return outs[0];
}

/* Jordan's coefficients: singular values go to about 1, fast. */
static weft_value *newton_schulz(const plan *p, weft_value *stack, const muon_slots *s)
{
    weft_value *next = weft_add1(p->g, "newton_schulz", NULL, stack);
    weft_set_int(p->g, next, "steps", weft_params_int(p->keys, "iterations"));
    weft_set_real(p->g, next, "a", 3.4445);
    weft_set_real(p->g, next, "b", -4.7750);
    weft_set_real(p->g, next, "c", 2.0315);
    weft_set_real(p->g, next, "eps", 1e-7);
    weft_set_int(p->g, next, "first", s->first);
    weft_set_int(p->g, next, "matrices", s->matrices);
    return next;
}

static weft_status update_stack(const plan *p, weft_value **list, const muon_slots *s,
                                weft_error *err)
{
    weft_value *parts[MOST] = {NULL};
    const weft_attr place[] = {{.key = "slots", .i = s->slots},
                               {.key = "first", .i = s->first},
                               {.key = "dtype", .kind = WEFT_ATTR_TEXT, .text = p->dtype}};
    int n = (int)s->matrices;
    weft_graph_set_block(p->g, list[0]->node->block);
    for (int i = 0; i < n; i++)
        if (!(parts[i] = momentum(p, list[i], err)))
            return weft_graph_status(p->g) != WEFT_OK ? weft_graph_status(p->g) : WEFT_ERR_MEMORY;
    weft_value *stack = weft_add_full(p->g, "muon_stack", NULL, n, parts, 1, NULL, place, 3);
    if (!stack)
        return weft_graph_status(p->g);
    weft_value *whole = weft_add_move(p->g, stack, whole_layout(p, stack));
    weft_value *next = weft_add_move(p->g, newton_schulz(p, whole, s), stack->layout);
    weft_add_full(p->g, "muon_unstack", NULL, 1, &next, n, parts, place + 1, 1);
    for (int i = 0; i < n; i++) {
        weft_graph_set_block(p->g, list[i]->node->block);
        weft_value *moved = weft_add3(p->g, "muon_update", NULL, list[i], parts[i], p->lr);
        const bool left = weft_get_mark(list[i]->node, WEFT_MARK_NO_DECAY) && !p->decays_all;
        weft_set_real(p->g, moved, "weight_decay", left ? 0 : p->weight_decay);
        weft_set_int(p->g, moved, "original", weft_params_is(p->keys, "scale", "original"));
        weft_set_update(p->g, list[i], moved);
    }
    return weft_graph_status(p->g);
}

/* All that are as the first of n; the list keeps the others, in their order. */
static weft_status update_alike(plan *p, weft_value **list, int *n, weft_value **alike,
                                weft_error *err)
{
    int n_alike = 0, rest = 0;
    for (int i = 0; i < *n; i++) {
        bool is = i == 0 || is_alike(alike[0], list[i]);
        *(is ? &alike[n_alike++] : &list[rest++]) = list[i];
    }
    *n = rest;
    int64_t at = 0;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_at(alike[0]->layout, a) >= 0)
            at = 1 + weft_layout_at(alike[0]->layout, a);
    if (at != p->at)
        close_stage(p);
    p->at = at;
    weft_status status = WEFT_OK;
    for (int done = 0; done < n_alike && status == WEFT_OK;) {
        muon_slots s = plan_stack(p, alike[0], n_alike - done);
        status = update_stack(p, alike + done, &s, err);
        done += (int)s.matrices;
    }
    return status;
}

static weft_status update_all(plan *p, weft_value **list, int n, weft_error *err)
{
    const weft_mesh *mesh = weft_graph_mesh(p->g);
    for (int i = 0; i < n; i++)
        for (int a = 0; a < mesh->n_axes; a++)
            p->stages |= weft_layout_at(list[i]->layout, a) >= 0 ? 1u << a : 0;
    p->ranks = weft_mesh_count(mesh, ((1u << mesh->n_axes) - 1) & ~p->stages);
    p->flops = weft_alloc_zero((size_t)p->ranks, sizeof *p->flops);
    p->matrices = weft_alloc_zero((size_t)p->ranks, sizeof *p->matrices);
    weft_status status = p->flops && p->matrices ? WEFT_OK : weft_fail_memory(err);
    for (int left = n; left > 0 && status == WEFT_OK;)
        status = update_alike(p, list, &left, list + n, err);
    if (status == WEFT_OK)
        close_stage(p);
    weft_free(p->flops);
    weft_free(p->matrices);
    weft_graph_set_block(p->g, WEFT_BLOCK_NONE);
    if (status == WEFT_OK && p->least == p->most)
        weft_graph_note(p->g, "%lld matrices, each computed by one rank: %lld a rank",
                        (long long)p->all, (long long)p->most);
    else if (status == WEFT_OK)
        weft_graph_note(p->g, "%lld matrices, each computed by one rank: %lld to %lld a rank",
                        (long long)p->all, (long long)p->least, (long long)p->most);
    return status;
}

void muon_joint(void *self, weft_graph *g)
{
    const weft_host *host = self;
    void *keys = (void *)(uintptr_t)host->params;
    weft_error *err = weft_graph_error(g);
    plan p = {.keys = keys, .g = g};
    weft_status wrong = check_patterns(keys, "parameters", g, err);
    if (check_patterns(keys, "exclude", g, err) || wrong)
        return;
    int n = weft_graph_unclaimed(g, takes, keys, NULL);
    if (n == 0) {
        weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_where(keys, "parameters"),
                        "[muon]: nothing is left that it takes: what `parameters` names is "
                        "excluded, not trained, or taken by an optimizer listed before");
        return;
    }
    weft_value **list = weft_alloc_zero(2 * (size_t)n, sizeof *list); /* and those that are alike */
    if (!list) {
        weft_fail_memory(err);
        return;
    }
    weft_graph_unclaimed(g, takes, keys, list);
    p.dtype = find_dtype(&p);
    if (!share(&p, err))
        update_all(&p, list, n, err);
    weft_free(list);
}
