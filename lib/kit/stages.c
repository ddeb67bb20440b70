/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: which block is in which stage of a pipeline, and which rank has which stage. */
#include "compile/graph/graph.h"

#include <string.h>

/* Room for n numbers; nothing: what the others are. */
static weft_status reserve(weft_graph *g, int **list, int *capacity, int n, int nothing)
{
    if (n <= *capacity)
        return WEFT_OK;
    int more = 2 * n + 8;
    int *fresh = weft_pool_alloc(&g->pool, (size_t)more * sizeof *fresh);
    if (!fresh)
        return weft_fail_memory(&g->error);
    for (int k = 0; k < more; k++)
        fresh[k] = k < *capacity ? (*list)[k] : nothing;
    *list = fresh;
    *capacity = more;
    return WEFT_OK;
}

static weft_status check(weft_graph *g, const char *axis, int block, int stage)
{
    int a = weft_mesh_find(&g->config.mesh, axis);
    if (stage < 0 || block < WEFT_FIRST_BLOCK || block == WEFT_BLOCK_NONE)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "block %d cannot be in stage %d of a pipeline", block, stage);
    else if (g->placed)
        weft_graph_fail(
            g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
            "stages of a pipeline are set in a graph pass: the graph is placed already");
    else if (g->stages_by && strcmp(g->stages_axis, axis) != 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "%s sets stages over axis %s, and %s over axis %s; list one of them",
                        g->stages_by, g->stages_axis, g->by, axis);
    else if (a >= 0 && g->config.mesh.axis[a].size > WEFT_MAX_AT)
        weft_graph_fail(g, WEFT_ERR_INPUT, g->config.mesh.axis[a].at,
                        "axis %s has %d ranks; a pipeline has at most %d", axis,
                        g->config.mesh.axis[a].size, WEFT_MAX_AT);
    return weft_graph_status(g);
}

void weft_set_stage(weft_graph *g, const char *axis, int block, int stage)
{
    if (weft_graph_status(g) || check(g, axis, block, stage) ||
        reserve(g, &g->stages, &g->stages_capacity, block - WEFT_FIRST_BLOCK + 1, 0))
        return;
    if (!g->stages_by && !(g->stages_axis = weft_pool_strdup(&g->pool, axis))) {
        weft_fail_memory(&g->error);
        return;
    }
    g->stages_by = g->by;
    g->stages[block - WEFT_FIRST_BLOCK] = stage;
}

void weft_set_stage_rank(weft_graph *g, int stage, int coordinate)
{
    int a = weft_graph_stage_axis(g);
    if (weft_graph_status(g))
        return;
    if (g->placed || stage < 0 || stage >= weft_graph_stages(g) || coordinate < 0 ||
        coordinate >= (a < 0 ? 1 : g->config.mesh.axis[a].size))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "stage %d of %d cannot be of rank %d of the pipeline; ranks of stages are "
                        "set in a graph pass, behind the stages",
                        stage, weft_graph_stages(g), coordinate);
    else if (!reserve(g, &g->stage_ranks, &g->stage_ranks_capacity, stage + 1, -1))
        g->stage_ranks[stage] = coordinate;
}
