/* SPDX-License-Identifier: Apache-2.0 */
/* Samples from the data plugin, which is not trusted: kernels index memory with what it gives. */
#include "plugin/enter.h"
#include "run/run.h"

#include <inttypes.h>

typedef struct range {
    const char *what, *of; /* what the number is, and what says where it must lie */
    int64_t low, high;
} range;

/* A sample, and who made it. */
typedef struct source {
    const char *plugin, *split;
    int64_t number;
} source;

static weft_status check_range(const int32_t *numbers, int64_t n, const range *r, const source *of,
                               weft_error *err)
{
    int64_t i = 0;
    while (i < n && numbers[i] >= r->low && numbers[i] < r->high)
        i++;
    if (i == n)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s sample %" PRId64 " of plugin '%s': %s %" PRId32 " at place %" PRId64
                     " is not in the range of %s, %" PRId64 " to %" PRId64,
                     of->split, of->number, of->plugin, r->what, numbers[i], i, r->of, r->low,
                     r->high - 1);
}

static weft_status check_sample(const weft_lowered *l, const source *of, const weft_sample *sample,
                                int64_t seq_len, weft_error *err)
{
    const weft_dim *vocab = weft_map_get(&l->graph->dims, "vocab", 5),
                   *table = weft_map_get(&l->graph->dims, "positions", 9); /* if they are learned */
    int64_t ids = vocab ? vocab->size : INT32_MAX, positions = table ? table->size : INT32_MAX;
    const range id = {"the id", "the model's vocabulary", 0, ids},
                label = {"the label", "the model's vocabulary and -1, which does not count", -1,
                         ids},
                position = {"the position", "the model's positions", 0, positions};
    weft_status s = check_range(sample->ids, seq_len, &id, of, err);
    s = s ? s : check_range(sample->labels, seq_len, &label, of, err);
    return s ? s : check_range(sample->positions, seq_len, &position, of, err);
}

int64_t weft_count_samples(const weft_run *run, weft_split split)
{
    const weft_entry entry = weft_enter_service(run->plan->plugins, run->data, "samples", NULL);
    int64_t n = run->data->samples(run->data_self, split);
    weft_leave(&entry, WEFT_OK);
    return n;
}

weft_status weft_read_sample(weft_run *run, const weft_lowered *l, weft_split split, int64_t i,
                             weft_sample *sample, weft_error *err)
{
    const weft_entry entry = weft_enter_service(run->plan->plugins, run->data, "sample", err);
    const source of = {entry.in.plugin, split == WEFT_SPLIT_TRAIN ? "training" : "validation", i};
    weft_status s = weft_leave(&entry, run->data->sample(run->data_self, split, i, sample, err));
    return s ? s : check_sample(l, &of, sample, run->plan->seq_len, err);
}
