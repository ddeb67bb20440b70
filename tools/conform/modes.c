/* SPDX-License-Identifier: Apache-2.0 */
/* What is validated is what is trained: with the same weights and tokens the logits are the same in
 * both modes, unless training draws by the step, as dropout does. */
#include "conform.h"

#include <string.h>

enum { MOST_PARTS = 64 };

/* The logits of one mode. */
typedef struct logits {
    weft_graph *g;
    const weft_value *of[MOST_PARTS];
    conform_values values;
    int n;
} logits;

static bool is_counter(const weft_node *n)
{
    return weft_node_is(n, WEFT_OP_INPUT) &&
           (strcmp(n->outs[0]->name, "step") == 0 || strcmp(n->outs[0]->name, "micro_batch") == 0);
}

/* Is any of the logits made from the number of the step or of the micro-batch? Nodes stand in an
 * order that can run, so those that v is made from are before it. */
static bool draws(const logits *l)
{
    bool any = false;
    for (weft_node *n = weft_graph_last(l->g); n; n = n->prev)
        n->mark = 0;
    for (int i = 0; i < l->n; i++)
        l->of[i]->node->mark = 1;
    for (const weft_node *n = weft_graph_last(l->g); n; n = n->prev) {
        for (int i = 0; n->mark && i < n->n_ins; i++)
            n->ins[i]->node->mark = 1;
        any = any || (n->mark && is_counter(n));
    }
    return any;
}

static bool init(const conform *c, logits *l, const weft_plan *plan, weft_mode mode,
                 weft_pool *pool)
{
    const weft_value *v;
    weft_error err = {0};
    *l = (logits){.g = plan->graphs[mode]};
    while (l->g && l->n < MOST_PARTS && (v = weft_graph_logits(l->g, l->n)))
        l->of[l->n++] = v;
    bool known = l->n > 0 && conform_evaluate(c, l->g, &l->values, pool, &err) == WEFT_OK;
    weft_error_release(&err);
    for (int i = 0; known && i < l->n; i++)
        known = l->values.of[l->of[i]->id].data;
    return known;
}

/* The same part of the head: that of the same name, or the one that there is (alone), for names
 * that are made up differ from mode to mode. NULL: not known. */
static const weft_value *find(const logits *l, const weft_value *like, bool alone)
{
    const weft_value *found = NULL;
    for (int i = 0; i < l->n; i++) {
        bool same = strcmp(l->of[i]->name, like->name) == 0;
        if (l->of[i]->node->chunk != like->node->chunk)
            continue;
        if (same && !alone)
            return l->of[i];
        if (found && alone)
            return NULL;
        found = alone ? l->of[i] : found;
    }
    return found;
}

static const weft_tensor *match(const logits *train, const logits *evaluate, const weft_value *v)
{
    const weft_value *to = find(evaluate, v, false);
    if (!to && find(train, v, true))
        to = find(evaluate, v, true);
    return to ? &evaluate->values.of[to->id] : NULL;
}

static int compare(const conform *c, const logits *train, const logits *evaluate)
{
    int compared = 0;
    for (int i = 0; i < train->n; i++) {
        const weft_tensor *want = &train->values.of[train->of[i]->id],
                          *got = match(train, evaluate, train->of[i]);
        if (!got || weft_tensor_count(want) != weft_tensor_count(got))
            continue; /* chunks of other sizes */
        compared++;
        int64_t at = conform_differ(want, got, 1e-9);
        if (at < 0)
            continue;
        weft_text what = {0};
        conform_print_difference(want, got, 0, at, &what);
        conform_fail(c,
                     "validation: logits: with the same weights and tokens they are not those of "
                     "training: of %s, %s; a graph pass does the same in the modes train and "
                     "evaluate",
                     train->of[i]->name, weft_text_get(&what));
        weft_text_release(&what);
        break;
    }
    return compared;
}

void conform_check_modes(const conform *c, const weft_plan *plan)
{
    weft_pool pool = {0};
    logits train, evaluate;
    conform_now(c, "validation: logits");
    if (init(c, &train, plan, WEFT_MODE_TRAIN, &pool) &&
        init(c, &evaluate, plan, WEFT_MODE_EVALUATE, &pool) && !draws(&train))
        conform_count(c, "logits of both modes", compare(c, &train, &evaluate));
    weft_pool_release(&pool);
}
