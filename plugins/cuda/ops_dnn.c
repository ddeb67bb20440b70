/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by cuDNN: which calls, in what memory, and what is done around it.
 *
 * cuDNN's kernels know no documents and no places but 0, 1, 2, .. of queries and keys. So what is
 * known of index and segments decides, before anything runs: of a ring's step the part of the
 * queries that sees the part of the keys, all of it. Workspace is planned by a bound, for no plan
 * knows the GPU; whether there is a kernel is asked when the device is open. */
#include "dnn.h"

#include <math.h>
#include <stdio.h>

enum { Q, K, V, INDEX_Q, INDEX_K, SEGMENTS_Q, SEGMENTS_K };

/* Are some places hidden from others? Else there are neither places nor documents. */
static bool hides(const weft_call *call)
{
    return call->n_ins > SEGMENTS_K;
}

/* The last operands of a gradient: out, lse, dout; NULL: it is none. */
static const weft_tensor *of_gradient(const weft_call *call)
{
    return call->n_ins > (hides(call) ? 7 : 3) ? &call->ins[call->n_ins - 3] : NULL;
}

/* ---- which calls ---- */

/* Rows that take part. */
typedef struct rows {
    int64_t q_lo, q_n, k_lo, k_n;
    bool causal;
} rows;

static bool is_alike(const weft_tensor *q, const weft_tensor *k)
{
    const weft_facts *a = &q->facts, *b = &k->facts;
    const bool two = a->runs == 2;
    return a->runs == b->runs && q->size[0] == k->size[0] && a->first[0] == b->first[0] &&
           (!two || (a->second == b->second && a->first[1] == b->first[1] &&
                     a->first[0] + a->second <= a->first[1]));
}

/* A run of places, as [lo, hi), and where it lies. */
typedef struct run {
    int64_t lo, hi, at;
} run;

static int list_runs(const weft_tensor *t, run out[2])
{
    const weft_facts *f = &t->facts;
    const int64_t first = f->runs == 2 ? f->second : t->size[0], rest = t->size[0] - first;
    out[0] = (run){f->first[0], f->first[0] + first, 0};
    out[1] = (run){f->first[1], f->first[1] + rest, first};
    return f->runs;
}

/* The runs of queries that see any key see all keys that anyone sees: then these are one product.
 */
static bool find_part(const weft_tensor *index_q, const weft_tensor *index_k, rows *out)
{
    run q[2], k[2];
    const int n_q = list_runs(index_q, q), n_k = list_runs(index_k, k);
    bool sees[2][2] = {{false}}, q_any[2] = {false}, k_any[2] = {false};
    for (int i = 0; i < n_q; i++)
        for (int j = 0; j < n_k; j++) {
            sees[i][j] = k[j].hi <= q[i].lo + 1;
            if (!sees[i][j] && k[j].lo < q[i].hi)
                return false; /* in part */
            q_any[i] = q_any[i] || sees[i][j];
            k_any[j] = k_any[j] || sees[i][j];
        }
    *out = (rows){.q_lo = -1, .k_lo = -1};
    for (int i = 0; i < n_q; i++) {
        for (int j = 0; j < n_k; j++)
            if (q_any[i] && k_any[j] && !sees[i][j])
                return false;
        if (q_any[i]) {
            out->q_lo = out->q_lo < 0 ? q[i].at : out->q_lo;
            out->q_n += q[i].hi - q[i].lo;
        }
    }
    for (int j = 0; j < n_k; j++)
        if (k_any[j]) {
            out->k_lo = out->k_lo < 0 ? k[j].at : out->k_lo;
            out->k_n += k[j].hi - k[j].lo;
        }
    return true;
}

static bool is_causal(const weft_call *call)
{
    return hides(call) && (!weft_call_has(call, "causal") || weft_call_int(call, "causal") != 0);
}

static bool find_rows(const weft_call *call, rows *out)
{
    const weft_tensor *in = call->ins;
    const int64_t queries = in[Q].size[1], keys = in[K].size[1];
    *out = (rows){0, queries, 0, keys, is_causal(call)};
    if (!out->causal || is_alike(&in[INDEX_Q], &in[INDEX_K]))
        return true;
    return find_part(&in[INDEX_Q], &in[INDEX_K], out) &&
           (weft_call_int(call, "ring") || (out->q_n == queries && out->k_n == keys));
}

/* Query heads share key heads as they do where all are here. */
static bool shares_evenly(const weft_call *call, int64_t d)
{
    const weft_tensor *q = &call->ins[Q], *k = &call->ins[K];
    const int64_t heads = q->size[2] / d, kv = k->size[2] / d, group = q->whole[2] / k->whole[2];
    if (kv == 0 || heads % kv != 0)
        return false;
    for (int64_t h = 0; h < heads; h++)
        if ((q->lo[2] / d + h) / group - k->lo[2] / d != h / (heads / kv))
            return false;
    return true;
}

static bool is_half(const weft_tensor *t)
{
    return t->dtype == WEFT_BF16;
}

/* NULL: cuDNN may have a kernel; else why it has none. */
static const char *refuse(const weft_call *call)
{
    const weft_tensor *in = call->ins, *last = of_gradient(call);
    const bool causal = is_causal(call);
    const int64_t d = in[Q].grain[2];
    if (!is_half(&in[Q]) || !is_half(&in[K]) || !is_half(&in[V]) ||
        (last && (!is_half(&last[0]) || !is_half(&last[2]))))
        return "operands are not all bf16";
    if (d % 8 != 0 || d > 256)
        return "a head has more than 256 elements, or no multiple of 8";
    if (hides(call) && (!in[SEGMENTS_Q].facts.alike || !in[SEGMENTS_K].facts.alike))
        return "a sample may have several documents";
    if (causal && (!in[INDEX_Q].facts.runs || !in[INDEX_K].facts.runs))
        return "the places of queries and keys are not known before";
    return shares_evenly(call, d) ? NULL : "heads are cut inside of a group";
}

static bool is_planned(const weft_call *call)
{
    return call->queue && call->queue->dnn_planned && !refuse(call);
}

/* ---- memory ---- */

static cuda_dnn_attention describe(const weft_call *call, const rows *r)
{
    const weft_tensor *q = &call->ins[Q], *k = &call->ins[K];
    const int64_t d = q->grain[2];
    return (cuda_dnn_attention){.batch = q->size[0],
                                .heads = q->size[2] / d,
                                .kv_heads = k->size[2] / d,
                                .d = d,
                                .queries = r->q_n,
                                .keys = r->k_n,
                                .q_rows = q->size[1],
                                .k_rows = k->size[1],
                                .causal = r->causal,
                                .backward = of_gradient(call) != NULL};
}

/* Where a launch has what; NULL: it is not needed, or is in the call's own memory. The sums of dq
 * and the library's part come with plans. */
typedef struct places {
    float *lse, *delta, *dq_sums;
    void *made[3]; /* results, of the rows that take part, in bf16 */
    void *library;
    size_t bytes; /* in all, without the library's */
} places;

static void *take(char *base, size_t *bytes, size_t n)
{
    void *at = base ? base + *bytes : NULL;
    *bytes += (n + 255) / 256 * 256;
    return at;
}

/* cuDNN writes a result itself where that is all of it, in bf16. */
static bool is_direct(const weft_call *call, bool ring, int i)
{
    return is_half(&call->outs[i]) && !(call->accumulate && i == 0) && !ring;
}

static places lay_out(const weft_call *call, bool ring, void *base)
{
    const weft_tensor *q = &call->ins[Q], *k = &call->ins[K];
    const bool backward = of_gradient(call) != NULL;
    const int64_t heads = q->size[0] * q->size[1] * (q->size[2] / q->grain[2]);
    places p = {0};
    p.lse = take(base, &p.bytes, (size_t)heads * sizeof(float));
    if (backward) {
        p.delta = take(base, &p.bytes, (size_t)heads * sizeof(float));
        p.dq_sums = take(base, &p.bytes, (size_t)(heads * q->grain[2]) * sizeof(float));
    }
    for (int i = 0; i < (backward ? 3 : 1); i++)
        if (!is_direct(call, ring, i))
            p.made[i] = take(base, &p.bytes, (size_t)weft_tensor_count(i ? k : q) * 2);
    p.library = base ? (char *)base + p.bytes : NULL;
    return p;
}

static size_t library_bytes(const weft_call *call)
{
    const rows all = {0, call->ins[Q].size[1], 0, call->ins[K].size[1], false};
    const cuda_dnn_attention a = describe(call, &all);
    return cuda_dnn_bound(&a);
}

size_t cuda_dnn_workspace(const weft_call *call)
{
    return is_planned(call)
               ? lay_out(call, weft_call_int(call, "ring") != 0, NULL).bytes + library_bytes(call)
               : 0;
}

size_t cuda_dnn_loads(const weft_call *call)
{
    const rows all = {0, call->ins[Q].size[1], 0, call->ins[K].size[1], false};
    const cuda_dnn_attention a = describe(call, &all);
    return is_planned(call) && call->queue->loads
               ? cuda_dnn_attention_bytes(&a, library_bytes(call))
               : 0;
}

bool cuda_dnn_may_take(const weft_call *call)
{
    rows r;
    return is_planned(call) && weft_tensor_count(&call->ins[Q]) > 0 && find_rows(call, &r) &&
           r.q_n > 0 && r.k_n > 0;
}

/* Rates of others' measurements: a range all the same. Where it may not be there, ours at their
 * slowest are the other end. */
weft_kernel_work cuda_dnn_work(const weft_call *call, weft_kernel_work own)
{
    static const double published = 1.35, guessed = 2; /* how far off, share/gpus */
    const weft_queue *q = call->queue;
    const double flops = call->op->flops(call);
    return (weft_kernel_work){.best = q->dnn_rate,
                              .worst = q->dnn_must || own.flops <= 0 ? q->dnn_rate / published
                                                                     : flops / own.flops / guessed};
}

/* ---- prepared ---- */

typedef struct prepared {
    cuda_dnn_plan *plan;
    rows rows;
    bool ring;
    float scale;
} prepared;

/* Counts calls that are left to our own kernels, and keeps one reason. */
static void leave(cuda_dnn *dnn, const char *why)
{
    dnn->left++;
    snprintf(dnn->why, sizeof dnn->why, "%s", why ? why : "it says nothing");
}

weft_status cuda_dnn_prepare(const weft_call *call, float scale, void **state, weft_error *err)
{
    cuda_dnn *dnn = call->queue ? call->queue->dnn : NULL;
    prepared p = {.ring = weft_call_int(call, "ring") != 0, .scale = scale};
    *state = NULL;
    if (!dnn)
        return WEFT_OK;
    const char *why = refuse(call);
    if (!why && !find_rows(call, &p.rows))
        why = "queries see keys in another pattern than it knows";
    if (why) {
        leave(dnn, why);
        return WEFT_OK;
    }
    if (weft_tensor_count(&call->ins[Q]) == 0 || p.rows.q_n <= 0 || p.rows.k_n <= 0)
        return WEFT_OK; /* nobody sees anything */
    const cuda_dnn_attention a = describe(call, &p.rows);
    weft_status s = cuda_dnn_plan_create(dnn, &a, library_bytes(call), &p.plan, &why, err);
    if (s || !p.plan) {
        leave(dnn, why);
        return s;
    }
    s = cuda_keep(&p, sizeof p, state, err);
    if (s)
        cuda_dnn_plan_destroy(p.plan);
    dnn->taken += !s;
    return s;
}

void cuda_dnn_release(void *state)
{
    prepared *p = state;
    if (p)
        cuda_dnn_plan_destroy(p->plan);
    weft_free(p);
}

/* ---- launches ---- */

static weft_status move_lse(const weft_call *call, const rows *r, float *lse, float *theirs,
                            bool back, weft_error *err)
{
    const weft_tensor *q = &call->ins[Q];
    const int64_t heads = q->size[2] / q->grain[2], n = back ? r->q_n : q->size[1];
    const cuda_dnn_lse_args a = {.lse = lse,
                                 .theirs = theirs,
                                 .batch = q->size[0],
                                 .rows = q->size[1],
                                 .heads = heads,
                                 .lo = r->q_lo,
                                 .n = r->q_n};
    return cuda_launch(call->queue,
                       back ? CUDA_KERNEL_attention_lse_to : CUDA_KERNEL_attention_lse_from, &a,
                       cuda_chunk_blocks(8 * q->size[0] * heads * n), err);
}

/* Result i from where it was made. */
static weft_status bring(const weft_call *call, const rows *r, int i, void *made, weft_error *err)
{
    const weft_tensor *out = &call->outs[i];
    const int64_t n = out->size[0] * out->size[1];
    const cuda_dnn_rows_args a = {.from = {made, WEFT_BF16},
                                  .to = cuda_view_of(out),
                                  .batch = out->size[0],
                                  .rows = out->size[1],
                                  .width = out->size[2],
                                  .lo = i ? r->k_lo : r->q_lo,
                                  .n = i ? r->k_n : r->q_n,
                                  .add = call->accumulate && i == 0};
    return made ? cuda_launch(call->queue, CUDA_KERNEL_attention_rows, &a, cuda_row_blocks(n), err)
                : WEFT_OK;
}

/* From row `lo` on. */
static void *row(const weft_tensor *t, int64_t lo)
{
    return (char *)t->data + lo * t->size[2] * (int64_t)weft_dtype_size(t->dtype);
}

weft_status cuda_dnn_launch(const weft_call *call, void *state, weft_error *err)
{
    prepared *p = state;
    const rows *r = &p->rows;
    const weft_tensor *in = call->ins;
    const bool backward = of_gradient(call) != NULL;
    const places at = lay_out(call, p->ring, call->workspace);
    float lowest = -INFINITY, one = 1.0f;
    void *memory[DNN_NAMES] = {[DNN_Q] = row(&in[Q], r->q_lo),
                               [DNN_K] = row(&in[K], r->k_lo),
                               [DNN_V] = row(&in[V], r->k_lo),
                               [DNN_LSE] = at.lse,
                               [DNN_SCALE] = &p->scale,
                               [DNN_LOWEST] = &lowest,
                               [DNN_ONE] = &one};
    weft_status s = cuda_check_workspace(call, at.bytes + cuda_dnn_plan_workspace(p->plan), err);
    if (s)
        return s;
    if (backward) {
        memory[DNN_OUT] = row(&of_gradient(call)[0], r->q_lo);
        memory[DNN_DOUT] = row(&of_gradient(call)[2], r->q_lo);
        memory[DNN_DELTA] = at.delta;
        memory[DNN_DQ_SUMS] = at.dq_sums;
        s = move_lse(call, r, of_gradient(call)[1].data, at.lse, true, err);
    }
    for (int i = 0; i < (backward ? 3 : 1); i++)
        memory[backward ? DNN_DQ + i : DNN_OUT] = at.made[i] ? at.made[i] : call->outs[i].data;
    s = s ? s : cuda_dnn_plan_launch(p->plan, call->queue, memory, at.library, err);
    for (int i = 0; i < (backward ? 3 : 1) && !s; i++)
        s = bring(call, r, i, at.made[i], err);
    return s || backward ? s : move_lse(call, r, call->outs[1].data, at.lse, false, err);
}
