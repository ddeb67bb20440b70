/* SPDX-License-Identifier: Apache-2.0 */
#include "generate/decoder.h"

#include <string.h>

/* A generator that forgets its caches would write as if each part were a text. */
static weft_status check_caches(const weft_plan *plan, weft_error *err)
{
    const weft_node *n = plan->writing.cache ? plan->graphs[WEFT_MODE_GENERATE]->first : NULL;
    while (n && !n->op->cached)
        n = n->next;
    if (!n || plan->caches.n > 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "plugin '%s' gives a generator, and adds no caches for it (weft_add_caches)",
                     weft_plugins_giver(plan->plugins, plan->generator));
}

weft_status weft_decoder_init(weft_decoder *d, const weft_plan *plan, weft_run *run, int64_t step,
                              weft_error *err)
{
    *d = (weft_decoder){.plan = plan, .run = run, .step = step};
    if (check_caches(plan, err))
        return WEFT_ERR_INTERNAL;
    d->rows = plan->writing.rows;
    d->places = plan->writing.places;
    d->vocab = weft_run_output(run, WEFT_MODE_GENERATE)->dims[1].size;
    size_t rows = (size_t)d->rows;
    d->ids = weft_alloc_zero(rows * (size_t)d->places, sizeof *d->ids);
    d->padding = weft_alloc_zero(rows, sizeof *d->padding);
    d->logits = weft_alloc_zero(rows * (size_t)d->vocab, sizeof *d->logits);
    if (!d->ids || !d->padding || !d->logits)
        return weft_fail_memory(err);
    weft_status s = weft_batch_create(run, WEFT_MODE_GENERATE, 1, &d->batch[0], err);
    return s || !weft_run_graph(run, WEFT_MODE_DECODE)
               ? s
               : weft_batch_create(run, WEFT_MODE_DECODE, 1, &d->batch[1], err);
}

void weft_decoder_release(weft_decoder *d)
{
    weft_batch_destroy(d->batch[0]);
    weft_batch_destroy(d->batch[1]);
    weft_free(d->ids);
    weft_free(d->padding);
    weft_free(d->logits);
    memset(d, 0, sizeof *d);
}

void weft_decoder_start(weft_decoder *d, const int32_t *const *ids, const size_t *n, int64_t rows)
{
    d->n = d->done = 0;
    for (int64_t r = 0; r < rows; r++)
        d->n = (int64_t)n[r] > d->n ? (int64_t)n[r] : d->n;
    memset(d->ids, 0, (size_t)(d->rows * d->places) * sizeof *d->ids);
    for (int64_t r = 0; r < d->rows; r++) {
        int64_t from = r < rows ? r : 0;
        d->padding[r] = d->n - (int64_t)n[from];
        memcpy(d->ids + r * d->places + d->padding[r], ids[from], n[from] * sizeof *d->ids);
    }
}

bool weft_decoder_add(weft_decoder *d, const int32_t *ids)
{
    if (d->n == d->places)
        return false;
    for (int64_t r = 0; r < d->rows; r++)
        d->ids[r * d->places + d->n] = ids[r];
    d->n++;
    return true;
}

/* ---- inputs ---- */

static int32_t id_at(const weft_decoder *d, int64_t row, int64_t place)
{
    return place < d->n ? d->ids[row * d->places + place] : 0;
}

static int32_t position_at(const weft_decoder *d, int64_t row, int64_t place)
{
    return place > d->padding[row] && place < d->n ? (int32_t)(place - d->padding[row]) : 0;
}

static int32_t segment_at(const weft_decoder *d, int64_t row, int64_t place)
{
    return place < d->padding[row];
}

/* An input [batch, places]: this rank's part, beginning at a place of the text. */
static void fill(const weft_decoder *d, const weft_batch *b, const char *name, int64_t first,
                 int32_t (*at)(const weft_decoder *, int64_t, int64_t))
{
    weft_tensor t;
    int32_t *data = weft_batch_input(b, 0, name, &t);
    for (int64_t r = 0; data && r < t.size[0]; r++)
        for (int64_t i = 0; i < t.size[1]; i++)
            *data++ = at(d, t.lo[0] + r, first + t.lo[1] + i);
}

static void fill_index(const weft_batch *b, const char *name, int64_t first)
{
    weft_tensor t;
    int32_t *data = weft_batch_input(b, 0, name, &t);
    for (int64_t i = 0; data && i < t.size[0]; i++)
        data[i] = (int32_t)(first + t.lo[0] + i);
}

static void fill_last(const weft_batch *b, int64_t last)
{
    weft_tensor t;
    int32_t *data = weft_batch_input(b, 0, "last", &t);
    for (int64_t i = 0; data && i < t.size[0]; i++)
        data[i] = (int32_t)last;
}

/* Tokens from place `first` on; those behind the text are computed, too, and overwritten when it
 * gets there. */
static void fill_all(const weft_decoder *d, const weft_batch *b, int64_t first, int64_t n)
{
    fill(d, b, "ids", first, id_at);
    fill(d, b, "positions", first, position_at);
    fill(d, b, "segments", first, segment_at);
    fill(d, b, "cached_segments", 0, segment_at);
    fill_index(b, "index", first);
    fill_index(b, "cached_index", 0);
    fill_last(b, n - 1);
}

static void fill_step(const weft_batch *b, int64_t step)
{
    weft_tensor t;
    float *number = weft_batch_input(b, 0, "step", &t);
    if (number)
        *number = (float)step;
}

/* ---- programs ---- */

/* The next n places. */
static weft_status part(weft_decoder *d, weft_mode mode, int64_t n, weft_error *err)
{
    const weft_batch *b = d->batch[mode == WEFT_MODE_DECODE];
    fill_step(b, d->step);
    fill_all(d, b, d->done, n);
    weft_status s = weft_run_feed(d->run, b, err);
    if (!s && d->begun != mode)
        s = weft_run_parts(d->run, mode, WEFT_PART_BEGIN, WEFT_PART_BEGIN, NULL, err);
    d->begun = mode;
    s = s ? s : weft_run_parts(d->run, mode, WEFT_PART_F, WEFT_PART_STEP_END, NULL, err);
    d->done += n;
    return s;
}

static weft_status read_logits(weft_decoder *d, weft_mode mode, weft_error *err)
{
    weft_tensor t;
    weft_status s = weft_run_value(d->run, mode, weft_run_output(d->run, mode), &t, err);
    for (int64_t i = 0; i < d->rows * d->vocab && !s; i++)
        d->logits[i] = (float)weft_tensor_get(&t, i);
    return s;
}

weft_status weft_decoder_run(weft_decoder *d, weft_error *err)
{
    const int64_t most = weft_graph_seq_len(weft_run_graph(d->run, WEFT_MODE_GENERATE));
    weft_mode mode = WEFT_MODE_GENERATE;
    weft_status s = WEFT_OK;
    if (!d->batch[1])
        d->done = 0;
    if (d->done == d->n)
        return WEFT_OK;
    while (d->done < d->n && !s) {
        int64_t left = d->n - d->done;
        mode = left == 1 && d->batch[1] ? WEFT_MODE_DECODE : WEFT_MODE_GENERATE;
        s = part(d, mode, left < most ? left : most, err);
        if (!s && d->done < d->n) /* the inputs are filled anew */
            s = weft_run_wait(d->run, err);
    }
    return s ? s : read_logits(d, mode, err);
}
