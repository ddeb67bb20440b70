/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN: the library, and plans of graphs by it. */
#include "dnn.h"

#include <stdio.h>
#include <string.h>

/* ---- the library ---- */

weft_status cuda_dnn_api_open(cuda_dnn_api *api, const char *library, weft_error *err)
{
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define FUNCTION(name) {#name, offsetof(cuda_dnn_api, name)},
        CUDA_DNN_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    enum { N = sizeof functions / sizeof *functions };
    _Static_assert(N * sizeof(void *) == sizeof *api, "a field of cuda_dnn_api has no name");
    void *handle, *found;
    weft_status s = cuda_library_open(&handle, library, "cuDNN 9",
                                      "It comes with NVIDIA's packages (libcudnn9-cuda-13) and "
                                      "with PyTorch's; [cuda] cudnn = PATH says where it is, and "
                                      "attention = own does without it",
                                      err);
    for (int i = 0; i < N && !s; i++) {
        s = cuda_library_find(handle, library, functions[i].name, &found, err);
        if (!s)
            memcpy((char *)api + functions[i].at, &found, sizeof found);
    }
    if (s || api->cudnnGetVersion() >= DNN_OLDEST)
        return s;
    char version[32];
    cuda_dnn_version(api, version);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s is cuDNN %s; weft needs 9.10 or a later one; [cuda] attention = own does "
                     "without it",
                     library, version);
}

void cuda_dnn_version(const cuda_dnn_api *api, char text[32])
{
    const size_t v = api->cudnnGetVersion();
    snprintf(text, 32, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

weft_status cuda_dnn_create(const char *library, int capability, bool ordered, cuda_dnn **out,
                            weft_error *err)
{
    cuda_dnn *dnn = *out = weft_alloc_zero(1, sizeof *dnn);
    if (!dnn)
        return weft_fail_memory(err);
    dnn->capability = capability;
    dnn->ordered = ordered;
    weft_status s = cuda_dnn_api_open(&dnn->api, library, err);
    const int status = s ? DNN_SUCCESS : dnn->api.cudnnCreate(&dnn->handle);
    if (!s && status != DNN_SUCCESS)
        s = weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE, "cudnnCreate: cuDNN says %d, %s", status,
                      dnn->api.cudnnGetErrorString(status));
    if (!s)
        return WEFT_OK;
    weft_free(dnn);
    *out = NULL;
    return s;
}

void cuda_dnn_close(cuda_dnn *dnn)
{
    if (dnn && dnn->handle)
        dnn->api.cudnnDestroy(dnn->handle);
    if (dnn)
        dnn->handle = NULL;
}

void cuda_dnn_destroy(cuda_dnn *dnn)
{
    weft_free(dnn);
}

/* ---- plans ---- */

enum { MOST_CONFIGS = 8, MOST_KNOBS = 6 };

struct cuda_dnn_plan {
    cuda_dnn *dnn;
    cuda_dnn_plan *next;  /* of dnn->plans */
    cuda_dnn_graph graph; /* what it was made of, which it may refer to */
    cudnn_descriptor_t plan;
    int64_t workspace;
    cuda_dnn_attention attention;
};

void cuda_dnn_plan_destroy(cuda_dnn_plan *plan)
{
    if (!plan)
        return;
    cuda_dnn_plan **at = &plan->dnn->plans;
    while (*at && *at != plan)
        at = &(*at)->next;
    if (*at)
        *at = plan->next;
    for (int i = plan->graph.n - 1; i >= 0; i--)
        plan->dnn->api.cudnnBackendDestroyDescriptor(plan->graph.all[i]);
    weft_free(plan);
}

/* A GPU that is there, by its handle, or properties of one. */
static void set_device(cuda_dnn_graph *g, cudnn_descriptor_t d, int handle_name, int device_name)
{
    if (g->dnn->handle && handle_name >= 0)
        cuda_dnn_set(g, d, handle_name, DNN_T_HANDLE, 1, &g->dnn->handle);
    else if (!g->dnn->handle && device_name >= 0)
        cuda_dnn_set_descriptor(g, d, device_name, g->dnn->device);
}

static cudnn_descriptor_t make_graph(cuda_dnn_graph *g)
{
    cudnn_descriptor_t graph = cuda_dnn_make(g, DNN_GRAPH);
    set_device(g, graph, DNN_GRAPH_HANDLE, -1);
    cuda_dnn_set(g, graph, DNN_GRAPH_OPS, DNN_T_DESCRIPTOR, g->n_ops, g->ops);
    cuda_dnn_finish(g, graph);
    return graph;
}

/* Ways to do it, the best first; what it refuses to name is no way. */
static int ask(cuda_dnn_graph *g, cudnn_descriptor_t graph, int mode, cudnn_descriptor_t *configs,
               int most)
{
    int64_t n = 0;
    cudnn_descriptor_t heuristics = cuda_dnn_make(g, DNN_HEURISTICS);
    cuda_dnn_set_descriptor(g, heuristics, DNN_HEURISTICS_GRAPH, graph);
    cuda_dnn_set(g, heuristics, DNN_HEURISTICS_MODE, DNN_T_HEURISTIC, 1, &mode);
    set_device(g, heuristics, -1, DNN_HEURISTICS_DEVICE);
    cuda_dnn_finish(g, heuristics);
    for (int i = 0; i < most; i++)
        configs[i] = cuda_dnn_make(g, DNN_ENGINE_CONFIG);
    if (!g->status)
        g->status = g->dnn->api.cudnnBackendGetAttribute(heuristics, DNN_HEURISTICS_RESULTS,
                                                         DNN_T_DESCRIPTOR, most, &n, configs);
    return g->status ? 0 : (int)n;
}

/* Hopper's engine adds to the sums of dq in a fixed order, if asked to. */
static bool orders_sums(const cuda_dnn *dnn)
{
    return dnn->capability == 90 && dnn->api.cudnnGetVersion() >= DNN_ORDERED_HOPPER;
}

/* Blackwell's is another one. All others have a fixed order where they do without sums. */
static bool names_ordered(const cuda_dnn *dnn)
{
    return orders_sums(dnn) ||
           (dnn->capability / 10 == 10 && dnn->api.cudnnGetVersion() >= DNN_ORDERED_BLACKWELL);
}

/* The engine whose sums of dq have a fixed order, as NVIDIA's cudnn-frontend asks for it (of Hopper
 * in its pull request 398, of 2026). The library does not say which one has: its engines' numerical
 * notes are alike. */
static bool make_ordered(cuda_dnn_graph *g, cudnn_descriptor_t graph, int64_t d,
                         cudnn_descriptor_t *config)
{
    typedef struct choice {
        int knob;
        int64_t value;
    } choice;
    const bool hopper = orders_sums(g->dnn),
               tiles = g->dnn->api.cudnnGetVersion() >= DNN_NAMED_TILES;
    const int64_t index = hopper ? 6 : 5, stages = hopper ? 4 : d > 128 ? 3 : 2;
    const choice old[] = {{DNN_KNOB_KERNEL, 31}, {DNN_KNOB_STAGES, stages}},
                 named[MOST_KNOBS] = {{DNN_KNOB_TILE_M, hopper ? 2 : 3},
                                      {DNN_KNOB_TILE_N, hopper ? 1 : 2},
                                      {DNN_KNOB_KERNEL, 2},
                                      {DNN_KNOB_STREAM_K, 0},
                                      {DNN_KNOB_CLUSTER_M, 0},
                                      {DNN_KNOB_STAGES, stages}};
    const choice *list = tiles ? named : old;
    const int n = tiles ? MOST_KNOBS : 2;
    cudnn_descriptor_t knobs[MOST_KNOBS], engine = cuda_dnn_make(g, DNN_ENGINE);
    cuda_dnn_set_descriptor(g, engine, DNN_ENGINE_GRAPH, graph);
    cuda_dnn_set(g, engine, DNN_ENGINE_INDEX, DNN_T_INT64, 1, &index);
    set_device(g, engine, -1, DNN_ENGINE_DEVICE);
    cuda_dnn_finish(g, engine);
    for (int i = 0; i < n; i++) {
        knobs[i] = cuda_dnn_make(g, DNN_KNOB_CHOICE);
        cuda_dnn_set(g, knobs[i], DNN_KNOB_TYPE, DNN_T_KNOB, 1, &list[i].knob);
        cuda_dnn_set(g, knobs[i], DNN_KNOB_VALUE, DNN_T_INT64, 1, &list[i].value);
        cuda_dnn_finish(g, knobs[i]);
    }
    *config = cuda_dnn_make(g, DNN_ENGINE_CONFIG);
    cuda_dnn_set_descriptor(g, *config, DNN_CONFIG_ENGINE, engine);
    cuda_dnn_set(g, *config, DNN_CONFIG_KNOBS, DNN_T_DESCRIPTOR, n, knobs);
    cuda_dnn_finish(g, *config);
    return !g->status;
}

/* Not every way that heuristics name can be gone. */
static bool take(cuda_dnn_plan *p, cudnn_descriptor_t config, size_t most)
{
    cuda_dnn_graph *g = &p->graph;
    int64_t n = 0;
    cudnn_descriptor_t plan = cuda_dnn_make(g, DNN_PLAN);
    set_device(g, plan, DNN_PLAN_HANDLE, DNN_PLAN_DEVICE);
    cuda_dnn_set_descriptor(g, plan, DNN_PLAN_CONFIG, config);
    cuda_dnn_finish(g, plan);
    if (!g->status)
        g->status = g->dnn->api.cudnnBackendGetAttribute(plan, DNN_PLAN_WORKSPACE, DNN_T_INT64, 1,
                                                         &n, &p->workspace);
    const bool good = !g->status && p->workspace >= 0 && (size_t)p->workspace <= most;
    if (good)
        p->plan = plan;
    g->status = DNN_SUCCESS;
    return good;
}

static void find(cuda_dnn_plan *p, const cuda_dnn_attention *a, size_t most)
{
    static const int modes[] = {DNN_BEST, DNN_FALLBACK};
    cuda_dnn_graph *g = &p->graph;
    cudnn_descriptor_t configs[MOST_CONFIGS], graph;
    cuda_dnn_describe(g, a);
    graph = make_graph(g);
    if (g->status)
        return;
    if (g->dnn->ordered && a->backward && names_ordered(g->dnn)) {
        if (make_ordered(g, graph, a->d, configs))
            take(p, configs[0], most);
        return;
    }
    for (int m = 0; m < 2 && !p->plan && !g->status; m++) {
        const int n = ask(g, graph, modes[m], configs, MOST_CONFIGS);
        for (int i = 0; i < n && !p->plan; i++)
            take(p, configs[i], most);
    }
}

weft_status cuda_dnn_plan_create(cuda_dnn *dnn, const cuda_dnn_attention *a, size_t most,
                                 cuda_dnn_plan **out, const char **why, weft_error *err)
{
    *out = NULL;
    cuda_dnn_plan *p = weft_alloc_zero(1, sizeof *p);
    if (!p)
        return weft_fail_memory(err);
    p->graph.dnn = p->dnn = dnn;
    p->next = dnn->plans;
    dnn->plans = p;
    p->attention = *a;
    p->attention.whole = a->whole || (dnn->ordered && a->backward && !orders_sums(dnn));
    find(p, &p->attention, most);
    if (why)
        *why = p->graph.status ? dnn->api.cudnnGetErrorString(p->graph.status)
               : p->plan       ? NULL
                               : "no engine takes it";
    if (p->plan)
        *out = p;
    else
        cuda_dnn_plan_destroy(p);
    return WEFT_OK;
}

static int64_t up(int64_t n)
{
    return (n + 63) / 64 * 64;
}

/* Seen of 9.19 and 9.28 for Ampere, Hopper and Blackwell: sums of dq once more, dk and dv of each
 * query head where these share key heads, a number for each block, and a little. */
size_t cuda_dnn_bound(const cuda_dnn_attention *a)
{
    const int64_t heads = a->batch * a->heads, q = up(a->q_rows), k = up(a->k_rows);
    const bool shared = a->heads != a->kv_heads;
    if (!a->backward)
        return 4096;
    return (size_t)(4096 + 4 * heads * a->d * (q + (shared ? k : 0)) + heads * q / 4);
}

size_t cuda_dnn_plan_workspace(const cuda_dnn_plan *plan)
{
    return (size_t)plan->workspace;
}

/* ---- launches ---- */

/* As graphs name them; of what a plan does not have NULL. */
static int list_names(const cuda_dnn_plan *p, int64_t *names)
{
    static const int forward[] = {DNN_Q, DNN_K, DNN_V, DNN_OUT, DNN_LSE, DNN_SCALE},
                     backward[] = {DNN_Q,  DNN_K,  DNN_V,  DNN_OUT,   DNN_LSE,   DNN_DOUT,
                                   DNN_DQ, DNN_DK, DNN_DV, DNN_DELTA, DNN_SCALE, DNN_ONE};
    const int *list = p->attention.backward ? backward : forward;
    int n = p->attention.backward ? sizeof backward / sizeof *backward
                                  : sizeof forward / sizeof *forward;
    for (int i = 0; i < n; i++)
        names[i] = list[i];
    if (p->attention.backward && !p->attention.whole)
        names[n++] = DNN_DQ_SUMS;
    if (p->attention.causal)
        names[n++] = DNN_LOWEST;
    return n;
}

weft_status cuda_dnn_plan_launch(const cuda_dnn_plan *plan, const weft_queue *queue,
                                 void *const *memory, void *workspace, weft_error *err)
{
    const cuda_dnn *dnn = plan->dnn;
    cuda_dnn_graph g = {.dnn = dnn};
    int64_t names[DNN_NAMES];
    void *pointers[DNN_NAMES];
    const int n = list_names(plan, names);
    for (int i = 0; i < n; i++)
        pointers[i] = memory[names[i]];
    cudnn_descriptor_t pack = cuda_dnn_make(&g, DNN_VARIANT_PACK);
    cuda_dnn_set(&g, pack, DNN_PACK_POINTERS, DNN_T_POINTER, n, pointers);
    cuda_dnn_set(&g, pack, DNN_PACK_IDS, DNN_T_INT64, n, names);
    cuda_dnn_set(&g, pack, DNN_PACK_WORKSPACE, DNN_T_POINTER, 1, &workspace);
    cuda_dnn_finish(&g, pack);
    if (!g.status) {
        g.at = "cudnnSetStream";
        g.status = dnn->api.cudnnSetStream(dnn->handle, queue->stream);
    }
    if (!g.status) {
        g.at = "cudnnBackendExecute";
        g.status = dnn->api.cudnnBackendExecute(dnn->handle, plan->plan, pack);
    }
    if (pack)
        dnn->api.cudnnBackendDestroyDescriptor(pack);
    if (g.status)
        return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE, "%s: cuDNN says %d, %s", g.at, g.status,
                         dnn->api.cudnnGetErrorString(g.status));
    return cuda_enqueued(queue, CUDA_SUCCESS, "cudnnBackendExecute", err);
}

/* ---- all of them, once ---- */

size_t cuda_dnn_attention_bytes(const cuda_dnn_attention *a, size_t workspace)
{
    const int64_t q = a->heads * a->q_rows, k = a->kv_heads * a->k_rows;
    const size_t bytes = (size_t)(a->batch * a->d * (q > k ? q : k)) * sizeof(float);
    return (bytes + 255) / 256 * 256 + workspace;
}

size_t cuda_dnn_scratch(const cuda_dnn *dnn)
{
    size_t most = 0;
    for (const cuda_dnn_plan *p = dnn ? dnn->plans : NULL; p; p = p->next) {
        const size_t bytes = cuda_dnn_attention_bytes(&p->attention, (size_t)p->workspace);
        most = bytes > most ? bytes : most;
    }
    return most;
}

weft_status cuda_dnn_launch_all(const cuda_dnn *dnn, const weft_queue *queue, CUdeviceptr memory,
                                weft_error *err)
{
    float number = 1.0f;
    weft_status s = WEFT_OK;
    for (const cuda_dnn_plan *p = dnn ? dnn->plans : NULL; p && !s; p = p->next) {
        void *at[DNN_NAMES];
        for (int i = 0; i < DNN_NAMES; i++)
            at[i] = i < DNN_SCALE ? (void *)(uintptr_t)memory : &number;
        s = cuda_dnn_plan_launch(
            p, queue, at, (void *)(uintptr_t)(memory + cuda_dnn_attention_bytes(&p->attention, 0)),
            err);
    }
    return s;
}
