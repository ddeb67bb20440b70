/* SPDX-License-Identifier: Apache-2.0 */
/* sums: data without files, "12+30=42;" again and again. A model learns to add, for only digits of
 * sums have labels that count. It shows a service that gives data. */
#include <weft/weft.h>

#include <stdio.h>
#include <string.h>

/* Ids are places in this text; a model needs as many. */
static const char symbols[] = "0123456789+=;";

typedef struct sums {
    const weft_host *host;
    int64_t seq_len;
    uint64_t seed;
} sums;

static weft_status begin(void *self, int64_t seq_len, uint64_t seed, weft_error *err)
{
    sums *s = self;
    (void)err;
    s->seq_len = seq_len;
    s->seed = seed;
    return WEFT_OK;
}

static int64_t samples(void *self, weft_split split)
{
    const sums *s = self;
    return split == WEFT_SPLIT_TRAIN ? INT64_MAX : weft_params_int(s->host->params, "validation");
}

/* Writes the n-th problem of a sample. Drawn by number, not one after the other: sample i is the
 * same on any rank, and after a restart. Returns where its sum begins. */
static int write_problem(const sums *s, uint64_t stream, uint64_t n, char text[64])
{
    uint64_t limit = (uint64_t)weft_params_int(s->host->params, "limit"),
             a = weft_random_bits(s->seed, stream, 2 * n) % limit,
             b = weft_random_bits(s->seed, stream, 2 * n + 1) % limit;
    int answer = snprintf(text, 64, "%llu+%llu=", (unsigned long long)a, (unsigned long long)b);
    snprintf(text + answer, 64 - (size_t)answer, "%llu;", (unsigned long long)(a + b));
    return answer;
}

/* May be called from a thread of its own: it reads self, and writes only to `out`. A label is the
 * next id; -1: nothing is learnt there. Problems are segments, which do not attend to each other,
 * with positions of their own. */
static weft_status sample(void *self, weft_split split, int64_t i, const weft_sample *out,
                          weft_error *err)
{
    const sums *s = self;
    const char *name = split == WEFT_SPLIT_TRAIN ? "sums train" : "sums validation";
    uint64_t stream = weft_hash_name(name) + (uint64_t)i;
    int64_t at = 0;
    (void)err;
    for (int n = 0; at < s->seq_len; n++) {
        char text[64];
        int answer = write_problem(s, stream, (uint64_t)n, text);
        for (int k = 0; text[k] && at < s->seq_len; k++, at++) {
            out->ids[at] = (int32_t)(strchr(symbols, text[k]) - symbols);
            bool counts = k + 1 >= answer && text[k + 1];
            out->labels[at] = counts ? (int32_t)(strchr(symbols, text[k + 1]) - symbols) : -1;
            out->positions[at] = k;
            out->segments[at] = n;
        }
    }
    return WEFT_OK;
}

static void describe(void *self, weft_text *text)
{
    const sums *s = self;
    weft_text_print(text, "sums of numbers below %lld",
                    (long long)weft_params_int(s->host->params, "limit"));
}

/* A checkpoint goes on with the same data, or says that they have changed. */
static uint64_t fingerprint(void *self)
{
    const sums *s = self;
    int64_t limit = weft_params_int(s->host->params, "limit");
    return weft_hash_bytes(weft_hash_name("sums"), &limit, sizeof limit);
}

static const weft_data data = {.size = sizeof(weft_data),
                               .begin = begin,
                               .samples = samples,
                               .sample = sample,
                               .describe = describe,
                               .fingerprint = fingerprint};

static const weft_param params[] = {
    {.name = "limit",
     .type = WEFT_PARAM_INT,
     .value = "100",
     .min = 1,
     .max = 1000000000,
     .help = "Numbers are below it."},
    {.name = "validation",
     .type = WEFT_PARAM_INT,
     .value = "64",
     .min = 0,
     .max = 1000000,
     .unit = "samples",
     .help = "How many samples there are to validate with."},
    {.name = NULL},
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "data", .table = &data},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(sums) = {
    WEFT_PLUGIN_HEAD,
    .name = "sums",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "data: sums, made as they are read",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(sums),
};
