/* SPDX-License-Identifier: Apache-2.0 */
/* Expert parallelism is a table: experts of parameters are cut over axis ep and over whole axes of
 * other plugins, tokens over ep. That rows travel to their experts and back follows from it. */
#include <weft/weft.h>

#include <stdlib.h>
#include <string.h>

typedef struct ep {
    const weft_host *host;
    int64_t degree;
    double room; /* below 0: worst */
    bool tensor;
} ep;

static const char *const worst[] = {"worst", NULL};
static const weft_param params[] = {
    {.name = "degree",
     WEFT_INT(ep, degree),
     .tune = "ranks",
     .value = "1",
     .min = 1,
     .max = 1 << 16,
     .unit = "ranks",
     .help = "Size of axis ep: ranks with tokens of their own that share experts; 1: only the axes "
             "of `over` do."},
    {.name = "over",
     .type = WEFT_PARAM_STRING,
     .value = "",
     .flags = WEFT_PARAM_LIST,
     .help = "Axes of other plugins that share experts, too: tp, cp."},
    {.name = "tensor",
     WEFT_BOOL(ep, tensor),
     .value = "no",
     .help = "Cut every expert over tp as feed-forwards are, instead of sharing its tokens."},
    {.name = "room",
     WEFT_REAL(ep, room),
     .value = "worst",
     .min = 1,
     .max = 1 << 16,
     .choices = worst,
     .help = "Slots that a group of experts has for the tokens of a rank, times what it needs if "
             "all are used evenly; worst: as many as can ever be needed. A step with a token that "
             "finds none is not learnt from ([train] nonfinite)."},
    {.name = NULL},
};

static weft_where where(const ep *e, const char *key)
{
    return weft_params_where(e->host->params, key);
}

/* Experts of a block; 0: there are none. */
static int64_t find_experts(const weft_graph *g)
{
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        if (weft_node_in(n, "assign"))
            return weft_node_int(n, "experts");
    return 0;
}

static bool is_declared(const weft_graph *g, const char *axis)
{
    const char *other;
    if (weft_mesh_find(weft_graph_mesh(g), axis) >= 0)
        return true;
    for (int i = 0; (other = weft_graph_axis(g, i)); i++)
        if (strcmp(other, axis) == 0)
            return true;
    return false;
}

static void print_axes(const weft_graph *g, weft_text *text)
{
    const weft_mesh *mesh = weft_graph_mesh(g);
    for (int a = 0; a < mesh->n_axes; a++)
        weft_text_print(text, "%s%s", a ? ", " : "", mesh->axis[a].name);
}

static bool check_over(const ep *e, weft_graph *g)
{
    const char *axis;
    for (int i = 0; (axis = weft_params_word(e->host->params, "over", i)); i++) {
        weft_text known = {0};
        print_axes(g, &known);
        if (strcmp(axis, "ep") == 0)
            weft_graph_fail(g, WEFT_ERR_INPUT, where(e, "over"),
                            "[ep] over: ep itself cuts experts anyway; here stand other axes");
        else if (!is_declared(g, axis))
            weft_graph_fail(g, WEFT_ERR_INPUT, where(e, "over"),
                            "[ep] over: no plugin declares an axis '%s'; this mesh has %s", axis,
                            weft_text_get(&known));
        weft_text_release(&known);
    }
    return weft_graph_status(g) == WEFT_OK;
}

static int64_t size_of(const weft_graph *g, const char *axis)
{
    const int a = weft_mesh_find(weft_graph_mesh(g), axis);
    return a < 0 ? 1 : weft_graph_mesh(g)->axis[a].size;
}

/* On how many groups of ranks experts lie. */
static int64_t count_owners(const ep *e, const weft_graph *g)
{
    int64_t n = size_of(g, "ep");
    const char *axis;
    for (int i = 0; (axis = weft_params_word(e->host->params, "over", i)); i++)
        n *= size_of(g, axis);
    return n;
}

static int64_t nearest(int64_t experts, int64_t owners)
{
    int64_t best = 1;
    for (int64_t d = 1; d <= experts; d++)
        if (experts % d == 0 && llabs(d - owners) < llabs(best - owners))
            best = d;
    return best;
}

/* Tokens must leave the batch from the end of its list of axes. */
static void check_order(weft_graph *g)
{
    const weft_mesh *mesh = weft_graph_mesh(g);
    const int own = weft_mesh_find(mesh, "ep");
    for (int a = 0; a < own; a++)
        if (mesh->axis[a].cuts && strcmp(mesh->axis[a].cuts, "batch") == 0)
            weft_graph_fail(g, WEFT_ERR_INPUT, mesh->axis[own].at,
                            "[ep]: axis %s of %s lies inside ep and cuts samples, too, so that "
                            "tokens could not be exchanged over ep alone; list ep before %s",
                            mesh->axis[a].name, mesh->axis[a].by, mesh->axis[a].by);
}

static bool check(const ep *e, weft_graph *g, int64_t experts)
{
    const int64_t owners = count_owners(e, g);
    if (experts == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, where(e, "degree"),
                        "[ep]: the model has no experts; list a model with experts, or leave ep "
                        "out");
    else if (experts % owners)
        weft_graph_fail(g, WEFT_ERR_INPUT, where(e, "degree"),
                        "[ep]: %lld experts over %lld ranks (degree and `over`): as many must be "
                        "on each; the nearest that works is %lld",
                        (long long)experts, (long long)owners, (long long)nearest(experts, owners));
    else if (e->room > (double)owners)
        weft_graph_fail(g, WEFT_ERR_INPUT, where(e, "room"),
                        "[ep] room: %g times an even load is more than there can be with %lld "
                        "groups of experts; at most %lld, or worst",
                        e->room, (long long)owners, (long long)owners);
    else if (e->tensor)
        for (int i = 0; weft_params_word(e->host->params, "over", i); i++)
            if (strcmp(weft_params_word(e->host->params, "over", i), "tp") == 0)
                weft_graph_fail(g, WEFT_ERR_INPUT, where(e, "tensor"),
                                "[ep] tensor: tp cuts each expert, or shares experts (over), not "
                                "both; take tp out of `over`, or set tensor = no");
    check_order(g);
    return weft_graph_status(g) == WEFT_OK;
}

static void set_room(const ep *e, weft_graph *g)
{
    for (weft_node *n = weft_graph_first(g); n && e->room > 0; n = n->next)
        if (weft_node_in(n, "assign"))
            weft_set_real(g, n->outs[0], "room", e->room);
}

static void graph(void *self, weft_graph *g)
{
    const ep *e = self;
    const char *axis;
    if (!check_over(e, g) || !check(e, g, find_experts(g)))
        return;
    set_room(e, g);
    weft_add_rule(g, WEFT_RULE_PARAM, NULL, "experts", "ep");
    for (int i = 0; (axis = weft_params_word(e->host->params, "over", i)); i++)
        weft_add_rule(g, WEFT_RULE_PARAM, NULL, "experts", axis);
    if (e->tensor)
        weft_add_rule(g, WEFT_RULE_PARAM, NULL, "expert_ffn", "tp");
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "batch", "ep");
    weft_add_storage(g, "ep");
}

/* An axis that cuts nothing but experts holds stages: its ranks have no experts in common. */
static void check_axes(void *self, weft_graph *g)
{
    const ep *e = self;
    const char *axis;
    if (weft_graph_mode(g) != WEFT_MODE_TRAIN) /* a text that is written may have nothing to cut */
        return;
    for (int i = 0; (axis = weft_params_word(e->host->params, "over", i)); i++) {
        weft_table_rule r;
        bool cuts = weft_mesh_find(weft_graph_mesh(g), axis) < 0;
        for (int k = 0; weft_graph_rule(g, k, &r); k++)
            cuts = cuts || (strcmp(r.axis, axis) == 0 && r.dim && strcmp(r.dim, "experts") != 0);
        if (!cuts)
            weft_graph_fail(g, WEFT_ERR_INPUT, where(e, "over"),
                            "[ep] over: axis %s cuts no values but holds stages, whose ranks have "
                            "no experts in common; axes of tokens do, as tp and cp",
                            axis);
    }
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_AXIS, .axis = "ep", .degree = "degree", .cuts = "batch"},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = graph, .needs = needs},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_TABLE, .graph = check_axes},
    {.kind = WEFT_END}};

WEFT_PLUGIN(ep) = {
    WEFT_PLUGIN_HEAD,
    .name = "ep",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "expert parallelism: tokens travel to the ranks that have their experts",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(ep),
};
