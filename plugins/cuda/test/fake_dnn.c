/* SPDX-License-Identifier: Apache-2.0 */
/* A cuDNN that is the host: it does what a graph says, operation by operation, in f32. What the
 * real one would refuse, or read beside, it refuses. WEFT_FAKE_CUDNN_VERSION says which version it
 * is, WEFT_FAKE_CUDNN=none that it has no kernel, WEFT_FAKE_CUDNN_WORKSPACE how much each wants.
 * Sums of dq begin anywhere, as atomics do, but for the engines that sum in order. */
#include "dnn.h"
#include "fake_driver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 92800, BAD = 2000, UNSUPPORTED = 3000, RANK = 4, MOST_OPS = 32, MOST_KNOBS = 8 };
enum { WORKSPACE = 1024 };

typedef struct tensor {
    int type;
    int64_t dims[RANK], strides[RANK], id, alignment;
    bool nowhere, by_value;
} tensor;

/* How: mode, axis or operator. */
typedef struct how {
    int mode, precision;
    int64_t axis;
} how;

typedef struct descriptor {
    int type;
    bool final;
    union {
        tensor tensor;
        how how;
        struct {
            struct descriptor *how, *x, *b, *t, *y;
        } op;
        struct {
            struct descriptor *ops[MOST_OPS];
            int64_t n;
            cudnn_handle_t handle;
        } graph;
        struct {
            struct descriptor *graph;
            int mode;
        } heuristics;
        struct {
            struct descriptor *graph;
            int64_t index;
        } engine;
        struct {
            struct descriptor *engine, *graph; /* graph: without an engine of its own */
            int64_t stages;
        } config;
        struct {
            int knob;
            int64_t value;
        } knob;
        struct {
            struct descriptor *config;
            cudnn_handle_t handle;
            bool loaded;
        } plan;
        struct {
            int64_t ids[DNN_NAMES];
            void *memory[DNN_NAMES], *workspace;
            int64_t n_ids, n;
        } pack;
    };
} descriptor;

struct cudnn_handle {
    CUstream stream;
};

static int refuse(const char *why)
{
    fake_refuse(CUDA_ERROR_INVALID_VALUE, why);
    return BAD;
}

/* Of each thread's another one, if WEFT_FAKE_CUDNN_SPREAD is 1. */
EXPORT size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void)
{
    static _Thread_local int mine;
    static int threads;
    if (!mine) {
        pthread_mutex_lock(&fake.lock);
        mine = ++threads;
        pthread_mutex_unlock(&fake.lock);
    }
    return (size_t)(fake_number("WEFT_FAKE_CUDNN_VERSION", VERSION) +
                    mine * fake_number("WEFT_FAKE_CUDNN_SPREAD", 0));
}

EXPORT const char *cudnnGetErrorString(int status);
const char *cudnnGetErrorString(int status)
{
    return status == UNSUPPORTED ? "not supported" : status ? "a bad parameter" : "success";
}

EXPORT int cudnnCreate(cudnn_handle_t *handle);
int cudnnCreate(cudnn_handle_t *handle)
{
    if (!fake_has_context())
        return refuse("cuDNN without a context");
    *handle = calloc(1, sizeof **handle);
    fake_count(&fake.dnn, 1);
    return *handle ? DNN_SUCCESS : BAD;
}

EXPORT int cudnnDestroy(cudnn_handle_t handle);
int cudnnDestroy(cudnn_handle_t handle)
{
    free(handle);
    fake_count(&fake.dnn, -1);
    return DNN_SUCCESS;
}

EXPORT int cudnnSetStream(cudnn_handle_t handle, CUstream stream);
int cudnnSetStream(cudnn_handle_t handle, CUstream stream)
{
    handle->stream = stream;
    return DNN_SUCCESS;
}

/* ---- descriptors ---- */

EXPORT int cudnnBackendCreateDescriptor(int type, cudnn_descriptor_t *out);
int cudnnBackendCreateDescriptor(int type, cudnn_descriptor_t *out)
{
    descriptor *d = calloc(1, sizeof *d);
    if (!d)
        return BAD;
    d->type = type;
    *out = d;
    fake_count(&fake.dnn, 1);
    return DNN_SUCCESS;
}

EXPORT int cudnnBackendDestroyDescriptor(cudnn_descriptor_t d);
int cudnnBackendDestroyDescriptor(cudnn_descriptor_t d)
{
    free(d);
    fake_count(&fake.dnn, -1);
    return DNN_SUCCESS;
}

/* Where an attribute of one element goes, of which type it is. */
typedef struct field {
    int owner, name, type;
    size_t at, size;
} field;

#define FIELD(owner, name, type, member)                                                           \
    {                                                                                              \
        owner, name, type, offsetof(descriptor, member), sizeof(((descriptor *)0)->member)         \
    }
#define LINK(owner, name, member) FIELD(owner, name, DNN_T_DESCRIPTOR, member)

static const field fields[] = {
    FIELD(DNN_TENSOR, DNN_TENSOR_TYPE, DNN_T_DATA_TYPE, tensor.type),
    FIELD(DNN_TENSOR, DNN_TENSOR_ID, DNN_T_INT64, tensor.id),
    FIELD(DNN_TENSOR, DNN_TENSOR_ALIGNMENT, DNN_T_INT64, tensor.alignment),
    FIELD(DNN_TENSOR, DNN_TENSOR_VIRTUAL, DNN_T_BOOLEAN, tensor.nowhere),
    FIELD(DNN_TENSOR, DNN_TENSOR_BY_VALUE, DNN_T_BOOLEAN, tensor.by_value),
    FIELD(DNN_POINTWISE, DNN_POINTWISE_MODE, DNN_T_POINTWISE_MODE, how.mode),
    FIELD(DNN_POINTWISE, DNN_POINTWISE_PRECISION, DNN_T_DATA_TYPE, how.precision),
    FIELD(DNN_POINTWISE, DNN_POINTWISE_AXIS, DNN_T_INT64, how.axis),
    FIELD(DNN_MATMUL, DNN_MATMUL_PRECISION, DNN_T_DATA_TYPE, how.precision),
    FIELD(DNN_REDUCTION, DNN_REDUCTION_OPERATOR, DNN_T_REDUCTION, how.mode),
    FIELD(DNN_REDUCTION, DNN_REDUCTION_PRECISION, DNN_T_DATA_TYPE, how.precision),
    LINK(DNN_POINTWISE_OP, DNN_POINTWISE_OP_HOW, op.how),
    LINK(DNN_POINTWISE_OP, DNN_POINTWISE_OP_X, op.x),
    LINK(DNN_POINTWISE_OP, DNN_POINTWISE_OP_B, op.b),
    LINK(DNN_POINTWISE_OP, DNN_POINTWISE_OP_T, op.t),
    LINK(DNN_POINTWISE_OP, DNN_POINTWISE_OP_Y, op.y),
    LINK(DNN_MATMUL_OP, DNN_MATMUL_OP_HOW, op.how),
    LINK(DNN_MATMUL_OP, DNN_MATMUL_OP_A, op.x),
    LINK(DNN_MATMUL_OP, DNN_MATMUL_OP_B, op.b),
    LINK(DNN_MATMUL_OP, DNN_MATMUL_OP_C, op.y),
    LINK(DNN_REDUCTION_OP, DNN_REDUCTION_OP_HOW, op.how),
    LINK(DNN_REDUCTION_OP, DNN_REDUCTION_OP_X, op.x),
    LINK(DNN_REDUCTION_OP, DNN_REDUCTION_OP_Y, op.y),
    LINK(DNN_RESHAPE_OP, DNN_RESHAPE_OP_X, op.x),
    LINK(DNN_RESHAPE_OP, DNN_RESHAPE_OP_Y, op.y),
    FIELD(DNN_GRAPH, DNN_GRAPH_HANDLE, DNN_T_HANDLE, graph.handle),
    LINK(DNN_HEURISTICS, DNN_HEURISTICS_GRAPH, heuristics.graph),
    FIELD(DNN_HEURISTICS, DNN_HEURISTICS_MODE, DNN_T_HEURISTIC, heuristics.mode),
    LINK(DNN_ENGINE, DNN_ENGINE_GRAPH, engine.graph),
    FIELD(DNN_ENGINE, DNN_ENGINE_INDEX, DNN_T_INT64, engine.index),
    LINK(DNN_ENGINE_CONFIG, DNN_CONFIG_ENGINE, config.engine),
    FIELD(DNN_KNOB_CHOICE, DNN_KNOB_TYPE, DNN_T_KNOB, knob.knob),
    FIELD(DNN_KNOB_CHOICE, DNN_KNOB_VALUE, DNN_T_INT64, knob.value),
    FIELD(DNN_PLAN, DNN_PLAN_HANDLE, DNN_T_HANDLE, plan.handle),
    LINK(DNN_PLAN, DNN_PLAN_CONFIG, plan.config),
    FIELD(DNN_VARIANT_PACK, DNN_PACK_WORKSPACE, DNN_T_POINTER, pack.workspace),
};

static const field *find_field(const descriptor *d, int name, int type)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].owner == d->type && fields[i].name == name)
            return fields[i].type == type ? &fields[i] : NULL;
    return NULL;
}

static int set_knobs(descriptor *d, int64_t n, const void *elements)
{
    descriptor *const *knobs = elements;
    for (int64_t i = 0; i < n; i++) {
        if (!knobs[i]->final)
            return refuse("a knob that is not final");
        if (knobs[i]->knob.knob == DNN_KNOB_STAGES)
            d->config.stages = knobs[i]->knob.value;
    }
    return DNN_SUCCESS;
}

static int set_list(descriptor *d, int name, int type, int64_t n, const void *elements)
{
    if (d->type == DNN_TENSOR && name == DNN_TENSOR_DIMS && n == RANK)
        memcpy(d->tensor.dims, elements, sizeof d->tensor.dims);
    else if (d->type == DNN_TENSOR && name == DNN_TENSOR_STRIDES && n == RANK)
        memcpy(d->tensor.strides, elements, sizeof d->tensor.strides);
    else if (d->type == DNN_GRAPH && name == DNN_GRAPH_OPS && n <= MOST_OPS)
        memcpy(d->graph.ops, elements, (size_t)(d->graph.n = n) * sizeof *d->graph.ops);
    else if (d->type == DNN_ENGINE_CONFIG && name == DNN_CONFIG_KNOBS && n <= MOST_KNOBS)
        return set_knobs(d, n, elements);
    else if (d->type == DNN_VARIANT_PACK && name == DNN_PACK_IDS && n <= DNN_NAMES)
        memcpy(d->pack.ids, elements, (size_t)(d->pack.n_ids = n) * sizeof *d->pack.ids);
    else if (d->type == DNN_VARIANT_PACK && name == DNN_PACK_POINTERS && n <= DNN_NAMES)
        memcpy(d->pack.memory, elements, (size_t)(d->pack.n = n) * sizeof *d->pack.memory);
    else
        return refuse("an attribute of cuDNN that there is not");
    (void)type;
    return DNN_SUCCESS;
}

EXPORT int cudnnBackendSetAttribute(cudnn_descriptor_t of, int name, int type, int64_t n,
                                    const void *elements);
int cudnnBackendSetAttribute(cudnn_descriptor_t of, int name, int type, int64_t n,
                             const void *elements)
{
    descriptor *d = of;
    const field *f = find_field(d, name, type);
    if (d->final)
        return refuse("an attribute of what is final");
    if (!f || n != 1)
        return set_list(d, name, type, n, elements);
    memcpy((char *)d + f->at, elements, f->size);
    if (type != DNN_T_DESCRIPTOR)
        return DNN_SUCCESS;
    descriptor *link;
    memcpy(&link, elements, sizeof link);
    return link && (link->final || link->type == DNN_ENGINE_CONFIG) ? DNN_SUCCESS
                                                                    : refuse("it is not final");
}

/* ---- what there are engines for ---- */

static const tensor *find_tensor(const descriptor *graph, int64_t id)
{
    for (int64_t i = 0; i < graph->graph.n; i++) {
        descriptor *const *links[] = {&graph->graph.ops[i]->op.x, &graph->graph.ops[i]->op.b,
                                      &graph->graph.ops[i]->op.t, &graph->graph.ops[i]->op.y};
        for (size_t k = 0; k < sizeof links / sizeof *links; k++)
            if (*links[k] && (*links[k])->tensor.id == id)
                return &(*links[k])->tensor;
    }
    return NULL;
}

/* As the real one: heads of a multiple of 8, of at most 256 elements, in bf16. */
static bool is_known(const descriptor *graph)
{
    const tensor *q = find_tensor(graph, DNN_Q);
    const char *none = getenv("WEFT_FAKE_CUDNN");
    return q && q->type == DNN_BFLOAT16 && q->dims[3] <= 256 && q->dims[3] % 8 == 0 &&
           !(none && strcmp(none, "none") == 0);
}

static const descriptor *graph_of(const descriptor *config)
{
    return config->config.engine ? config->config.engine->engine.graph : config->config.graph;
}

EXPORT int cudnnBackendFinalize(cudnn_descriptor_t of);
int cudnnBackendFinalize(cudnn_descriptor_t of)
{
    descriptor *d = of;
    if (d->type == DNN_PLAN && !d->plan.config)
        return refuse("a plan without a configuration");
    if (d->type == DNN_PLAN && !is_known(graph_of(d->plan.config)))
        return UNSUPPORTED;
    if (d->type == DNN_VARIANT_PACK && (d->pack.n != d->pack.n_ids || d->pack.n == 0))
        return refuse("as many names as memory");
    d->final = true;
    return DNN_SUCCESS;
}

EXPORT int cudnnBackendGetAttribute(cudnn_descriptor_t of, int name, int type, int64_t most,
                                    int64_t *n, void *elements);
int cudnnBackendGetAttribute(cudnn_descriptor_t of, int name, int type, int64_t most, int64_t *n,
                             void *elements)
{
    descriptor *d = of;
    const int64_t workspace = fake_number("WEFT_FAKE_CUDNN_WORKSPACE", WORKSPACE);
    if (!d->final || most < 1)
        return refuse("asked of what is not final");
    if (d->type == DNN_PLAN && name == DNN_PLAN_WORKSPACE && type == DNN_T_INT64) {
        memcpy(elements, &workspace, sizeof workspace);
        *n = 1;
        return DNN_SUCCESS;
    }
    if (d->type != DNN_HEURISTICS || name != DNN_HEURISTICS_RESULTS)
        return refuse("an attribute of cuDNN that there is not");
    descriptor *const *configs = elements;
    configs[0]->config.graph = d->heuristics.graph;
    configs[0]->final = true;
    *n = is_known(d->heuristics.graph);
    return DNN_SUCCESS;
}

/* ---- execution ---- */

/* Of a graph: what was nowhere has memory here while it runs. */
typedef struct machine {
    descriptor *graph;
    int64_t ids[DNN_NAMES];
    void *memory[DNN_NAMES];
    double values[DNN_NAMES]; /* what was given by value */
    int64_t n;
    bool ordered;
    void *workspace;
    float *made[2 * MOST_OPS]; /* by id - DNN_NAMES */
} machine;

static int64_t count(const tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

static int find_memory(const machine *m, int64_t id)
{
    int i = 0;
    while (i < m->n && m->ids[i] != id)
        i++;
    return i;
}

static float *virtual_memory(machine *m, const tensor *t)
{
    float **made = &m->made[t->id - DNN_NAMES];
    if (!*made)
        *made = calloc((size_t)count(t), sizeof **made);
    return *made;
}

/* Of an index of another tensor: where that has one element for several, or several for one. */
static int64_t place(const tensor *t, const int64_t at[RANK], const int64_t dims[RANK])
{
    int64_t p = 0, packed = 0;
    for (int d = 0; d < RANK; d++) {
        const int64_t i = dims[d] == t->dims[d] ? at[d] : at[d] * t->dims[d] / dims[d];
        p += i * t->strides[d];
        packed = packed * t->dims[d] + i;
    }
    return t->nowhere ? packed : p;
}

static float get(machine *m, const tensor *t, const int64_t at[RANK], const int64_t dims[RANK])
{
    if (t->by_value)
        return (float)m->values[find_memory(m, t->id)];
    const int64_t p = place(t, at, dims);
    if (t->nowhere)
        return virtual_memory(m, t)[p];
    const void *memory = m->memory[find_memory(m, t->id)];
    return t->type == DNN_BFLOAT16 ? weft_bf16_to_f32(((const uint16_t *)memory)[p])
                                   : ((const float *)memory)[p];
}

static void put(machine *m, const tensor *t, const int64_t at[RANK], float x)
{
    const int64_t p = place(t, at, t->dims);
    const float rounded = t->type == DNN_BFLOAT16 ? weft_bf16_to_f32(weft_f32_to_bf16(x)) : x;
    if (t->nowhere)
        virtual_memory(m, t)[p] = rounded;
    else if (t->type == DNN_BFLOAT16)
        ((uint16_t *)m->memory[find_memory(m, t->id)])[p] = weft_f32_to_bf16(x);
    else
        ((float *)m->memory[find_memory(m, t->id)])[p] = x;
}

static bool step(const int64_t dims[RANK], int64_t at[RANK])
{
    for (int d = RANK - 1; d >= 0; d--) {
        if (++at[d] < dims[d])
            return true;
        at[d] = 0;
    }
    return false;
}

static float compute(int mode, float x, float b)
{
    switch (mode) {
    case DNN_ADD:
        return x + b;
    case DNN_MUL:
        return x * b;
    case DNN_DIV:
        return x / b;
    case DNN_SUB:
        return x - b;
    case DNN_EXP:
        return expf(x);
    case DNN_LOG:
        return logf(x);
    case DNN_CMP_GE:
        return x >= b;
    default:
        return x;
    }
}

static void run_pointwise(machine *m, const descriptor *op)
{
    const tensor *y = &op->op.y->tensor;
    const how *h = &op->op.how->how;
    int64_t at[RANK] = {0};
    do {
        float x =
            h->mode == DNN_GEN_INDEX ? (float)at[h->axis] : get(m, &op->op.x->tensor, at, y->dims);
        const float b = op->op.b ? get(m, &op->op.b->tensor, at, y->dims) : 0;
        if (h->mode == DNN_SELECT)
            x = get(m, &op->op.t->tensor, at, y->dims) != 0 ? x : b;
        put(m, y, at, compute(h->mode, x, b));
    } while (step(y->dims, at));
}

static void run_matmul(machine *m, const descriptor *op)
{
    static int64_t start; /* no two launches add in one order */
    const tensor *a = &op->op.x->tensor, *b = &op->op.b->tensor, *c = &op->op.y->tensor;
    const int64_t terms = a->dims[3];
    const int64_t first = c->id == DNN_DQ_SUMS && !m->ordered ? ++start * 7 : 0;
    int64_t at[RANK] = {0};
    do {
        float sum = 0;
        for (int64_t n = 0; n < terms; n++) {
            const int64_t k = (n + first) % terms;
            const int64_t left[] = {at[0], at[1], at[2], k}, right[] = {at[0], at[1], k, at[3]},
                          l[] = {c->dims[0], c->dims[1], c->dims[2], terms},
                          r[] = {c->dims[0], c->dims[1], terms, c->dims[3]};
            sum += get(m, a, left, l) * get(m, b, right, r);
        }
        put(m, c, at, sum);
    } while (step(c->dims, at));
}

static void run_reduction(machine *m, const descriptor *op)
{
    const tensor *x = &op->op.x->tensor, *y = &op->op.y->tensor;
    const bool most = op->op.how->how.mode == DNN_MAX;
    int64_t at[RANK] = {0}, to[RANK];
    float *sums = malloc((size_t)count(y) * sizeof *sums);
    tensor packed = *y;
    packed.nowhere = true;
    for (int64_t i = 0; i < count(y); i++)
        sums[i] = most ? -INFINITY : 0;
    do {
        float *sum = &sums[place(&packed, at, x->dims)], v = get(m, x, at, x->dims);
        *sum = most ? fmaxf(*sum, v) : *sum + v;
    } while (step(x->dims, at));
    memset(to, 0, sizeof to);
    do
        put(m, y, to, sums[place(&packed, to, y->dims)]);
    while (step(y->dims, to));
    free(sums);
}

/* The last two dims change places. */
static void run_reshape(machine *m, const descriptor *op)
{
    const tensor *x = &op->op.x->tensor, *y = &op->op.y->tensor;
    int64_t at[RANK] = {0};
    do {
        const int64_t from[] = {at[0], at[1], at[3], at[2]};
        put(m, y, at, get(m, x, from, x->dims));
    } while (step(y->dims, at));
}

static void run(const void *what)
{
    machine m = *(const machine *)what;
    memset(m.workspace, 0xff, WORKSPACE);
    fake.attentions++;
    for (int64_t i = 0; i < m.graph->graph.n; i++) {
        const descriptor *op = m.graph->graph.ops[i];
        if (op->type == DNN_POINTWISE_OP)
            run_pointwise(&m, op);
        else if (op->type == DNN_MATMUL_OP)
            run_matmul(&m, op);
        else if (op->type == DNN_REDUCTION_OP)
            run_reduction(&m, op);
        else
            run_reshape(&m, op);
    }
    for (size_t i = 0; i < sizeof m.made / sizeof *m.made; i++)
        free(m.made[i]);
}

/* ---- what is refused ---- */

static const char *find_wrong(const machine *m)
{
    for (int64_t id = 1; id < DNN_NAMES; id++) {
        const tensor *t = find_tensor(m->graph, id);
        const int i = find_memory(m, id);
        if (!t)
            continue;
        int64_t last = 0;
        for (int d = 0; d < RANK; d++)
            last += (t->dims[d] - 1) * t->strides[d];
        const size_t bytes = (size_t)(last + 1) * (t->type == DNN_BFLOAT16 ? 2 : 4);
        if (i == m->n)
            return "a tensor of cuDNN's graph has no memory";
        if (t->by_value)
            continue;
        if ((uintptr_t)m->memory[i] % (uintptr_t)t->alignment)
            return "a tensor of cuDNN's does not begin where it was said to";
        if (!fake_owns(m->memory[i], bytes))
            return "a tensor of cuDNN's is not all in the GPU's memory";
    }
    return (uintptr_t)m->workspace % 256 || !fake_owns(m->workspace, WORKSPACE)
               ? "cuDNN's workspace is not there"
               : NULL;
}

static void load(descriptor *plan, CUstream stream)
{
    const bool first = !plan->plan.loaded;
    plan->plan.loaded = true;
    fake.late_libraries += first && fake.told > 0;
    if (first && !fake_is_capturing(stream))
        fake_drain();
}

EXPORT int cudnnBackendExecute(cudnn_handle_t handle, cudnn_descriptor_t plan,
                               cudnn_descriptor_t with);
int cudnnBackendExecute(cudnn_handle_t handle, cudnn_descriptor_t plan, cudnn_descriptor_t with)
{
    descriptor *p = plan;
    const descriptor *pack = with, *config = p->plan.config, *engine = config->config.engine;
    if (!p->final || !pack->final || p->plan.handle != handle || !handle->stream)
        return refuse("a plan of another handle, or without a stream");
    machine m = {.graph = (descriptor *)(uintptr_t)graph_of(config),
                 .n = pack->pack.n,
                 .workspace = pack->pack.workspace,
                 .ordered = engine && engine->engine.index == 6 && config->config.stages == 4};
    memcpy(m.ids, pack->pack.ids, sizeof m.ids);
    memcpy(m.memory, pack->pack.memory, sizeof m.memory);
    const char *wrong = find_wrong(&m);
    if (wrong)
        return refuse(wrong);
    for (int64_t i = 0; i < m.n; i++)
        if (m.ids[i] >= DNN_SCALE)
            m.values[i] = *(const float *)m.memory[i];
    load(p, handle->stream);
    return fake_enqueue(handle->stream, run, &m, sizeof m) == CUDA_SUCCESS ? DNN_SUCCESS : BAD;
}

const cuda_dnn_api *fake_dnn_api(void)
{
    static const cuda_dnn_api api = {
#define NAME(function) .function = function,
        CUDA_DNN_FUNCTIONS(NAME)
#undef NAME
    };
    return &api;
}
