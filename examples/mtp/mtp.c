/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-token prediction (Gloeckle et al., "Better & faster large language models via multi-token
 * prediction", 2024): beside the model's head stand others, each with a feed-forward of its own on
 * the last hidden state, that learn what comes further on. It shows how a pass adds heads. */
#include <weft/weft.h>

#include <stdio.h>
#include <string.h>

typedef struct mtp {
    const weft_host *host;
    int64_t heads;
    double weight;
    bool validation;
} mtp;

static const weft_param params[] = {
    {.name = "heads",
     WEFT_INT(mtp, heads),
     .value = "1",
     .min = 1,
     .max = 16,
     .help = "How many heads; head k predicts the token k places behind the next."},
    {.name = "weight",
     WEFT_REAL(mtp, weight),
     .value = "0.3",
     .min = 1e-6,
     .max = 1e6,
     .help = "Weight of their losses together; that of the model's head is 1."},
    {.name = "validation",
     WEFT_BOOL(mtp, validation),
     .value = "no",
     .help = "Validation's loss has theirs in it."},
    {.name = NULL},
};

/* What the model's last block leaves, before the norm that its head reads. */
static weft_value *last_residual(const weft_graph *g)
{
    for (weft_node *n = weft_graph_last(g); n; n = n->prev)
        for (int i = 0; i < n->n_outs; i++)
            if (n->outs[i]->role && strcmp(n->outs[i]->role, "residual") == 0)
                return n->outs[i];
    return NULL;
}

static weft_value *norm(weft_graph *g, const char *what, weft_value *x)
{
    weft_value *w = weft_add_parameter(g, what, "embed", (weft_init){WEFT_INIT_ONE, 0, 0});
    weft_value *y = weft_add2(g, "rms_norm", NULL, x, w);
    weft_set_real(g, y, "eps", 1e-5);
    return y;
}

/* x + down(silu(gate(x')) * up(x')), x' = norm(x), normed again for the head. The dims are the
 * model's, so that whatever cuts its feed-forward and its head cuts these. */
static void add_head(weft_graph *g, int k, weft_value *x, const mtp *m)
{
    const weft_init normal = {WEFT_INIT_NORMAL, 0.02, 0};
    weft_graph_set_parameter_prefix(g, "mtp.%d.", k);
    weft_value *n = norm(g, "norm.weight", x);
    weft_value *gate =
        weft_linear(g, NULL, n, weft_add_parameter(g, "gate_proj.weight", "ffn embed", normal));
    weft_value *up =
        weft_linear(g, NULL, n, weft_add_parameter(g, "up_proj.weight", "ffn embed", normal));
    weft_value *a = weft_add2(g, "silu_mul", NULL, gate, up);
    weft_value *d =
        weft_linear(g, NULL, a, weft_add_parameter(g, "down_proj.weight", "embed ffn", normal));
    weft_value *y = weft_add2(g, "add", NULL, x, d);
    weft_set_role(g, y, "residual");
    weft_value *hidden = norm(g, "head_norm.weight", y);

    char name[16];
    snprintf(name, sizeof name, "mtp%d", k);
    weft_head head = {.name = name, .shift = k};
    head.weight = m->weight / (double)m->heads;
    head.flags = m->validation ? WEFT_LOSS_VALIDATION : 0;
    weft_add_head_with(g, hidden, weft_add_parameter(g, "head.weight", "vocab embed", normal),
                       &head);
}

/* The same in every mode: where nobody reads what the heads would, nothing of it is computed. */
static void add_heads(void *self, weft_graph *g)
{
    weft_value *x = last_residual(g);
    if (!x) {
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "mtp: the model gives nothing the role 'residual'; take mtp off the list");
        return;
    }
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    for (int k = 1; k <= ((const mtp *)self)->heads; k++)
        add_head(g, k, x, self);
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = add_heads, .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(mtp) = {
    WEFT_PLUGIN_HEAD,
    .name = "mtp",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "heads that predict more tokens than the next",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(mtp),
    .contributions = contributions,
};
