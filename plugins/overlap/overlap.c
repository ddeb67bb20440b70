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
     .value = "2",
     .min = 1,
     .max = OVERLAP_MOST,
     .choices = automatic,
     .unit = "pieces",
     .help = "Pieces that a micro-batch is cut into; auto: what takes least time by the plan."},
    {.name = "along",
     WEFT_CHOICE(overlap, along),
     .value = "auto",
     .choices = directions,
     .help = "batch: every n-th sample; seq: every n-th place of the sequence, which attention "
             "puts together again; auto: batch, where a rank has enough samples."},
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
                    o->pieces, along == ALONG_SEQ ? "the sequence" : "the samples of a micro-batch",
                    size_of(g, along), name_of(along), nearest(g, along, o->pieces));
}

static void cut(void *self, weft_graph *g)
{
    overlap *o = self;
    if (o->pieces <= 1)
        return;
    int along = o->along;
    if (along == ALONG_AUTO)
        along = fits(g, ALONG_BATCH, o->pieces) ? ALONG_BATCH : ALONG_SEQ;
    if (!fits(g, along, o->pieces)) {
        refuse(o, g, along);
        return;
    }
    const int n = overlap_cut(g, (int)o->pieces, name_of(along));
    weft_graph_note(g, "%d nodes of blocks in %" PRId64 " pieces each, along %s", n, o->pieces,
                    name_of(along));
}

static weft_axes axes_of(const overlap *o, const weft_graph *g)
{
    weft_axes set = 0;
    const weft_mesh *mesh = weft_graph_mesh(g);
    for (int a = 0; a < mesh->n_axes; a++)
        if (weft_params_has(o->host->params, "axes", mesh->axis[a].name))
            set |= (weft_axes)(1u << a);
    return set;
}

static void order(void *self, weft_graph *g)
{
    const overlap *o = self;
    if (o->pieces > 1)
        overlap_order(g, o->flops_per_byte, axes_of(o, g));
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {{.kind = WEFT_PASS,
                                                   .stage = WEFT_STAGE_GRAPH,
                                                   .modes = WEFT_IN_TRAIN | WEFT_IN_EVALUATE,
                                                   .graph = cut,
                                                   .needs = needs},
                                                  {.kind = WEFT_PASS,
                                                   .stage = WEFT_STAGE_ORDERED,
                                                   .modes = WEFT_IN_TRAIN | WEFT_IN_EVALUATE,
                                                   .graph = order},
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
