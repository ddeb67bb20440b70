/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what weft_graph_print wrote whole. */
#include "graph_text.h"
#include "kit/loss.h"
#include "reader.h"

#include <string.h>

typedef enum part { IN_HEAD, IN_NODES, IN_TABLE, IN_ROOTS } part;

/* The graph's own errors become this line's. */
static weft_status checked(const weft_reader *r)
{
    weft_status s = weft_graph_status(r->g);
    if (s == WEFT_ERR_MEMORY)
        return weft_fail_memory(r->err);
    return s ? weft_read_bad(r, "%s", weft_error_text(&r->g->error)) : WEFT_OK;
}

static weft_status read_head(weft_reader *r)
{
    weft_graph *g = r->g;
    const char *mode = weft_mode_name(g->config.mode);
    if (!weft_read_accept(r, "graph ") || !weft_read_accept(r, mode))
        return weft_read_bad(r, "the text must begin with 'graph %s'", mode);
    g->placed = weft_read_accept(r, "placed");
    const weft_mesh *mesh = &g->config.mesh;
    weft_status s = mesh->n_axes ? weft_read_expect(r, "on ") : WEFT_OK;
    for (int i = 0; i < mesh->n_axes && !s; i++) {
        int axis;
        int64_t size;
        s = weft_read_axis(r, &axis);
        s = s ? s : weft_read_int(r, "an axis' size", 2, INT32_MAX, &size);
        if (!s && (axis != i || size != mesh->axis[i].size))
            s = weft_read_bad(r, "the mesh's axis %d is %s %d", i, mesh->axis[i].name,
                              mesh->axis[i].size);
    }
    weft_read_skip(r);
    return s || !*r->p ? s : weft_read_bad(r, "'%.20s' is too much", r->p);
}

/* False: no block begins here. */
static bool read_block(weft_reader *r, int64_t *number, weft_status *s)
{
    *s = WEFT_OK;
    if (weft_read_accept(r, "block "))
        *s = weft_read_int(r, "a block", 0, 1 << 20, number);
    else if (weft_read_accept(r, weft_block_name(WEFT_BLOCK_EMBEDDING)))
        *number = WEFT_BLOCK_EMBEDDING;
    else if (weft_read_accept(r, weft_block_name(WEFT_BLOCK_HEAD)))
        *number = WEFT_BLOCK_HEAD;
    else
        return false;
    return true;
}

static weft_status read_section(weft_reader *r)
{
    weft_graph *g = r->g;
    int64_t number = WEFT_BLOCK_NONE, chunk = -1;
    weft_status s = WEFT_OK;
    if (!read_block(r, &number, &s) && !weft_read_accept(r, "common"))
        return weft_read_bad(r, "'%.20s' is neither a node (two spaces before it) nor a section",
                             r->p);
    if (!s && weft_read_accept(r, ", chunk "))
        s = weft_read_int(r, "a chunk", 0, 1 << 20, &chunk);
    if (s)
        return s;
    g->spot.phase = weft_read_accept(r, ", backward") ? WEFT_BACKWARD
                    : weft_read_accept(r, ", update") ? WEFT_UPDATE
                                                      : WEFT_FORWARD;
    weft_graph_set_block(g, (int)number);
    weft_graph_set_chunk(g, (int)chunk);
    weft_read_skip(r);
    return s || !*r->p ? s : weft_read_bad(r, "'%.20s' is too much", r->p);
}

/* "1 of block 4, pp", behind "stage/pp". The graph may be placed already. */
static weft_status read_stage(weft_reader *r, const char *axis)
{
    int64_t stage, block = 0;
    weft_status s = weft_read_int(r, "a stage", 0, 1 << 16, &stage);
    s = s ? s : weft_read_expect(r, "of ");
    if (!s && !read_block(r, &block, &s))
        return weft_read_bad(r, "a stage is of a block, not of '%.20s'", r->p);
    s = s ? s : weft_read_expect(r, ",");
    s = s ? s : weft_read_word(r, "a plugin", " ", &r->g->by);
    if (s)
        return s;
    bool placed = r->g->placed;
    r->g->placed = false;
    weft_set_stage(r->g, axis, (int)block, (int)stage);
    r->g->placed = placed;
    return checked(r);
}

static weft_status read_rule(weft_reader *r)
{
    static const char *const of[] = {"of parameters", "of inputs", "of role"};
    const char *dim, *pattern = NULL;
    int axis, which = 0;
    weft_status s = weft_read_word(r, "a dim", "/", &dim);
    s = s ? s : weft_read_expect(r, "/");
    s = s ? s : weft_read_axis(r, &axis);
    if (s)
        return s;
    if (strcmp(dim, "stage") == 0)
        return read_stage(r, r->g->config.mesh.axis[axis].name);
    bool storage = strcmp(dim, "storage") == 0, again = strcmp(dim, "regather") == 0;
    while (!storage && !again && which < 3 && !weft_read_accept(r, of[which]))
        which++;
    if (which == 3)
        return weft_read_bad(r, "a rule is of parameters, of inputs or of a role, not '%.20s'",
                             r->p);
    weft_read_skip(r);
    if (*r->p != ',')
        s = weft_read_word(r, "a pattern", ",", &pattern);
    s = s ? s : weft_read_expect(r, ",");
    s = s ? s : weft_read_word(r, "a plugin", " ", &r->g->by);
    if (s)
        return s;
    const char *name = r->g->config.mesh.axis[axis].name;
    if (storage)
        weft_add_storage(r->g, name);
    else if (again)
        weft_add_regather(r->g, name);
    else
        weft_add_rule(r->g, (weft_rule_of)which, pattern, strcmp(dim, "whole") == 0 ? NULL : dim,
                      name);
    return checked(r);
}

static weft_status read_gradient(weft_reader *r)
{
    weft_value *gradient, *of;
    weft_status s = weft_read_value(r, &gradient);
    s = s ? s : weft_read_expect(r, "of ");
    s = s ? s : weft_read_value(r, &of);
    if (!s)
        of->gradient = gradient;
    return s;
}

static weft_status read_root(weft_reader *r)
{
    weft_graph *g = r->g;
    const struct {
        const char *name;
        weft_value **at;
    } roots[] = {{"loss_report ", &g->loss_report},
                 {"loss_sum ", &g->loss_sum},
                 {"loss ", &g->loss},
                 {"tokens ", &g->tokens},
                 {"logits ", &g->logits}};
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
        if (weft_read_accept(r, roots[i].name))
            return weft_read_value(r, roots[i].at);
    if (weft_read_accept(r, "gradient "))
        return read_gradient(r);
    bool term = weft_read_accept(r, "term ");
    if (!term && !weft_read_accept(r, "report "))
        return weft_read_bad(r, "there is no root '%.20s'", r->p);
    const char *name;
    weft_value *v;
    weft_status s = weft_read_word(r, term ? "a term of the loss" : "a report", " ", &name);
    s = s ? s : weft_read_value(r, &v);
    if (s)
        return s;
    if (term)
        weft_loss_push_term(g, name, v);
    else
        weft_graph_report(g, name, v);
    return checked(r);
}

static weft_status read_line(weft_reader *r, part *now)
{
    if (!*r->p || *r->p == '#')
        return WEFT_OK;
    if (*now == IN_HEAD) {
        *now = IN_NODES;
        return read_head(r);
    }
    if (strcmp(r->p, "table") == 0 || strcmp(r->p, "roots") == 0) {
        *now = *r->p == 't' ? IN_TABLE : IN_ROOTS;
        return WEFT_OK;
    }
    if (*r->p != ' ') {
        *now = IN_NODES;
        return read_section(r);
    }
    return *now == IN_NODES ? weft_read_node(r) : *now == IN_TABLE ? read_rule(r) : read_root(r);
}

static weft_status finish_updates(weft_reader *r)
{
    for (const weft_later *u = r->updates; u; u = u->next) {
        r->line = u->line;
        if (!(u->value->update_of = weft_read_find(r, u->state)))
            return weft_read_bad(r, "%s is not made by any line", u->state);
        u->value->update_of->becomes = u->value;
        u->value->update_of->updated_by = u->value->node->by;
    }
    return WEFT_OK;
}

static weft_status read_lines(weft_reader *r, char *text)
{
    weft_status s = WEFT_OK;
    part now = IN_HEAD;
    for (char *next = text; next && !s;) {
        r->p = next;
        r->line++;
        if ((next = strchr(r->p, '\n')))
            *next++ = '\0';
        s = read_line(r, &now);
    }
    if (!s && now == IN_HEAD)
        s = weft_read_bad(r, "the text is empty");
    return s ? s : finish_updates(r);
}

weft_status weft_graph_parse(const char *text, const weft_graph_config *config, weft_graph **out,
                             weft_error *err)
{
    weft_status s = weft_graph_create(config, out, err);
    if (s)
        return s;
    weft_graph *g = *out;
    weft_reader r = {.g = g, .err = err};
    char *copy = weft_pool_strdup(&g->pool, text);
    s = copy ? read_lines(&r, copy) : weft_fail_memory(err);
    if (!s && weft_graph_status(g))
        s = weft_fail_memory(err);
    g->spot.block = WEFT_BLOCK_NONE;
    g->spot.chunk = -1;
    g->by = "core";
    if (!s)
        return WEFT_OK;
    weft_graph_destroy(g);
    *out = NULL;
    return s;
}
