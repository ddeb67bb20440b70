/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions by a roofline. */
#include "forecast/roofline.h"

#include <math.h>

/* What is unknown takes no time. */
static double over(double amount, double rate)
{
    return rate > 0 ? amount / rate : 0;
}

void weft_roofline_assume(weft_roofline *r, double flops_per_s, double bytes_per_s)
{
    weft_device_rates *rates = &r->rates;
    if (flops_per_s > 0) {
        for (int i = 0; i < WEFT_DTYPES; i++)
            rates->product[i] = rates->attention[i] = flops_per_s;
        rates->other = flops_per_s;
        rates->memory = rates->launch_s = rates->k_half = 0;
        rates->skips_masked = rates->waves = false;
        rates->attention_edge = rates->attention_narrow = 0;
        rates->unsure = rates->enqueue_s = rates->beside = rates->step_s = 0;
    }
    if (bytes_per_s > 0) {
        rates->link = rates->net = bytes_per_s;
        rates->link_s = rates->net_s = rates->call_s = rates->net_call_s = rates->half_bytes = 0;
    }
}

void weft_roofline_share(weft_roofline *r, int n)
{
    weft_device_rates *rates = &r->rates;
    r->sharers = n;
    if (n < 2)
        return;
    for (int i = 0; i < WEFT_DTYPES; i++) {
        rates->peak[i] /= n;
        rates->product[i] /= n;
        rates->attention[i] /= n;
    }
    rates->other /= n;
    rates->memory /= n;
    rates->launch_s *= n;
    rates->host = 0;                 /* no rank is on another one */
    rates->link = rates->memory / 2; /* read and written */
    rates->link_s = rates->call_s = rates->half_bytes = 0;
}

void weft_roofline_stage(weft_roofline *r)
{
    weft_device_rates *rates = &r->rates;
    r->through_host = true;
    if (rates->host_link > 0 && (rates->link <= 0 || rates->link > rates->host_link))
        rates->link = rates->host_link;
}

/* ---- what is sent ---- */

/* A ring through several hosts leaves each by the network shares of all its members there. */
static double ring_rate(const weft_device_rates *rates, const weft_reach *at)
{
    double out = at->near * rates->net;
    bool inside = at->hosts == 1 || out <= 0 || (rates->link > 0 && rates->link < out);
    return inside ? rates->link : out;
}

/* Steps of a ring, as NCCL's own model counts them. */
static double ring_hops(const weft_device_rates *rates, const weft_reach *at)
{
    return (at->n - at->hosts) * rates->link_s + (at->hosts - 1) * rates->net_s;
}

static double hop(const weft_device_rates *rates, const weft_reach *at, double bytes)
{
    return at->hosts > 1 ? over(bytes, rates->net) + rates->net_s
                         : over(bytes, rates->link) + rates->link_s;
}

/* In memory that all of a group reach: each copies its own part, or adds up what it reads. */
static double copy_seconds(const weft_device_rates *rates, weft_move move, double bytes, int n)
{
    switch (move) {
    case WEFT_ALL_GATHER:
    case WEFT_ALL_TO_ALL:
        return over(bytes * n, rates->link);
    case WEFT_REDUCE_SCATTER: /* n are read, and one is written */
        return over(bytes * (n + 1) / 2, rates->link);
    case WEFT_ALL_REDUCE: /* of a part all terms are read, and it is written for all */
    case WEFT_BROADCAST:
    case WEFT_SEND:
    case WEFT_SHIFT:
        return over(bytes, rates->link);
    case WEFT_SLICE:
    case WEFT_ZERO:
    case WEFT_KEEP:
        break;
    }
    return 0;
}

/* Of small calls, whose parts are too small for a link, all together `bytes`. */
static double slowness(const weft_device_rates *rates, double bytes)
{
    return rates->half_bytes > 0 ? 1 + fmin(1, rates->half_bytes / fmax(bytes, 1)) / 2 : 1;
}

/* What is sent, without what every call takes. */
static double wire_seconds(const weft_device_rates *rates, weft_move move, double bytes,
                           weft_reach at)
{
    const double others = at.n - 1;
    switch (move) {
    case WEFT_ALL_GATHER:
    case WEFT_REDUCE_SCATTER:
        return over(bytes * others, ring_rate(rates, &at)) + ring_hops(rates, &at);
    case WEFT_ALL_REDUCE:
        return over(2 * bytes * others / at.n, ring_rate(rates, &at)) + 2 * ring_hops(rates, &at);
    case WEFT_ALL_TO_ALL: /* all at once, each by the way to its receiver */
        return fmax(over(bytes * others, rates->link),
                    at.hosts > 1 ? over(bytes * (at.n - at.near), rates->net) : 0) +
               (at.hosts > 1 ? rates->net_s : rates->link_s);
    case WEFT_BROADCAST:
        return over(bytes, ring_rate(rates, &at)) + ring_hops(rates, &at);
    case WEFT_SEND:
    case WEFT_SHIFT:
        return hop(rates, &at, bytes);
    case WEFT_SLICE:
    case WEFT_ZERO:
    case WEFT_KEEP:
        break;
    }
    return 0;
}

static double call_seconds(const weft_device_rates *rates, weft_move move, double bytes,
                           weft_reach at)
{
    const bool parts = move == WEFT_ALL_GATHER || move == WEFT_REDUCE_SCATTER,
               ends = move == WEFT_SEND || move == WEFT_SHIFT;
    const double wire = wire_seconds(rates, move, bytes, at);
    if (at.n < 2 || wire <= 0)
        return wire;
    return (at.hosts > 1 ? rates->net_call_s
            : ends       ? 0
                         : rates->call_s) +
           wire * (ends ? 1 : slowness(rates, parts ? bytes * at.n : bytes));
}

/* What is sent, and what is received. */
static double host_seconds(const weft_device_rates *rates, weft_move move, double bytes, int n)
{
    const double sent = move == WEFT_REDUCE_SCATTER || move == WEFT_ALL_TO_ALL ? n : 1,
                 received = move == WEFT_ALL_GATHER || move == WEFT_ALL_TO_ALL ? n : 1;
    return over(bytes * (sent + received), rates->host_link);
}

/* Reduced by the device, once all terms are there. */
static double terms_seconds(const weft_device_rates *rates, weft_move move, double bytes,
                            weft_reach at)
{
    return call_seconds(rates, move == WEFT_ALL_REDUCE ? WEFT_ALL_GATHER : WEFT_ALL_TO_ALL, bytes,
                        at) +
           over(bytes * (at.n + 1), rates->memory);
}

static bool reduces(weft_move move)
{
    return move == WEFT_ALL_REDUCE || move == WEFT_REDUCE_SCATTER;
}

static bool is_sent(weft_move move)
{
    return move != WEFT_SLICE && move != WEFT_ZERO && move != WEFT_KEEP;
}

double weft_roofline_send(const weft_roofline *r, const weft_mesh *mesh, const weft_step *step,
                          int64_t count, weft_dtype dtype, weft_reduce op)
{
    const weft_device_rates *rates = &r->rates;
    const weft_reach at = weft_reach_of(rates, mesh, step->axes, step->n_axes);
    const double bytes = (double)count * (double)weft_dtype_size(dtype);
    if (r->sharers > 1)
        return copy_seconds(rates, step->move, bytes, at.n);
    const double sent = reduces(step->move) && r->terms[op]
                            ? terms_seconds(rates, step->move, bytes, at)
                            : call_seconds(rates, step->move, bytes, at);
    return r->through_host && is_sent(step->move)
               ? sent + host_seconds(rates, step->move, bytes, at.n)
               : sent;
}

/* Read and written. */
static double box_bytes(const weft_place_box *b)
{
    double bytes = (double)b->box.bytes;
    for (int d = 0; d < WEFT_BOX_DIMS; d++)
        bytes *= (double)b->box.n[d];
    return b->from.of == WEFT_PLACE_ZEROS ? bytes : 2 * bytes;
}

static double part_seconds(const weft_roofline *r, const weft_mesh *mesh, const weft_exchange *e,
                           const weft_exchange_part *part)
{
    double bytes = 0;
    if (part->sends)
        return r->rates.launch_s +
               weft_roofline_send(r, mesh, part->step, part->count, part->dtype, part->op);
    for (int b = 0; b < part->n; b++)
        bytes += box_bytes(&e->boxes[part->first + b]);
    return r->rates.launch_s + over(bytes, r->rates.memory);
}

static double collective_seconds(const weft_roofline *r, const weft_mesh *mesh,
                                 const weft_exchange *e)
{
    double seconds = 0;
    for (int i = 0; i < e->n_parts; i++)
        seconds += part_seconds(r, mesh, e, &e->parts[i]);
    return seconds;
}

static bool is_over(const weft_step *step, int axis)
{
    int k = 0;
    while (k < step->n_axes && step->axes[k] != axis)
        k++;
    return k < step->n_axes;
}

double weft_roofline_before_stages(const weft_roofline *r, const weft_lowered *l,
                                   const weft_instruction *in)
{
    const weft_exchange *e = in->exchange;
    const int axis = weft_graph_stage_axis(l->graph);
    double seconds = 0;
    for (int i = 0; axis >= 0 && i < e->n_parts; i++) {
        if (e->parts[i].sends && is_over(e->parts[i].step, axis))
            return seconds;
        seconds += part_seconds(r, &l->graph->config.mesh, e, &e->parts[i]);
    }
    return -1;
}

double weft_roofline_transfer(const weft_roofline *r, const weft_lowered *l,
                              const weft_instruction *in)
{
    return r->rates.launch_s + weft_roofline_send(r, &l->graph->config.mesh, in->node->steps,
                                                  weft_tensor_count(in->tensors),
                                                  in->tensors[0].dtype, WEFT_REDUCE_SUM);
}

/* ---- what is computed ---- */

static double tensor_bytes(const weft_tensor *t)
{
    return (double)weft_tensor_count(t) * (double)weft_dtype_size(t->dtype);
}

static double bytes_of(const weft_instruction *in)
{
    double bytes = in->accumulate && in->n_outs ? tensor_bytes(&in->tensors[in->n_ins]) : 0;
    for (int i = 0; i < in->n_ins + in->n_outs; i++)
        bytes += tensor_bytes(&in->tensors[i]);
    return bytes;
}

static weft_work work_of(const weft_node *n)
{
    return !(n->op->flags & WEFT_OP_MATMUL) ? WEFT_WORK_OTHER
           : weft_node_in(n, "attention")   ? WEFT_WORK_ATTENTION
                                            : WEFT_WORK_PRODUCT;
}

weft_dtype weft_roofline_dtype(const weft_lowered *l, const weft_instruction *in)
{
    return in->work.launches > 0 ? in->work.dtype : weft_product_dtype(l->graph, in->node);
}

/* Of attention by its shape: keys at the mask's edge, of which few sequences have many, and narrow
 * heads, whose products are short. */
static double shape_share(const weft_device_rates *rates, const weft_instruction *in)
{
    const weft_node *n = in->node;
    const weft_tensor *keys = in->n_ins > 1 ? &in->tensors[1] : NULL;
    double share = 1;
    if (keys && keys->n_dims == 3 && in->masked > 0 && keys->size[1] > 0)
        share /= 1 + rates->attention_edge / (double)keys->size[1];
    if (n->n_ins && n->ins[0]->n_dims == 3 && n->ins[0]->dims[2].grain < 128 &&
        rates->attention_narrow > 0)
        share *= rates->attention_narrow;
    return share;
}

/* At worst where that is asked; a kernel may know more of itself than the device does. */
static double attention_rate(const weft_roofline *r, const weft_instruction *in, weft_dtype dtype)
{
    const weft_kernel_work *work = &in->work;
    const double rate = r->rates.attention[dtype] * shape_share(&r->rates, in),
                 unsure = r->rates.unsure;
    if (work->best > 0 && unsure > 1)
        return rate * (r->slow ? work->worst : work->best);
    return r->slow && unsure > 1 ? rate / unsure : rate;
}

/* Of what tiles compute that a GPU makes all at once, the share that is wanted, for the tile that
 * does best by what tiles of its size reach (CUTLASS). */
static double wave_share(double rows, double columns, int sms)
{
    static const struct {
        double rows, columns, reached;
    } tiles[] = {{128, 256, 1}, {128, 128, 0.93}, {64, 128, 0.8}, {64, 64, 0.6}};
    double best = 0;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const double n = ceil(rows / tiles[i].rows) * ceil(columns / tiles[i].columns),
                     area = ceil(n / sms) * sms * tiles[i].rows * tiles[i].columns;
        best = fmax(best, rows * columns / area * tiles[i].reached);
    }
    return best;
}

/* A product's rate, by its shape: of a sum of few terms much is not its loop, and its tiles may
 * leave multiprocessors idle. */
static double product_rate(const weft_roofline *r, const weft_instruction *in, weft_dtype dtype)
{
    const weft_device_rates *rates = &r->rates;
    const weft_tensor *out = &in->tensors[in->n_ins];
    double rate = rates->product[dtype], count = 0;
    if (in->n_outs == 0 || out->n_dims < 1)
        return rate;
    const double columns = (double)out->size[out->n_dims - 1];
    for (int i = 0; i < (weft_node_is(in->node, WEFT_OP_PAIR) ? 2 : 1); i++)
        count += (double)weft_tensor_count(&out[i]); /* tiles of both products */
    if (count <= 0 || in->flops <= 0)
        return rate;
    if (rates->waves && rates->sms > 0)
        rate *= wave_share(count / columns, columns, rates->sms);
    const double terms = in->flops / (2 * count);
    return rate * terms / (terms + rates->k_half);
}

static weft_work_cost compute_cost(const weft_roofline *r, const weft_lowered *l,
                                   const weft_instruction *in)
{
    const weft_device_rates *rates = &r->rates;
    const weft_work work = work_of(in->node);
    const bool told = in->work.launches > 0;
    const weft_dtype dtype = weft_roofline_dtype(l, in);
    const double rate = work == WEFT_WORK_PRODUCT     ? product_rate(r, in, dtype)
                        : work == WEFT_WORK_ATTENTION ? attention_rate(r, in, dtype)
                                                      : rates->other;
    const double executed = in->work.flops > 0 ? in->work.flops : in->flops,
                 flops = executed * (rates->skips_masked ? 1 - in->masked : 1),
                 before = told ? in->work.before : 0,
                 bytes = told ? in->work.bytes - before : bytes_of(in);
    return (weft_work_cost){.work = work,
                            .seconds = rates->launch_s * (told ? in->work.launches : 1) +
                                       over(before, rates->memory) +
                                       fmax(over(flops, rate), over(bytes, rates->memory)),
                            .known = rate > 0 && (in->kernel || !r->staged)};
}

weft_planned_instruction weft_roofline_show(const weft_instruction *in)
{
    return (weft_planned_instruction){.kind = in->kind,
                                      .nodes = in->parts ? (const weft_node *const *)in->parts
                                                         : &in->node,
                                      .n_nodes = in->parts ? in->n_ins : 1,
                                      .part = in->node->part,
                                      .stage = in->node->stage,
                                      .position = in->position,
                                      .work = in->kind == WEFT_COLLECTIVE ? WEFT_WORK_SENT
                                              : in->kind == WEFT_COMPUTE  ? work_of(in->node)
                                                                          : WEFT_WORK_OTHER,
                                      .flops = in->kind == WEFT_COMPUTE ? in->flops : 0,
                                      .bytes = in->kind == WEFT_COMPUTE ? bytes_of(in) : 0};
}

/* Below 0: nobody knows. */
static double far_seconds(const weft_roofline *r, const weft_instruction *in)
{
    const weft_tensor *t = &in->tensors[0];
    const double rate = in->kind == WEFT_FETCH ? r->far.read : r->far.write,
                 bytes = (double)weft_tensor_count(t) * (double)weft_dtype_size(t->dtype);
    return rate > 0 ? r->far.call_s + bytes / rate : -1;
}

/* By the device's rates. */
static weft_work_cost guess(const weft_roofline *r, const weft_lowered *l,
                            const weft_instruction *in)
{
    const weft_device_rates *rates = &r->rates;
    const weft_mesh *mesh = &l->graph->config.mesh;
    weft_work_cost cost = {.work = WEFT_WORK_OTHER, .known = true};
    switch (in->kind) {
    case WEFT_COMPUTE:
        return compute_cost(r, l, in);
    case WEFT_ZERO_FILL:
    case WEFT_COPY:
        cost.seconds = rates->launch_s + over(bytes_of(in), rates->memory);
        break;
    case WEFT_COLLECTIVE:
        cost.work = WEFT_WORK_SENT;
        cost.seconds = collective_seconds(r, mesh, in->exchange);
        break;
    case WEFT_POST_SEND: /* from where it lies, or read and written first */
        if (weft_node_shifts(in->node)) {
            cost.work = WEFT_WORK_SENT;
            cost.seconds = weft_roofline_transfer(r, l, in);
        } else {
            cost.seconds = rates->launch_s + over(2 * bytes_of(in), rates->memory);
        }
        break;
    case WEFT_FETCH:
    case WEFT_EVICT:
        cost.work = WEFT_WORK_SENT;
        cost.seconds = far_seconds(r, in);
        cost.known = cost.seconds >= 0;
        cost.seconds = fmax(cost.seconds, 0);
        break;
    case WEFT_OBSERVE:
    case WEFT_POST_RECV:
    case WEFT_AWAIT:
    case WEFT_ARRIVE:
        break;
    }
    return cost;
}

weft_work_cost weft_roofline_cost(const weft_roofline *r, const weft_lowered *l,
                                  const weft_instruction *in)
{
    weft_work_cost cost = guess(r, l, in);
    if (!r->model || !r->model->seconds)
        return cost;
    const weft_planned_instruction seen = weft_roofline_show(in);
    const double own = r->model->seconds(r->model_self, &r->rates, l->graph, &seen, cost.seconds);
    cost.known = cost.known || own >= 0;
    cost.seconds = own < 0 ? cost.seconds : own;
    return cost;
}

double weft_roofline_enqueue(const weft_roofline *r, const weft_lowered *l,
                             const weft_instruction *in)
{
    const double guess = r->rates.enqueue_s;
    if (!r->model || !r->model->enqueue)
        return guess;
    const weft_planned_instruction seen = weft_roofline_show(in);
    return r->model->enqueue(r->model_self, l->graph, &seen, guess);
}

void weft_roofline_ask(weft_roofline *r)
{
    if (r->model && r->model->rates)
        r->model->rates(r->model_self, &r->rates);
}
