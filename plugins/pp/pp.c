/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines: blocks are cut into stages, stages are spread over axis pp, and a schedule says who
 * runs which micro-batch when. What is sent, and what is summed over stages, follows from
 * placement.
 */
#include "pp.h"

#include <string.h>

static const char *const automatic[] = {"auto", NULL};
static const char *const placements[] = {"auto", "loop", "v", NULL};
static const char *const deferred[] = {"kept", "all", NULL};

static const weft_param params[] = {
    {.name = "degree",
     WEFT_INT(pp, degree),
     .tune = "ranks",
     .min = 1,
     .max = 64,
     .unit = "ranks",
     .flags = WEFT_PARAM_REQUIRED,
     .help = "Size of axis pp: ranks that share the blocks of the model, one behind the other."},
    {.name = "schedule",
     .type = WEFT_PARAM_STRING,
     .tune = "1f1b interleaved zb_h1",
     .value = "1f1b",
     .flags = WEFT_PARAM_FILE,
     .help = "Who runs what, and when: gpipe, 1f1b, interleaved, bfs, zb_h1, zb_h2, "
             "interleaved_zb, zbv, dualpipev, one of PyTorch's classes for these, a file of "
             "lists such as `weft plan --schedule` or PyTorch writes; auto: the one whose step is "
             "predicted to be the shortest, of all these and of others."},
    {.name = "alive",
     .type = WEFT_PARAM_STRING,
     .value = "auto",
     .when = "schedule=auto",
     .help = "How many micro-batches a rank may hold at once, between their forward and the last "
             "that is read of them, or how many bytes of them, as 20 GiB; auto: one more than 1f1b "
             "has, which are `degree`."},
    {.name = "times",
     .type = WEFT_PARAM_STRING,
     .value = "",
     .flags = WEFT_PARAM_FILE,
     .when = "schedule=auto",
     .help = "The metrics.jsonl of a run with [metrics] parts, whose times count; if not given, "
             "times are predicted."},
    {.name = "placement",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = placements,
     .help =
         "loop: stage s is of rank s mod degree; v: up the ranks and down again, in turn; auto: "
         "as the schedule is made for, or as its file says."},
    {.name = "defer",
     .type = WEFT_PARAM_CHOICE,
     .value = "kept",
     .choices = deferred,
     .help =
         "Which gradients of weights may wait, where the schedule has them apart: those of what "
         "was kept from the forward, or all; what ac computes again is held for these."},
    {.name = "virtual_stages",
     .type = WEFT_PARAM_INT,
     .tune = "auto 2 4",
     .value = "auto",
     .min = 1,
     .max = 1024,
     .unit = "stages a rank",
     .choices = automatic,
     .help = "How many stages a rank has; auto: 2 for zbv and dualpipev, as many as a file of "
             "PyTorch's has, the better of 1 and 2 for schedule = auto, else 1."},
    {.name = "split",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .value = "auto",
     .help = "The first block of every stage but the first: numbers from 0 on, and 'head'; auto: "
             "so that the stage with the most operations has as few as can be."},
    {.name = "layers_per_stage",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = 1,
     .max = 1 << 20,
     .unit = "blocks",
     .choices = automatic,
     .refuses = "pp.split",
     .help = "Blocks of every stage; the last one has the rest; auto: as split says."},
    {.name = NULL},
};

static weft_status check_schedule(const pp *self, weft_error *err)
{
    const weft_params *p = self->params;
    const int turns = self->schedule ? pp_schedule_turns(self->schedule) : 0;
    const int64_t given = weft_params_int(p, "virtual_stages");
    weft_status s = WEFT_OK;
    if (self->schedule && pp_schedule_is_v(self->schedule) &&
        weft_params_is(p, "placement", "loop"))
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "placement"),
                      "[pp] placement = loop: schedule %s is made for a V; take placement out, or "
                      "choose interleaved_zb",
                      weft_params_text(p, "schedule"));
    if (turns && given && given != turns)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "virtual_stages"),
                      "[pp] virtual_stages = %lld: schedule %s has %d stage%s a rank; choose "
                      "virtual_stages = %d, or %s",
                      (long long)given, weft_params_text(p, "schedule"), turns,
                      turns == 1 ? "" : "s", turns, "interleaved_zb, which has any number");
    return s;
}

static weft_status create(void *self, weft_error *err)
{
    pp *p = self;
    p->params = p->host->params;
    /* of one rank nothing is to be chosen */
    const char *name = p->degree == 1 && weft_params_is(p->params, "schedule", "auto")
                           ? "1f1b"
                           : weft_params_text(p->params, "schedule");
    p->schedule = pp_find_schedule(name);
    const weft_status schedule = check_schedule(p, err), room = pp_alive_read(p, err),
                      s = schedule ? schedule : room;
    return s || strcmp(name, "auto") != 0 ? s : pp_auto_create(p, err);
}

static void destroy(void *self)
{
    pp_forget_split(self);
    pp_lists_release(&((pp *)self)->lists);
    pp_auto_destroy(self);
}

/* Values of no block, as the angles of positions, every stage has of its own, and nothing of them
 * is sent. What is made from inputs alone is made again where the backward reads it, too: the
 * inputs are there, and a stage keeps it for no micro-batch. */
static void make_again(weft_graph *g)
{
    for (weft_node *n = weft_graph_first(g); n; n = n->next) {
        bool again = n->block == WEFT_BLOCK_NONE && n->n_ins > 0 && n->n_outs > 0;
        for (int i = 0; i < n->n_ins && again; i++)
            again = n->ins[i]->recompute || weft_node_is(n->ins[i]->node, WEFT_OP_INPUT);
        for (int r = 0; r < n->n_outs && again; r++)
            weft_set_recompute(g, n->outs[r], true);
    }
}

/* Reviews have asked for nothing in the first plan, whatever there was before. */
static void set_stages(void *self, weft_graph *g)
{
    pp *p = self;
    weft_status s = WEFT_OK;
    if (p->automatic && weft_graph_mode(g) == WEFT_MODE_TRAIN &&
        !weft_asked(p->host, "pp schedule"))
        s = pp_auto_begin(p, weft_graph_error(g));
    if (!s)
        s = pp_split(self, g, weft_graph_error(g));
    if (!s && p->degree > 1)
        make_again(g);
}

/* Has the schedule the weights of this stage apart? */
static bool splits(const pp *p, int stage)
{
    if (p->schedule)
        return pp_schedule_splits(p->schedule);
    if (p->trying)
        return true;
    return p->lists.name && stage < p->lists.stages && p->lists.split[stage];
}

/* What the schedule has apart is put apart. */
static void split_backward(void *self, weft_graph *g)
{
    const pp *p = self;
    const bool all = weft_params_is(p->params, "defer", "all");
    bool any = false, *split = weft_alloc_zero((size_t)p->n_stages + 1, sizeof *split);
    for (int s = 0; split && s < p->n_stages; s++)
        any |= split[s] = splits(p, s);
    if (all && split && !any)
        weft_warn(p->host, weft_params_where(p->params, "defer"),
                  "[pp] defer = all does nothing: schedule %s has no gradients of weights apart; "
                  "zb_h1, zb_h2, interleaved_zb, zbv and dualpipev have",
                  p->lists.name ? p->lists.name : weft_params_text(p->params, "schedule"));
    if (split)
        weft_split_backward(g, split, all);
    else
        weft_fail_memory(weft_graph_error(g));
    weft_free(split);
    pp_auto_note(p, g);
}

static const weft_schedule schedule = {sizeof schedule, pp_generate};

static const char *const needs[] = {"model", NULL}, *const gives[] = {"parts", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_AXIS, .axis = "pp", .degree = "degree"},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = set_stages, .needs = needs},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_ORDERED,
     .modes = WEFT_IN_TRAIN,
     .graph = split_backward,
     .gives = gives},
    {.kind = WEFT_SERVICE, .service = "schedule", .table = &schedule},
    {.kind = WEFT_REVIEW, .stage = WEFT_STAGE_GRAPH, .review = pp_auto_review},
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_STEP_END,
     .wants = pp_auto_wants,
     .observe = pp_auto_observe},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(pp) = {
    WEFT_PLUGIN_HEAD,
    .name = "pp",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "pipeline parallelism",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(pp),
    .create = create,
    .destroy = destroy,
};
