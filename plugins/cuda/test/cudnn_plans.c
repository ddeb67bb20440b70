/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_plans LIBRARY: asks the real cuDNN for plans of the attentions of examples/, for GPUs that
 * need not be there: a sample of them, with WEFT_LONG all; without LIBRARY prints which examples it
 * has. Beside it must be a libcuda.so.1, as stub_driver.c. Prints TAP; the workspace
 * must be no more than the plan of a run has for it. */
#include "dnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the library asks of a GPU; two names for some, by version. */
typedef struct device {
    const char *name;
    int capability, sms, l2, clock, memory_clock, bus, shared_sm, shared_block;
    double memory;
} device;

static const device gpus[] = {
    {"H100", 90, 132, 52428800, 1980000, 2619000, 5120, 233472, 232448, 85017755648.0},
    {"A100", 80, 108, 41943040, 1410000, 1593000, 5120, 167936, 166912, 85095874560.0},
    {"B200", 100, 148, 132644864, 1965000, 3996000, 8192, 233472, 232448, 191500000000.0},
};

static const char *const format =
    "{\"deviceName\":\"%s\",\"major\":%d,\"minor\":%d,\"ccMajor\":%d,\"ccMinor\":%d,"
    "\"deviceVer\":%d,\"smVersion\":%d,\"multiProcessorCount\":%d,\"l2CacheSize\":%d,"
    "\"smClockRateKHz\":%d,\"memClockRateKHz\":%d,\"memoryBusWidth\":%d,\"memBusWidth\":%d,"
    "\"globalMemoryBusWidth\":%d,\"maxSharedMemoryPerSM\":%d,\"maxSharedMemoryPerBlockOptin\":%d,"
    "\"totalGlobalMem\":%.0f,\"cudnnVersion\":%zu,\"maxGridSize\":[2147483647,65535,65535],"
    "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"driverVer\":13000,\"cudartVersion\":13000,\"cudaDriverVersion\":13000,\"cudaDeviceId\":0,"
    "\"schemaVersion\":1}";

/* A rank's part. ring: of a step where a half of the queries sees all keys, and one where all see
 * a half. */
typedef struct attention {
    const char *examples;
    int64_t batch, heads, kv_heads, d, seq;
    bool ring;
    unsigned sample; /* for these of gpus, a bit each */
} attention;

static const attention list[] = {
    {"8b-plan.ini", 1, 32, 8, 128, 8192, false, 1 | 4},
    {"70b-plan.ini 70b-overlap-plan.ini", 1, 8, 1, 128, 8192, false, 0},
    {"405b-plan.ini 405b-pp-plan.ini", 1, 16, 1, 128, 8192, false, 0},
    {"120b-offload-plan.ini", 32, 96, 8, 128, 4096, false, 0},
    {"8b-1m-plan.ini", 1, 4, 1, 128, 131072, true, 1},
    {"llama-125m.ini", 8, 12, 4, 64, 1024, false, 2},
    {"gpt2-small.ini", 2, 12, 12, 64, 512, false, 0},
    {"demo.ini", 8, 6, 3, 64, 256, false, 0},
    {"offload.ini", 4, 32, 8, 64, 1024, false, 0},
    {"first.ini", 8, 4, 2, 32, 128, false, 0},
    {"studies/layouts.ini", 4, 4, 4, 16, 64, false, 0},
    {"sums/sums.ini", 4, 4, 4, 24, 96, false, 0},
};

static bool is_long(void)
{
    const char *whole = getenv("WEFT_LONG");
    return whole && *whole;
}

static bool set_device(cuda_dnn *dnn, const device *g)
{
    char text[2048];
    const int major = g->capability / 10, minor = g->capability % 10;
    const int n =
        snprintf(text, sizeof text, format, g->name, major, minor, major, minor, 10 * g->capability,
                 10 * g->capability, g->sms, g->l2, g->clock, g->memory_clock, g->bus, g->bus,
                 g->bus, g->shared_sm, g->shared_block, g->memory, dnn->api.cudnnGetVersion());
    dnn->capability = g->capability;
    return !dnn->api.cudnnBackendCreateDescriptor(DNN_DEVICE, &dnn->device) &&
           !dnn->api.cudnnBackendSetAttribute(dnn->device, DNN_DEVICE_JSON, DNN_T_CHAR, n, text) &&
           !dnn->api.cudnnBackendFinalize(dnn->device);
}

static int tests, failed;

/* Blocks that take turns must count: so many bytes more than where they do not. */
static bool has_counters(cuda_dnn *dnn, const cuda_dnn_attention *of, const cuda_dnn_plan *ordered)
{
    const size_t least = 4 * (size_t)(of->batch * of->heads * ((of->queries + 63) / 64));
    weft_error err = {0};
    cuda_dnn_plan *any = NULL;
    dnn->ordered = false;
    weft_status s = cuda_dnn_plan_create(dnn, of, cuda_dnn_bound(of), &any, NULL, &err);
    dnn->ordered = true;
    const bool has =
        !s && any && cuda_dnn_plan_workspace(ordered) >= cuda_dnn_plan_workspace(any) + least;
    cuda_dnn_plan_destroy(any);
    weft_error_release(&err);
    return has;
}

static void ask(cuda_dnn *dnn, const char *gpu, const attention *a, const cuda_dnn_attention *of,
                const char *what)
{
    const char *why = NULL;
    weft_error err = {0};
    cuda_dnn_plan *plan = NULL;
    const size_t most = cuda_dnn_bound(of);
    const weft_status s = cuda_dnn_plan_create(dnn, of, most, &plan, &why, &err);
    const bool counts = !plan || !dnn->ordered || !of->backward || has_counters(dnn, of, plan);
    const bool good = !s && plan && counts;
    failed += !good;
    printf("%sok %d - %s, %s, %s %s%s: ", good ? "" : "not ", ++tests, gpu, a->examples,
           of->backward ? "backward" : "forward", what, dnn->ordered ? ", ordered" : "");
    if (!counts)
        printf("its blocks have no counters by which they could take turns\n");
    else if (plan)
        printf("workspace %zu of %zu\n", cuda_dnn_plan_workspace(plan), most);
    else
        printf("%s\n", why ? why : weft_error_text(&err));
    cuda_dnn_plan_destroy(plan);
    weft_error_release(&err);
    fflush(stdout);
}

static void ask_all(cuda_dnn *dnn, const char *gpu, const attention *a)
{
    cuda_dnn_attention of = {.batch = a->batch,
                             .heads = a->heads,
                             .kv_heads = a->kv_heads,
                             .d = a->d,
                             .queries = a->seq,
                             .keys = a->seq,
                             .q_rows = a->seq,
                             .k_rows = a->seq,
                             .causal = true};
    for (int backward = 0; backward < 2; backward++) {
        of.backward = backward;
        if (!is_long() && !backward && tests > 0)
            continue;
        if (is_long() || !a->ring)
            ask(dnn, gpu, a, &of, "of all");
        if (!a->ring)
            continue;
        of.causal = false;
        of.queries = a->seq / 2;
        ask(dnn, gpu, a, &of, "of half the queries");
        of.queries = a->seq;
        of.keys = a->seq / 2;
        ask(dnn, gpu, a, &of, "of half the keys");
        of.keys = a->seq;
        of.causal = true;
    }
}

int main(int argc, char **argv)
{
    weft_error err = {0};
    const int n = sizeof list / sizeof *list, n_gpus = sizeof gpus / sizeof *gpus;
    cuda_dnn dnn = {.handle = NULL};
    for (int i = 0; i < n && argc < 2; i++)
        printf("%s\n", list[i].examples);
    if (argc < 2)
        return 0;
    if (cuda_dnn_api_open(&dnn.api, argv[1], &err)) {
        printf("# %s\n", weft_error_text(&err));
        return 2;
    }
    for (int g = 0; g < n_gpus; g++) {
        if (!set_device(&dnn, &gpus[g])) {
            printf("# cuDNN %zu does not take the properties of a %s\n", dnn.api.cudnnGetVersion(),
                   gpus[g].name);
            return 3;
        }
        for (int i = 0; i < n; i++)
            if (is_long() || list[i].sample >> g & 1)
                ask_all(&dnn, gpus[g].name, &list[i]);
        dnn.ordered = g == 0 && dnn.api.cudnnGetVersion() >= DNN_ORDERED_HOPPER;
        for (int i = 0; i < n && dnn.ordered; i += is_long() ? 3 : n)
            ask_all(&dnn, gpus[g].name, &list[i]);
        dnn.ordered = false;
        dnn.api.cudnnBackendDestroyDescriptor(dnn.device);
    }
    printf("1..%d\n", tests);
    return failed != 0;
}
