/* SPDX-License-Identifier: Apache-2.0 */
/* Samples from the data plugin, which is not trusted: kernels index memory with what it gives. */
#include "execute/run.h"

#include <inttypes.h>

typedef struct range {
    const char *what, *of; /* what the number is, and what says where it must lie */
    int64_t low, high;
} range;

/* A sample, and who made it. */
typedef struct source {
    const char *plugin;
    weft_split split;
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
                     of->split == WEFT_SPLIT_TRAIN ? "training" : "validation", of->number,
                     of->plugin, r->what, numbers[i], i, r->of, r->low, r->high - 1);
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
    return run->data->samples(run->data_self, split);
}

/* Sample of->number as the data, or a wrap around it, gives it. */
static weft_status read_from(weft_run *run, const weft_lowered *l, const weft_data *data,
                             void *self, source *of, weft_sample *sample, weft_error *err)
{
    of->plugin = weft_plugins_giver(run->plan->plugins, data);
    weft_status s = data->sample(self, of->split, of->number, sample, err);
    return s ? s : check_sample(l, of, sample, run->plan->seq_len, err);
}

weft_status weft_read_sample(weft_run *run, const weft_lowered *l, weft_split split, int64_t i,
                             weft_sample *sample, weft_error *err)
{
    const void *data = run->data;
    void *self = run->data_self;
    source of = {NULL, split, i};
    weft_error why = {0};
    weft_status s = read_from(run, l, data, self, &of, sample, &why), inner = s;
    /* Who is furthest in and gives it so is to blame: the wraps around only pass it on. */
    while (inner && weft_plugins_inner(run->plan->plugins, &data, &self)) {
        weft_error theirs = {0};
        inner = read_from(run, l, data, self, &of, sample, &theirs);
        weft_error_release(inner ? &why : &theirs);
        if (inner)
            why = theirs;
    }
    for (int k = 0; k < why.n_items; k++)
        weft_fail(err, why.items[k].status, WEFT_NOWHERE, "%s", why.items[k].text);
    if (why.out_of_memory)
        weft_fail_memory(err);
    weft_error_release(&why);
    return s;
}
