/* SPDX-License-Identifier: Apache-2.0 */
/* From global samples to this rank's inputs. */
#include "run/run.h"

#include <string.h>

weft_status weft_sample_init(weft_sample *s, int64_t seq_len, weft_error *err)
{
    size_t n = (size_t)seq_len;
    s->ids = weft_alloc_zero(4 * n, sizeof *s->ids);
    if (!s->ids)
        return weft_fail_memory(err);
    s->labels = s->ids + n;
    s->positions = s->labels + n;
    s->segments = s->positions + n;
    return WEFT_OK;
}

void weft_sample_release(weft_sample *s)
{
    weft_free(s->ids);
    memset(s, 0, sizeof *s);
}

weft_status weft_batch_init(weft_batch *b, const weft_lowered *l, int64_t micro_batches,
                            weft_error *err)
{
    b->step = weft_alloc_zero(1, (size_t)l->step_input_bytes + 64);
    b->micro = weft_alloc_zero((size_t)micro_batches, (size_t)l->input_bytes + 64);
    return b->step && b->micro ? WEFT_OK : weft_fail_memory(err);
}

void weft_batch_release(weft_batch *b)
{
    weft_free(b->step);
    weft_free(b->micro);
    memset(b, 0, sizeof *b);
}

int32_t *weft_batch_input(const weft_lowered *l, const weft_batch *b, int64_t micro,
                          const char *name, weft_tensor *t)
{
    const weft_value *v = weft_map_get(&l->graph->inputs, name, strlen(name));
    if (!v || l->buffer_of[v->id] < 0)
        return NULL;
    const weft_buffer *buffer = &l->buffers[l->buffer_of[v->id]];
    weft_local_tensor(l->graph, v, l->coord, t);
    char *base = buffer->base == WEFT_BASE_INPUT ? b->micro + micro * l->input_bytes : b->step;
    return (int32_t *)(void *)(base + buffer->offset);
}

/* One row of an input [batch seq]: this rank's columns. src NULL: `pad` everywhere. */
static void put_row(const weft_lowered *l, const weft_batch *b, int64_t micro, int64_t row,
                    const char *name, const int32_t *src, int32_t pad)
{
    weft_tensor t;
    int32_t *data = weft_batch_input(l, b, micro, name, &t);
    if (!data || row < t.lo[0] || row >= t.lo[0] + t.size[0])
        return;
    data += (row - t.lo[0]) * t.size[1];
    for (int64_t i = 0; i < t.size[1]; i++)
        data[i] = src ? src[t.lo[1] + i] : pad;
}

static void put_step_labels(const weft_lowered *l, const weft_batch *b, int64_t micro, int64_t row,
                            const int32_t *labels)
{
    weft_tensor t;
    int32_t *data = weft_batch_input(l, b, 0, "step_labels", &t);
    if (!data || micro < t.lo[0] || micro >= t.lo[0] + t.size[0] || row < t.lo[1] ||
        row >= t.lo[1] + t.size[1])
        return;
    data += ((micro - t.lo[0]) * t.size[1] + (row - t.lo[1])) * t.size[2];
    for (int64_t i = 0; i < t.size[2]; i++)
        data[i] = labels ? labels[t.lo[2] + i] : -1;
}

void weft_fill_inputs(const weft_lowered *l, const weft_batch *b, int64_t micro, int64_t row,
                      const weft_sample *s)
{
    put_row(l, b, micro, row, "ids", s ? s->ids : NULL, 0);
    put_row(l, b, micro, row, "labels", s ? s->labels : NULL, -1);
    put_row(l, b, micro, row, "positions", s ? s->positions : NULL, 0);
    put_row(l, b, micro, row, "segments", s ? s->segments : NULL, 0);
    put_step_labels(l, b, micro, row, s ? s->labels : NULL);
}

void weft_fill_step(const weft_lowered *l, const weft_batch *b, int64_t step)
{
    weft_tensor t;
    int32_t *index = weft_batch_input(l, b, 0, "index", &t);
    for (int64_t i = 0; index && i < t.size[0]; i++)
        index[i] = (int32_t)(t.lo[0] + i);
    void *at = weft_batch_input(l, b, 0, "step", &t);
    float number = (float)step;
    if (at)
        memcpy(at, &number, sizeof number);
}

bool weft_owns_row(const weft_lowered *l, int64_t row)
{
    const weft_value *v = weft_map_get(&l->graph->inputs, "ids", 3);
    const weft_value *all = weft_map_get(&l->graph->inputs, "step_labels", 11);
    weft_tensor t;
    bool owns = false;
    if (v) {
        weft_local_tensor(l->graph, v, l->coord, &t);
        owns = row >= t.lo[0] && row < t.lo[0] + t.size[0];
    }
    if (all && !owns) {
        weft_local_tensor(l->graph, all, l->coord, &t);
        owns = row >= t.lo[1] && row < t.lo[1] + t.size[1];
    }
    return owns;
}

weft_status weft_upload(weft_run *run, const weft_lowered *l, const weft_batch *b,
                        int64_t micro_batches, weft_error *err)
{
    const weft_device *device = run->plan->device;
    void *self = run->plan->device_self;
    weft_status s = WEFT_OK;
    if (l->step_input_bytes)
        s = device->upload(self, run->step_inputs, b->step, (size_t)l->step_input_bytes, err);
    if (!s && l->input_bytes)
        s = device->upload(self, run->inputs, b->micro, (size_t)(l->input_bytes * micro_batches),
                           err);
    return s;
}
