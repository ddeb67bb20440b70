/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous tensor parallelism by pieces: the tokens of a micro-batch are cut into pieces that
 * are computed apart. Each has collectives of its own, and while one piece is sent, another
 * computes. Nothing is sent more, and no sum over the tokens of one row is another. */
#include "overlap.h"

#include <inttypes.h>
#include <string.h>

static const char *const automatic[] = {"auto", NULL}, *const directions[] = {"auto", "batch",
                                                                              "seq", NULL};

static const weft_param params[] = {
    {.name = "pieces",
     WEFT_INT(overlap, pieces),
     .tune = "1 2 4",
     .value = "auto",
     .min = 1,
     .max = OVERLAP_MOST,
     .choices = automatic,
     .unit = "pieces",
     .help =
         "Pieces that a micro-batch is cut into; auto: of 1, 2 and 4 what takes least time by the "
         "plan; 1 on devices that do not say how fast they are."},
    {.name = "along",
     WEFT_CHOICE(overlap, along),
     .value = "auto",
     .choices = directions,
     .help = "batch: every n-th sample; seq: every n-th place of the sequence, which attention "
             "puts together again; auto: batch, where a rank has enough samples."},
    {.name = "least",
     WEFT_REAL(overlap, least),
     .value = "5",
     .min = 0,
     .max = 100,
     .unit = "%",
     .when = "pieces=auto",
     .help = "Share of the time that must be spent on sending over `axes` for more than one piece "
             "to be tried."},
    {.name = "axes",
     .type = WEFT_PARAM_STRING,
     .value = "tp cp ep",
     .flags = WEFT_PARAM_LIST,
     .help = "Mesh axes; what pieces send over these is sent while others compute."},
    {.name = "flops_per_byte",
     WEFT_REAL(overlap, flops_per_byte),
     .value = "1000",
     .min = 1e-3,
     .max = 1e9,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "Operations that a rank computes while it sends one byte, for the order of pieces."},
    {.name = NULL},
};

static const char *name_of(int along)
{
    return along == ALONG_SEQ ? "seq" : "batch";
}

/* Do n pieces of every rank's shard have as many places? An axis cuts what the one before left. */
static bool divides(const weft_graph *g, const char *dim, int64_t size, int64_t n)
{
    const weft_mesh *mesh = weft_graph_mesh(g);
    bool fits = size % n == 0;
    for (int a = mesh->n_axes - 1; a >= 0; a--) {
        const weft_axis *axis = &mesh->axis[a];
        const bool cuts = (axis->cuts && strcmp(axis->cuts, dim) == 0) ||
                          (strcmp(dim, "seq") == 0 && strcmp(axis->name, "tp") == 0);
        if (!cuts)
            continue;
        size = (size + axis->size - 1) / axis->size;
        fits = fits && size % n == 0;
    }
    return fits;
}

static int64_t size_of(const weft_graph *g, int along)
{
    return along == ALONG_SEQ ? weft_graph_seq_len(g) : weft_graph_micro_batch(g);
}

static bool fits(const weft_graph *g, int along, int64_t n)
{
    return divides(g, name_of(along), size_of(g, along), n);
}

/* The number of pieces next to n that divides every shard. */
static int64_t nearest(const weft_graph *g, int along, int64_t n)
{
    for (int64_t by = 1; by < OVERLAP_MOST; by++) {
        if (n - by >= 1 && fits(g, along, n - by))
            return n - by;
        if (n + by <= OVERLAP_MOST && fits(g, along, n + by))
            return n + by;
    }
    return 1;
}

static void refuse(const overlap *o, weft_graph *g, int along)
{
    weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_where(o->host->params, "pieces"),
                    "[overlap] pieces = %" PRId64 " do not divide what every rank has of %s "
                    "(%" PRId64 " in all, along = %s); the nearest that do: %" PRId64,
                    (int64_t)overlap_pieces(o),
                    along == ALONG_SEQ ? "the sequence" : "the samples of a micro-batch",
                    size_of(g, along), name_of(along), nearest(g, along, overlap_pieces(o)));
}

static int along_of(const overlap *o, const weft_graph *g, int64_t n)
{
    if (o->along != ALONG_AUTO)
        return o->along;
    return fits(g, ALONG_BATCH, n) ? ALONG_BATCH : ALONG_SEQ;
}

bool overlap_fits(const overlap *o, const weft_graph *g, int64_t n)
{
    return fits(g, along_of(o, g, n), n);
}

/* An axis is one that a listed plugin has, or one of the default. */
static void check_axes(const overlap *o, weft_graph *g)
{
    static const char *const usual[] = {"tp", "cp", "ep"};
    const weft_params *p = o->host->params;
    const char *word;
    for (int i = 0; (word = weft_params_word(p, "axes", i)); i++) {
        bool known = false;
        for (int k = 0; k < 3; k++)
            known = known || strcmp(word, usual[k]) == 0;
        const char *axis;
        for (int k = 0; !known && (axis = weft_graph_axis(g, k)); k++)
            known = strcmp(word, axis) == 0;
        if (!known && weft_mesh_find(weft_graph_mesh(g), word) < 0)
            weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_word_where(p, "axes", i),
                            "[overlap] axes: no listed plugin has an axis '%s'; tp, cp and ep are "
                            "what pieces are sent over",
                            word);
    }
}

/* What float8 has put in already takes one maximum of all pieces; what it puts in later, of each.
 */
static void look_for_maxima(const overlap *o, const weft_graph *g)
{
    const weft_node *n = weft_graph_first(g);
    while (n && (n->block < 0 || !(n->op->flags & WEFT_OP_MAX) || n->outs[0]->n_dims > 0 ||
                 n->outs[0]->weight))
        n = n->next;
    if (n)
        weft_warn(o->host, weft_params_where(o->host->params, "pieces"),
                  "overlap is listed behind %s, which takes the maximum of all tokens of a "
                  "micro-batch (%s): pieces wait for each other there; list overlap before it",
                  n->by, n->outs[0]->name);
}

static void cut(void *self, weft_graph *g)
{
    overlap *o = self;
    const int pieces = overlap_pieces(o);
    check_axes(o, g);
    if (pieces <= 1 || weft_graph_status(g))
        return;
    const int along = along_of(o, g, pieces);
    if (!fits(g, along, pieces)) {
        refuse(o, g, along);
        return;
    }
    look_for_maxima(o, g);
    const int n = overlap_cut(g, pieces, name_of(along));
    weft_graph_note(g, "%d nodes of blocks in %d pieces each, along %s", n, pieces, name_of(along));
}

static weft_axes axes_of(const overlap *o, const weft_mesh *mesh)
{
    weft_axes set = 0;
    for (int a = 0; a < mesh->n_axes; a++)
        if (weft_params_has(o->host->params, "axes", mesh->axis[a].name))
            set |= (weft_axes)(1u << a);
    return set;
}

bool overlap_is_over(const overlap *o, const weft_mesh *mesh, const weft_node *n)
{
    const weft_axes set = axes_of(o, mesh);
    for (int i = 0; i < n->n_steps; i++)
        for (int k = 0; k < n->steps[i].n_axes; k++)
            if (set >> n->steps[i].axes[k] & 1u)
                return true;
    return false;
}

static void order(void *self, weft_graph *g)
{
    const overlap *o = self;
    if (overlap_pieces(o) > 1)
        overlap_order(g, o->flops_per_byte, axes_of(o, weft_graph_mesh(g)));
}

static weft_status review(void *self, weft_plan *plan, weft_error *err)
{
    return overlap_review(self, plan, err);
}

static const char *const needs[] = {"model", NULL};
static const char *const gives[] = {"pieces_ordered", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .modes = WEFT_IN_TRAIN | WEFT_IN_EVALUATE,
     .graph = cut,
     .needs = needs},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_ORDERED,
     .modes = WEFT_IN_TRAIN | WEFT_IN_EVALUATE,
     .graph = order,
     .gives = gives,
     .after = "parts?"},
    {.kind = WEFT_REVIEW, .stage = WEFT_STAGE_GRAPH, .review = review},
    {.kind = WEFT_END}};

WEFT_PLUGIN(overlap) = {
    WEFT_PLUGIN_HEAD,
    .name = "overlap",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "micro-batches in pieces: one is sent while another computes",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .self_size = WEFT_SELF(overlap),
    .contributions = contributions,
};
