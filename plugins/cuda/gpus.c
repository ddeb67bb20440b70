/* SPDX-License-Identifier: Apache-2.0 */
/* What GPUs reach, for plans that are made without one.
 *
 * Peaks, memory and links are the vendor's: the data sheets of the A100 (2021), H100 (2023), H200
 * and HGX B200 (2024) in their SXM form, with dense products, half of what is printed where that is
 * for sparse ones; the Ada architecture's white paper for the RTX 4090, sums in f32. A link is half
 * of NVLink's sum of both ways, of the 4090 PCIe 4.0's 16 lanes; the network is that of the DGX of
 * the time, a card a GPU (HDR, NDR), of the 4090 a guess. To the host all have 16 lanes of
 * PCIe, 4.0 or 5.0.
 *
 * What is reached of a peak: of products, the best that ml-engineering's search of shapes ("maximum
 * achievable matmul flops") found for A100, H100 and B200; of attention, FlashAttention-2's
 * published forward and backward of long causal sequences with heads of 128 elements (for B200 and
 * 4090 a guess). Ours is made of the same instructions, but executes nine products for its seven,
 * eleven with heads of more than 128 elements, which it tells (cuda_attention_work); and it may
 * reach half of that rate, a guess (UNSURE): its warps have 16 rows each, so that shared memory is
 * read twice as often as there.
 *
 * cuDNN's attention, causal, heads of 128 elements, 8192 places, forward and backward in 1e12
 * flop/s: of an H100 529 and 518, charts of FlashAttention-3's paper (arXiv 2407.08608); of others
 * NVIDIA's own figures in cudnn-frontend (benchmark/attention_training, llama3.1, 2026): H200 655
 * and 526 (ordered: 463), A100 on PCIe 177 and 136, GB200 1646 and 1344. An H200 is taken for an
 * H100, a B200 for less than a GB200, a 4090 for FlashAttention-2, which is a guess. Of 2048 places
 * an H200 has 534 and 402: the range is down to there.
 *
 * Of links, bus bandwidths of nccl-tests as they are commonly shown; of memory, a copy. What a hop
 * takes are NCCL's own figures for rings (LL128, tuning.cc). A launch is a kernel behind another in
 * a captured graph: a guess. */
#include "device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct cuda_known {
    const char *key, *title;
    double bf16, f8, f32, bandwidth; /* 1e12 flop/s, 1e12 bytes/s */
    double memory;                   /* GiB */
    double link, net, host_link;     /* 1e9 bytes/s */
    double product, product8, attention, cudnn;
    int sms, host;
    bool
        narrow_rows; /* cuBLASLt has products in 8 bits with a scale for each row on Hopper alone */
} known[] = {
    {"a100", "A100 SXM", 312, 0, 19.5, 2.039, 80, 300, 25, 32, 0.87, 0.87, 0.58, 0.47, 108, 8,
     false},
    {"h100", "H100 SXM", 989.4, 1978.9, 66.9, 3.35, 80, 450, 50, 64, 0.80, 0.71, 0.31, 0.52, 132, 8,
     true},
    {"h200", "H200 SXM", 989.4, 1978.9, 66.9, 4.8, 141, 450, 50, 64, 0.80, 0.73, 0.31, 0.52, 132, 8,
     true},
    {"b200", "B200 SXM", 2250, 4500, 75, 8, 180, 900, 50, 64, 0.775, 0.76, 0.15, 0.50, 148, 8,
     false},
    {"4090", "RTX 4090", 165.2, 330.3, 82.6, 1.008, 24, 32, 12.5, 32, 0.85, 0.8, 0.75, 0.75, 128, 8,
     false},
};

/* What is reached of memory's and of links' rates; seconds. */
#define REACHED_MEMORY 0.9
#define REACHED_LINK   0.8
#define REACHED_NET    0.9
#define LAUNCH         2e-6
#define UNSURE         2
#define HOP_LINK       1.9e-6
#define HOP_NET        4.0e-6

enum {
    PEAK_BF16,
    PEAK_F8,
    PEAK_F32,
    BANDWIDTH,
    MEMORY,
    LINK,
    NET,
    HOST_LINK,
    PRODUCT,
    PRODUCT8,
    ATTENTION,
    LAUNCH_S,
    HOP,
    NET_HOP,
    SMS,
    HOST,
    KEYS
};

/* What the user may say of a GPU, and between what limits. */
static const struct key {
    const char *name;
    double min, max;
    bool whole;
} keys[KEYS] = {
    [PEAK_BF16] = {"bf16", 1, 1e18},
    [PEAK_F8] = {"f8", 0, 1e18},
    [PEAK_F32] = {"f32", 1, 1e18},
    [BANDWIDTH] = {"bandwidth", 1, 1e16},
    [MEMORY] = {"memory", 1, 1e15},
    [LINK] = {"link", 1, 1e15},
    [NET] = {"net", 1, 1e15},
    [HOST_LINK] = {"host_link", 1, 1e15},
    [PRODUCT] = {"product", 0.01, 1},
    [PRODUCT8] = {"product8", 0.01, 1},
    [ATTENTION] = {"attention", 0.01, 1},
    [LAUNCH_S] = {"launch", 0, 1},
    [HOP] = {"hop", 0, 1},
    [NET_HOP] = {"net_hop", 0, 1},
    [SMS] = {"sms", 1, 1e4, true},
    [HOST] = {"host", 1, 1e6, true},
};

static void fill(const double *v, cuda_gpu *gpu)
{
    weft_device_rates *r = &gpu->rates;
    const double peaks[] = {v[PEAK_BF16], v[PEAK_F8], v[PEAK_F32]};
    r->peak[WEFT_BF16] = peaks[0];
    r->peak[WEFT_F8E4M3] = r->peak[WEFT_F8E5M2] = peaks[1];
    r->peak[WEFT_F32] = peaks[2];
    for (int i = 0; i < WEFT_DTYPES; i++) {
        r->product[i] = r->peak[i] * (weft_dtype_is_f8((weft_dtype)i) ? v[PRODUCT8] : v[PRODUCT]);
        r->attention[i] = r->peak[i] * v[ATTENTION];
    }
    if (v[PEAK_F8] <= 0) /* values in 8 bits are widened */
        for (int i = 0; i < WEFT_DTYPES; i++)
            if (weft_dtype_is_f8((weft_dtype)i)) {
                r->peak[i] = r->peak[WEFT_BF16];
                r->product[i] = r->product[WEFT_BF16];
            }
    r->other = v[PEAK_F32];
    r->memory = REACHED_MEMORY * v[BANDWIDTH];
    r->launch_s = v[LAUNCH_S];
    r->skips_masked = true;
    r->memory_bytes = (int64_t)v[MEMORY];
    r->one_a_process = true;
    r->host = (int)v[HOST];
    r->link = REACHED_LINK * v[LINK];
    r->link_s = v[HOP];
    r->net = REACHED_NET * v[NET];
    r->net_s = v[NET_HOP];
    r->host_link = REACHED_LINK * v[HOST_LINK];
    r->unsure = UNSURE;
    gpu->sms = (int)v[SMS];
}

static const struct cuda_known *find(const char *word)
{
    for (size_t i = 0; word && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(known[i].key, word) == 0)
            return &known[i];
    return NULL;
}

static weft_status refuse(const weft_params *params, const char *word, weft_error *err)
{
    weft_text text = {0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        weft_text_print(&text, "%s, ", known[i].key);
    weft_text_add(&text, "and behind it, as bf16=8e14, any of");
    for (int i = 0; i < KEYS; i++)
        weft_text_print(&text, "%s %s", i ? "," : "", keys[i].name);
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(params, "gpu"),
                              "[cuda] gpu: '%s' is not known of a GPU; give auto, or one of %s",
                              word, weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

/* A number, and a suffix as values of the INI have. false: it is none. */
static bool read_number(const char *text, double *value)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1},     {"k", 1e3},      {"M", 1e6},      {"G", 1e9},
                 {"T", 1e12}, {"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}};
    char *end;
    if (!*text || !strchr("0123456789.", *text) || text[1] == 'x' || text[1] == 'X')
        return false; /* no sign, nan, inf or hexadecimal number */
    *value = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].suffix) == 0) {
            *value *= units[i].factor;
            return true;
        }
    return false;
}

static weft_status read_word(const weft_params *params, const char *word, double *v, bool *given,
                             weft_error *err)
{
    size_t n = strcspn(word, "=");
    int i = 0;
    while (i < KEYS && (strlen(keys[i].name) != n || strncmp(keys[i].name, word, n) != 0))
        i++;
    if (i == KEYS || word[n] != '=')
        return refuse(params, word, err);
    if (given[i])
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(params, "gpu"),
                         "[cuda] gpu: '%s': %s is there twice", word, keys[i].name);
    given[i] = true;
    if (read_number(word + n + 1, &v[i]) && v[i] >= keys[i].min && v[i] <= keys[i].max &&
        (!keys[i].whole || v[i] == floor(v[i])))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(params, "gpu"),
                     "[cuda] gpu: '%s' is not a %snumber from %g to %g", word,
                     keys[i].whole ? "whole " : "", keys[i].min, keys[i].max);
}

weft_status cuda_gpu_read(const weft_params *params, cuda_gpu *gpu, weft_error *err)
{
    *gpu = (cuda_gpu){0};
    const char *word = weft_params_word(params, "gpu", 0);
    if (!word || weft_params_is(params, "gpu", "auto"))
        return WEFT_OK;
    const struct cuda_known *k = find(word);
    if (!k)
        return refuse(params, word, err);
    double v[KEYS] = {[PEAK_BF16] = 1e12 * k->bf16,
                      [PEAK_F8] = 1e12 * k->f8,
                      [PEAK_F32] = 1e12 * k->f32,
                      [BANDWIDTH] = 1e12 * k->bandwidth,
                      [MEMORY] = k->memory * (1 << 30),
                      [LINK] = 1e9 * k->link,
                      [NET] = 1e9 * k->net,
                      [HOST_LINK] = 1e9 * k->host_link,
                      [PRODUCT] = k->product,
                      [PRODUCT8] = k->product8,
                      [ATTENTION] = k->attention,
                      [LAUNCH_S] = LAUNCH,
                      [HOP] = HOP_LINK,
                      [NET_HOP] = HOP_NET,
                      [SMS] = k->sms,
                      [HOST] = k->host};
    bool given[KEYS] = {false};
    weft_status s = WEFT_OK;
    for (int i = 1; !s && (word = weft_params_word(params, "gpu", i)); i++)
        s = read_word(params, word, v, given, err);
    fill(v, gpu);
    if (given[ATTENTION]) /* by whoever knows */
        gpu->rates.unsure = 0;
    gpu->dnn = k->cudnn / k->attention;
    gpu->narrow = v[PEAK_F8] > 0;
    gpu->narrow_rows = gpu->narrow && k->narrow_rows;
    gpu->rates.name =
        weft_params_word(params, "gpu", 1) ? weft_params_text(params, "gpu") : k->title;
    return s;
}

/* ---- memory beside the plan's: guesses, none of them measured ---- */

/* A context: what the driver keeps, and a stack of 1 KiB for each of 2048 threads of every
 * multiprocessor; weft's kernels and those of cuBLASLt that are called; a node of a graph with its
 * arguments. */
enum {
    CONTEXT = 256 << 20,
    STACKS = 2 << 20,
    KERNELS = 96 << 20,
    NODE = 4 << 10,
    TYPICAL_SMS = 80
};

/* Of exportable memory, as cuMemGetAllocationGranularity has it on all GPUs so far; and in how many
 * pieces a run has its memory: arena, state, inputs of micro-batches and of steps, caches. */
enum { GRANULARITY = 2 << 20, PIECES = 5 };

size_t cuda_gpu_rounding_bytes(void)
{
    return (size_t)PIECES * GRANULARITY;
}

size_t cuda_gpu_library_bytes(const cuda_gpu *gpu, int64_t captured)
{
    const int sms = gpu->sms ? gpu->sms : TYPICAL_SMS;
    return (size_t)CONTEXT + (size_t)KERNELS + (size_t)sms * STACKS + (size_t)captured * NODE;
}
