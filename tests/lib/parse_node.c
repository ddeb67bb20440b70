/* SPDX-License-Identifier: Apache-2.0 */
/* A node from its line. */
#include "reader.h"

#include <stdlib.h>
#include <string.h>

/* ---- results ---- */

typedef struct result {
    const char *name, *becomes;
    weft_value is; /* dtype, dims, layout, marks */
} result;

static weft_status read_cuts(weft_reader *r, weft_value *v, int d)
{
    weft_status s = WEFT_OK;
    while (!s && weft_read_accept(r, "/")) {
        int axis;
        if ((s = weft_read_axis(r, &axis)))
            return s;
        if (weft_layout_byte(v->layout, axis))
            return weft_read_bad(r, "axis %s is used twice", r->g->config.mesh.axis[axis].name);
        v->layout = weft_layout_cut(v->layout, d, axis, weft_read_accept(r, "!"));
    }
    return s;
}

static weft_status read_dim(weft_reader *r, weft_value *v)
{
    enum { MOST = INT32_MAX };
    if (v->n_dims == WEFT_MAX_DIMS)
        return weft_read_bad(r, "more than %d dims", WEFT_MAX_DIMS);
    const char *name;
    int64_t units, grain = 1;
    int d = v->n_dims++;
    weft_status s = weft_read_word(r, "a dim", " /,]", &name);
    s = s ? s : read_cuts(r, v, d);
    s = s ? s : weft_read_int(r, "a size", 1, MOST, &units);
    if (!s && weft_read_accept(r, "*"))
        s = weft_read_int(r, "a grain", 1, MOST, &grain);
    if (s)
        return s;
    if (!weft_map_get(&r->g->dims, name, strlen(name)))
        weft_graph_dim(r->g, name, units, grain);
    v->dims[d] = (weft_dim){name, units * grain, grain};
    return WEFT_OK;
}

static weft_status read_open(weft_reader *r, weft_value *v, int kind)
{
    int axis;
    weft_status s = weft_read_axis(r, &axis);
    if (s)
        return s;
    if (weft_layout_byte(v->layout, axis))
        return weft_read_bad(r, "axis %s is used twice", r->g->config.mesh.axis[axis].name);
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_open(v->layout, a) && weft_layout_open(v->layout, a) != kind)
            return weft_read_bad(r, "an open sum and an open maximum at once");
    v->layout = weft_layout_set_open(v->layout, axis, kind);
    return WEFT_OK;
}

/* "@pp=2". */
static weft_status read_at(weft_reader *r, weft_value *v)
{
    const char *name;
    int64_t at;
    weft_status s = weft_read_word(r, "an axis", "= ", &name);
    int axis = s ? -1 : weft_mesh_find(&r->g->config.mesh, name);
    if (!s && axis < 0)
        return weft_read_bad(r, "the mesh has no axis '%s'", name);
    s = s ? s : weft_read_expect(r, "=");
    if (s)
        return s;
    int size = r->g->config.mesh.axis[axis].size;
    if (weft_layout_byte(v->layout, axis))
        return weft_read_bad(r, "axis %s is used twice", name);
    s = weft_read_int(r, "a coordinate", 0, (size < WEFT_MAX_AT ? size : WEFT_MAX_AT) - 1, &at);
    if (!s)
        v->layout = weft_layout_set_at(v->layout, axis, (int)at);
    return s;
}

/* ">seq:1": the shards of a dim are one rank further on. */
static weft_status read_turn(weft_reader *r, weft_value *v)
{
    const char *name;
    int64_t turn;
    weft_status s = weft_read_word(r, "a dim", ": ", &name);
    s = s ? s : weft_read_expect(r, ":");
    s = s ? s : weft_read_int(r, "a number of ranks", 1, INT32_MAX, &turn);
    if (s)
        return s;
    int d = weft_value_dim(v, name), list[WEFT_MAX_AXES];
    if (d < 0 || weft_layout_list(v->layout, d, list) == 0)
        return weft_read_bad(r, "there is no dim '%s' that is cut", name);
    v->turn_dim = d;
    v->turn = (int)turn;
    return WEFT_OK;
}

static weft_status read_marks(weft_reader *r, result *out)
{
    for (weft_status s = WEFT_OK;;) {
        if (weft_read_accept(r, "+"))
            s = read_open(r, &out->is, WEFT_OPEN_SUM);
        else if (weft_read_accept(r, "max+"))
            s = read_open(r, &out->is, WEFT_OPEN_MAX);
        else if (weft_read_accept(r, "@"))
            s = read_at(r, &out->is);
        else if (weft_read_accept(r, ">"))
            s = read_turn(r, &out->is);
        else if (weft_read_accept(r, "~"))
            out->is.recompute = true;
        else if (weft_read_accept(r, "frozen"))
            out->is.frozen = true;
        else if (weft_read_accept(r, "fetched"))
            out->is.fetch = true;
        else if (weft_read_accept(r, "becomes"))
            s = weft_read_name(r, &out->becomes);
        else if (weft_read_accept(r, "("))
            s = (s = weft_read_word(r, "a role", " )", &out->is.role)) ? s
                                                                       : weft_read_expect(r, ")");
        else
            return WEFT_OK;
        if (s)
            return s;
    }
}

static weft_status read_result(weft_reader *r, result *out)
{
    const char *dtype;
    memset(out, 0, sizeof *out);
    weft_status s = weft_read_name(r, &out->name);
    s = s ? s : weft_read_expect(r, ":");
    s = s ? s : weft_read_word(r, "a dtype", "[ ", &dtype);
    s = s ? s : weft_read_expect(r, "[");
    if (s)
        return s;
    if (weft_read_find(r, out->name))
        return weft_read_bad(r, "%s is made twice", out->name);
    if ((out->is.dtype = weft_dtype_find(dtype)) == WEFT_DTYPES)
        return weft_read_bad(r, "there is no dtype '%s'", dtype);
    if (!weft_read_accept(r, "]")) {
        do
            s = read_dim(r, &out->is);
        while (!s && weft_read_accept(r, ","));
        s = s ? s : weft_read_expect(r, "]");
    }
    s = s ? s : read_marks(r, out);
    return !s && !r->g->placed && out->is.layout.bits
               ? weft_read_bad(r, "%s has a layout in a graph that is not placed", out->name)
               : s;
}

/* ---- the op ---- */

typedef struct line {
    result outs[WEFT_RULE_MAX_PARTS];
    weft_value *ins[WEFT_RULE_MAX_PARTS];
    weft_attr attrs[32];
    const char *steps; /* a redistribute's, as written; NULL: another op */
    weft_node_spec spec;
    weft_init init;
    weft_state_kind kind;
    const char *why;
    bool again;
} line;

static weft_status read_results(weft_reader *r, line *l)
{
    if (weft_read_accept(r, "- "))
        return WEFT_OK;
    do {
        if (l->spec.n_outs == WEFT_RULE_MAX_PARTS)
            return weft_read_bad(r, "more than %d results", WEFT_RULE_MAX_PARTS);
        weft_status s = read_result(r, &l->outs[l->spec.n_outs++]);
        if (s)
            return s;
    } while (weft_read_accept(r, ";"));
    return WEFT_OK;
}

static weft_status read_init(weft_reader *r, weft_init *init)
{
    for (int k = WEFT_INIT_UNIFORM; k >= WEFT_INIT_ZERO; k--) {
        if (!weft_read_accept(r, weft_init_name((weft_init_kind)k)))
            continue;
        init->kind = (weft_init_kind)k;
        weft_status s =
            k >= WEFT_INIT_NORMAL ? weft_read_real(r, "a deviation", &init->std) : WEFT_OK;
        return !s && k == WEFT_INIT_TRUNC_NORMAL ? weft_read_real(r, "a cut", &init->cut) : s;
    }
    return weft_read_bad(
        r, "a parameter begins as zero, one, normal, trunc_normal or uniform, not as '%.20s'",
        r->p);
}

/* "history normal 0.02"; nothing: an optimizer's, zero at first. */
static weft_status read_kind(weft_reader *r, line *l)
{
    for (int k = 0; k < WEFT_STATE_KINDS; k++) {
        if (!weft_read_accept(r, weft_state_kind_name((weft_state_kind)k)))
            continue;
        l->kind = (weft_state_kind)k;
        weft_read_skip(r);
        return *r->p == ')' || *r->p == ';' ? WEFT_OK : read_init(r, &l->init);
    }
    return WEFT_OK;
}

static weft_status read_operands(weft_reader *r, line *l)
{
    weft_status s = WEFT_OK;
    if (l->spec.op->flags & WEFT_OP_PARAMETER)
        s = read_init(r, &l->init);
    else if (l->spec.op->flags & WEFT_OP_STATE)
        s = read_kind(r, l);
    while (!s && (*r->p == '@' || *r->p == '%')) {
        if (l->spec.n_ins == WEFT_RULE_MAX_PARTS)
            return weft_read_bad(r, "more than %d operands", WEFT_RULE_MAX_PARTS);
        s = weft_read_value(r, &l->ins[l->spec.n_ins++]);
        if (!s && weft_read_accept(r, ","))
            weft_read_skip(r);
    }
    if (!s && weft_read_accept(r, "; like"))
        s = weft_read_value(r, &l->spec.like);
    return s ? s : weft_read_expect(r, ")");
}

static weft_status read_op(weft_reader *r, line *l)
{
    const char *name;
    weft_status s = weft_read_expect(r, "=");
    s = s ? s : weft_read_word(r, "an op", "(", &name);
    if (s)
        return s;
    bool moves = strchr(name, '[') != NULL;
    l->steps = moves ? name : NULL;
    l->spec.op = weft_ops_find(r->g->config.ops, moves ? "redistribute" : name);
    if (!l->spec.op)
        return weft_read_bad(r, "there is no op '%s'", name);
    s = weft_read_expect(r, "(");
    return s ? s : read_operands(r, l);
}

/* ---- attributes ---- */

static int hex4(const char *p)
{
    char digits[5] = {0}, *end;
    strncpy(digits, p, 4);
    long code = strtol(digits, &end, 16);
    return end == digits + 4 ? (int)code : -1;
}

/* A JSON string as weft_text_add_json writes it: of \u only control characters and the replacement
 * character. */
static weft_status read_string(weft_reader *r, const char **out)
{
    weft_text text = {0};
    weft_status s = weft_read_expect(r, "\"");
    while (!s && *r->p != '"') {
        static const char from[] = "nrt\"\\", to[] = "\n\r\t\"\\";
        const char *escape = *r->p == '\\' && r->p[1] ? strchr(from, r->p[1]) : NULL;
        int code = strncmp(r->p, "\\u", 2) == 0 ? hex4(r->p + 2) : -1;
        if (escape) {
            weft_text_add_bytes(&text, &to[escape - from], 1);
            r->p += 2;
        } else if ((code > 0 && code < 0x20) || code == 0xfffd) {
            char c = (char)code;
            weft_text_add_bytes(&text, code == 0xfffd ? "\xef\xbf\xbd" : &c,
                                code == 0xfffd ? 3 : 1);
            r->p += 6;
        } else if (*r->p == '\\' || !*r->p) {
            s = weft_read_bad(r, *r->p ? "there is no escape '%.2s'" : "a text does not end%s",
                              r->p);
        } else {
            weft_text_add_bytes(&text, r->p++, 1);
        }
    }
    s = s ? s : weft_read_expect(r, "\"");
    *out = weft_pool_strdup(&r->g->pool, weft_text_get(&text));
    s = s || (*out && !text.out_of_memory) ? s : weft_fail_memory(r->err);
    weft_text_release(&text);
    return s;
}

static weft_status read_attr(weft_reader *r, weft_attr *a)
{
    *a = (weft_attr){0};
    weft_status s = weft_read_word(r, "an attribute", " ,}", &a->key);
    if (s)
        return s;
    weft_read_skip(r);
    a->kind = *r->p == '"' ? WEFT_ATTR_TEXT : WEFT_ATTR_INT;
    for (const char *p = r->p; a->kind == WEFT_ATTR_INT && *p && !strchr(",}", *p); p++)
        if (strchr(".eni", *p))
            a->kind = WEFT_ATTR_REAL;
    if (a->kind == WEFT_ATTR_TEXT)
        return read_string(r, &a->text);
    return a->kind == WEFT_ATTR_REAL ? weft_read_real(r, a->key, &a->r)
                                     : weft_read_int(r, a->key, INT64_MIN, INT64_MAX, &a->i);
}

static weft_status read_attrs(weft_reader *r, line *l)
{
    enum { MOST = sizeof l->attrs / sizeof l->attrs[0] };
    if (!weft_read_accept(r, "{"))
        return WEFT_OK;
    do {
        if (l->spec.n_attrs == MOST)
            return weft_read_bad(r, "more than %d attributes", MOST);
        weft_status s = read_attr(r, &l->attrs[l->spec.n_attrs++]);
        if (s)
            return s;
    } while (weft_read_accept(r, ","));
    return weft_read_expect(r, "}");
}

/* ---- the right column ---- */

static weft_status read_right(weft_reader *r, line *l)
{
    weft_status s = weft_read_word(r, "a plugin", " ,", &r->g->by);
    l->spec.scope = r->g->placed ? WEFT_MICRO_BATCH : WEFT_SCOPE_NONE;
    while (!s && weft_read_accept(r, ",")) {
        if (weft_read_accept(r, "for ")) {
            weft_read_skip(r);
            l->why = weft_pool_strdup(&r->g->pool, r->p);
            return l->why ? WEFT_OK : weft_fail_memory(r->err);
        }
        if (weft_read_accept(r, "again")) {
            l->again = true;
            continue;
        }
        weft_scope scope = WEFT_SCOPE_NONE;
        while (scope <= WEFT_STEP_END && !weft_read_accept(r, weft_scope_name(scope)))
            scope++;
        if (scope > WEFT_STEP_END)
            return weft_read_bad(r, "there is no scope '%.20s'", r->p);
        l->spec.scope = scope;
    }
    return s || !*r->p ? s : weft_read_bad(r, "what does '%.20s' mean?", r->p);
}

/* ---- a node from its line ---- */

static weft_status set_result(weft_reader *r, weft_value *v, const result *from)
{
    weft_graph *g = r->g;
    if (strcmp(v->name, from->name) != 0) {
        v->name = from->name;
        if (!weft_map_set(&g->names, &g->pool, v->name, strlen(v->name), v))
            return weft_fail_memory(r->err);
    }
    v->dtype = from->is.dtype;
    v->n_dims = from->is.n_dims;
    memcpy(v->dims, from->is.dims, sizeof v->dims);
    v->layout = from->is.layout;
    v->turn = from->is.turn;
    v->turn_dim = from->is.turn_dim;
    v->placed = g->placed;
    v->role = from->is.role;
    v->recompute = from->is.recompute;
    v->fetch = from->is.fetch;
    v->frozen = from->is.frozen;
    if (!from->becomes)
        return WEFT_OK;
    weft_later *update = weft_pool_alloc(&g->pool, sizeof *update);
    if (!update)
        return weft_fail_memory(r->err);
    *update = (weft_later){v, from->becomes, r->line, r->updates};
    r->updates = update;
    return WEFT_OK;
}

/* What is shifted has the same layout behind it, and is turned by one rank more. */
static weft_status set_shift(weft_reader *r, weft_node *n)
{
    const weft_value *from = n->ins[0], *to = n->outs[0];
    int turn = to->turn, d = turn ? to->turn_dim : from->turn_dim, list[WEFT_MAX_AXES];
    if (from->layout.bits != to->layout.bits || d >= from->n_dims ||
        weft_layout_list(from->layout, d, list) == 0)
        return weft_read_bad(r, "%s cannot be shifted", from->name);
    if (!weft_node_set_shift(r->g, n, d))
        return weft_graph_status(r->g);
    return to->turn == turn ? WEFT_OK
                            : weft_read_bad(r, "a shift of %s turns it by %d, not by %d",
                                            from->name, to->turn, turn);
}

/* Steps follow from the layouts; what is written must agree. */
static weft_status set_steps(weft_reader *r, weft_node *n, const char *written)
{
    weft_step steps[WEFT_MAX_STEPS];
    if (n->n_ins != 1 || n->n_outs != 1 || n->ins[0]->n_dims != n->outs[0]->n_dims)
        return weft_read_bad(r, "a redistribute has one operand and one result of the same dims");
    if (strncmp(written, "shift[", 6) == 0)
        return set_shift(r, n);
    int count = weft_layout_steps(n->ins[0]->layout, n->outs[0]->layout, n->outs[0]->n_dims, steps);
    if (count < 0)
        return weft_read_bad(r, "there is no way from the layout of %s to that of %s",
                             n->ins[0]->name, n->outs[0]->name);
    weft_text text = {0};
    weft_print_steps(&r->g->config.mesh, steps, count, &text);
    weft_status s = WEFT_OK;
    if (text.out_of_memory)
        s = weft_fail_memory(r->err);
    else if (strcmp(weft_text_get(&text), written) != 0)
        s = weft_read_bad(r, "the layouts ask for %s, not for %s", weft_text_get(&text), written);
    weft_text_release(&text);
    weft_step *kept = weft_pool_alloc(&r->g->pool, ((size_t)count + 1) * sizeof *kept);
    if (!kept)
        return weft_fail_memory(r->err);
    memcpy(kept, steps, (size_t)count * sizeof *kept);
    n->steps = kept;
    n->n_steps = count;
    return s;
}

static weft_status set_source(weft_reader *r, const line *l, weft_value *v)
{
    weft_graph *g = r->g;
    unsigned flags = l->spec.op->flags;
    v->init = l->init;
    v->kind = l->kind;
    if (flags & WEFT_OP_INPUT) {
        if (!weft_map_set(&g->inputs, &g->pool, v->name, strlen(v->name), v))
            return weft_fail_memory(r->err);
        return weft_graph_push(g, (void ***)&g->inputs_list, &g->n_inputs, &g->inputs_capacity, v)
                   ? WEFT_OK
                   : WEFT_ERR_MEMORY;
    }
    bool parameter = flags & WEFT_OP_PARAMETER;
    if (!parameter && !(flags & WEFT_OP_STATE))
        return WEFT_OK;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_cuts(v->layout, a) && weft_layout_fine(v->layout, a))
            v->store_axes |= 1u << a;
    if (parameter)
        return weft_graph_push(g, (void ***)&g->parameters, &g->n_parameters,
                               &g->parameters_capacity, v)
                   ? WEFT_OK
                   : WEFT_ERR_MEMORY;
    return weft_graph_push(g, (void ***)&g->states, &g->n_states, &g->states_capacity, v)
               ? WEFT_OK
               : WEFT_ERR_MEMORY;
}

static weft_status add_line(weft_reader *r, line *l)
{
    weft_graph *g = r->g;
    weft_phase phase = g->spot.phase;
    if (l->again && phase != WEFT_BACKWARD)
        return weft_read_bad(r, "only a backward computes again");
    g->spot.phase = l->again ? WEFT_RECOMPUTE : phase;
    l->spec.ins = l->ins;
    l->spec.attrs = l->attrs;
    l->spec.name = l->spec.n_outs ? l->outs[0].name : "none";
    weft_node *n = weft_node_new(g, &l->spec);
    g->spot.phase = phase;
    if (!n)
        return weft_fail_memory(r->err);
    n->why = l->why;
    weft_status s = WEFT_OK;
    for (int i = 0; i < n->n_outs && !s; i++)
        s = set_result(r, n->outs[i], &l->outs[i]);
    if (!s && l->steps)
        s = set_steps(r, n, l->steps);
    if (!s && n->n_ins == 0 && n->n_outs == 1)
        s = set_source(r, l, n->outs[0]);
    return s;
}

weft_status weft_read_node(weft_reader *r)
{
    line *l = weft_alloc_zero(1, sizeof *l);
    if (!l)
        return weft_fail_memory(r->err);
    weft_status s = read_results(r, l);
    s = s ? s : read_op(r, l);
    s = s ? s : read_attrs(r, l);
    s = s ? s : read_right(r, l);
    s = s ? s : add_line(r, l);
    weft_free(l);
    return s;
}
