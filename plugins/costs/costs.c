/* SPDX-License-Identifier: Apache-2.0 */
/* costs: how long planned work takes by other numbers than the device's: where kernels are not
 * fused as weft's are, where the host is slower, where less goes on beside what is sent. With the
 * numbers of a framework it predicts what that would take for the same program. */
#include "costs.h"

#include <math.h>
#include <string.h>

static const char *const automatic[] = {"auto", NULL};

#define SECONDS(name_, member, help_)                                                              \
    {                                                                                              \
        .name = name_, WEFT_REAL(costs, member), .value = "auto", .min = 0, .max = 1,              \
        .choices = automatic, .help = help_                                                        \
    }
#define TIMES(name_, member, help_)                                                                \
    {                                                                                              \
        .name = name_, WEFT_REAL(costs, member), .value = "1", .min = 0.01, .max = 1000,           \
        .help = help_                                                                              \
    }

const weft_param costs_params[] = {
    {.name = "machine",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_FILE,
     .value = "",
     .help = "What a thread of a CPU reaches, where the device says nothing: cpu-thread or a file, "
             "as `weft tune --calibrate` writes it, and what differs from it."},
    SECONDS("enqueue", enqueue,
            "Seconds of the host for an instruction that it enqueues; auto: the device's."),
    {.name = "enqueue_updates",
     WEFT_REAL(costs, enqueue_updates),
     .value = "1",
     .min = 0,
     .max = 1000,
     .help = "Instructions of the optimizer take the host so many times as long: less than 1 where "
             "one kernel updates many parameters."},
    SECONDS("step", step, "Seconds that a step takes besides; auto: the device's."),
    SECONDS(
        "micro_batch", micro_batch,
        "Seconds that the host takes to begin a micro-batch, for which it waits until all before "
        "is over: where its data are copied at once; auto: the device's."),
    SECONDS("beside", beside,
            "The share of a collective's time by which what is computed beside it takes longer; "
            "auto: the device's."),
    TIMES("products", products, "Products run at so many times the device's rate."),
    TIMES("products8", products8, "Those in 8 bits at so many times that."),
    TIMES("attention", attention, "Attention runs at so many times the device's rate."),
    TIMES("elementwise", elementwise,
          "All that is no product reads and writes so many times the bytes: what is not fused."),
    TIMES("norms", norms, "Of these, norms so many times that."),
    TIMES("loss", loss, "The same of what is made of logits."),
    TIMES("updates", updates, "The same of what the optimizer does."),
    TIMES("gradients", gradients,
          "Gradients that are summed over ranks have so many times the bytes: 0.5 if they are in "
          "16 bits."),
    TIMES("calls", calls, "What a collective takes besides its bytes takes so many times as long."),
    {.name = "scores",
     WEFT_REAL(costs, scores),
     .value = "0",
     .min = 0,
     .max = 1000,
     .unit = "bytes",
     .help = "Attention that is not fused reads and writes so many bytes a score in its forward, "
             "and 1.6 times as many in its backward; 0: it is fused."},
    {.name = "score_products",
     WEFT_REAL(costs, score_products),
     .value = "0.45",
     .min = 0.01,
     .max = 1,
     .when = "scores!=0",
     .help = "The share of the peak that the products of such attention reach."},
    {.name = NULL},
};

/* ---- rates ---- */

/* A rank has so many threads, each with the machine's numbers; its memory is the system's. */
static void take_machine(const costs *c, weft_device_rates *r)
{
    *r = *weft_profile_rates(c->machine);
    const double times = pow(c->host->threads > 0 ? c->host->threads : 1, r->thread_scaling);
    for (int i = 0; i < WEFT_DTYPES; i++) {
        r->peak[i] *= times;
        r->product[i] *= times;
        r->attention[i] *= times;
    }
    r->other *= times;
    r->memory *= times;
    r->memory_bytes = 0;
    r->one_a_process = false;
}

static void change_rates(void *self, weft_device_rates *r)
{
    const costs *c = self;
    if (c->machine && !r->name)
        take_machine(c, r);
    for (int i = 0; i < WEFT_DTYPES; i++) {
        r->product[i] *= c->products * (weft_dtype_is_f8((weft_dtype)i) ? c->products8 : 1);
        r->attention[i] *= c->attention;
    }
    r->enqueue_s = c->enqueue >= 0 ? c->enqueue : r->enqueue_s;
    r->beside = c->beside >= 0 ? c->beside : r->beside;
    r->step_s = c->step >= 0 ? c->step : r->step_s;
    r->micro_batch_s = c->micro_batch >= 0 ? c->micro_batch : r->micro_batch_s;
    r->call_s *= c->calls;
    r->net_call_s *= c->calls;
}

/* ---- instructions ---- */

static int64_t head_dim(const weft_node *n)
{
    const weft_dim *heads = n->n_ins ? &n->ins[0]->dims[n->ins[0]->n_dims - 1] : NULL;
    return heads && heads->grain > 0 ? heads->grain : 128;
}

/* Two products of all scores forward, four backward, and in between each score is read and written
 * several times. Of the operations of fused attention the backward's are five products. */
static double unfused(const costs *c, const weft_device_rates *r, const weft_node *n, double flops)
{
    const bool backward = n->phase != WEFT_FORWARD;
    const double products = backward ? flops * 4 / 5 : flops,
                 scores = products / (backward ? 8 : 4) / (double)head_dim(n),
                 peak = r->peak[WEFT_BF16] * c->score_products;
    return (peak > 0 ? products / peak : 0) +
           (r->memory > 0 ? scores * c->scores * (backward ? 1.6 : 1) / r->memory : 0);
}

/* What is made of logits: rows and columns of a vocabulary. */
static bool reads_logits(const weft_node *n)
{
    for (int i = 0; i < n->n_ins; i++)
        if (n->ins[i]->n_dims > 2 &&
            strncmp(n->ins[i]->dims[n->ins[i]->n_dims - 1].name, "vocab", 5) == 0)
            return true;
    return false;
}

static double times_of(const costs *c, const weft_node *n)
{
    return n->scope == WEFT_STEP_END ? c->updates
           : weft_node_in(n, "norm") ? c->elementwise * c->norms
           : reads_logits(n)         ? c->loss
                                     : c->elementwise;
}

/* Gradients of parameters are summed in 32 bits; a framework may have them in 16. */
static bool sums_gradients(const weft_planned_instruction *in)
{
    const weft_node *n = in->nodes[0];
    bool reduces = false;
    for (int i = 0; i < n->n_steps; i++)
        reduces = reduces || n->steps[i].move == WEFT_REDUCE_SCATTER ||
                  n->steps[i].move == WEFT_ALL_REDUCE;
    return in->work == WEFT_WORK_SENT && reduces && n->n_outs && n->outs[0]->dtype == WEFT_F32 &&
           n->phase == WEFT_BACKWARD;
}

static double seconds(void *self, const weft_device_rates *r, const weft_graph *g,
                      const weft_planned_instruction *in, double guess)
{
    const costs *c = self;
    (void)g;
    if (in->kind == WEFT_COLLECTIVE)
        return sums_gradients(in) ? guess * c->gradients : -1;
    if (in->kind != WEFT_COMPUTE)
        return -1;
    if (in->work == WEFT_WORK_ATTENTION && c->scores > 0)
        return r->launch_s + unfused(c, r, in->nodes[0], in->flops);
    return in->work == WEFT_WORK_OTHER ? guess * times_of(c, in->nodes[0]) : -1;
}

static double enqueue(void *self, const weft_graph *g, const weft_planned_instruction *in,
                      double guess)
{
    (void)g;
    const bool micro = in->nodes[0]->scope == WEFT_MICRO_BATCH;
    return micro ? guess : guess * ((const costs *)self)->enqueue_updates;
}

const weft_cost_model costs_model = {
    .size = sizeof(weft_cost_model), .rates = change_rates, .seconds = seconds, .enqueue = enqueue};
