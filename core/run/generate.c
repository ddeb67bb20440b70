/* SPDX-License-Identifier: Apache-2.0 */
/* Text from the model as it is now: one token at a time, the last tokens that fit the context. */
#include "run/run.h"

#include <string.h>

typedef struct writer {
    weft_run *run;
    const weft_lowered *l;
    weft_batch batch;
    weft_sample sample;
    float *logits;
    int64_t vocab, context;
    int32_t *ids; /* prompt and continuation */
    size_t n, capacity;
} writer;

static weft_status append(writer *w, int32_t id, weft_error *err)
{
    if (w->n == w->capacity) {
        size_t more = 2 * w->capacity + 64;
        int32_t *fresh = weft_realloc(w->ids, more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        w->ids = fresh;
        w->capacity = more;
    }
    w->ids[w->n++] = id;
    return WEFT_OK;
}

static void set_last(const writer *w, int32_t last)
{
    const weft_value *v = weft_map_get(&w->l->graph->inputs, "last", 4);
    if (v)
        memcpy(w->batch.micro + w->l->buffers[w->l->buffer_of[v->id]].offset, &last, sizeof last);
}

/* Logits behind the last token, in f32. */
static weft_status next_logits(writer *w, weft_error *err)
{
    weft_run *run = w->run;
    const weft_plan *plan = run->plan;
    size_t used = w->n < (size_t)w->context ? w->n : (size_t)w->context;
    memset(w->sample.ids, 0, (size_t)w->context * sizeof *w->sample.ids);
    memcpy(w->sample.ids, w->ids + w->n - used, used * sizeof *w->ids);
    for (int64_t i = 0; i < w->context; i++) {
        w->sample.positions[i] = (int32_t)i;
        w->sample.labels[i] = -1;
    }
    weft_fill_inputs(w->l, &w->batch, 0, 0, &w->sample);
    set_last(w, (int32_t)used - 1);
    weft_status s = weft_upload(run, w->l, &w->batch, 1, err);
    s = s ? s : weft_execute(run, w->l, WEFT_DO_FORWARD, 0, err);
    if (s)
        return s;
    const weft_value *v = w->l->graph->logits;
    weft_tensor t;
    weft_local_tensor(w->l->graph, v, w->l->coord, &t);
    size_t bytes = (size_t)w->vocab * weft_dtype_size(t.dtype);
    t.data = weft_alloc(bytes);
    if (!t.data)
        return weft_fail_memory(err);
    s = plan->device->download(plan->device_self, t.data, weft_run_address(run, w->l, w->l->buffer_of[v->id], 0), bytes, err);
    for (int64_t i = 0; i < w->vocab && !s; i++)
        w->logits[i] = (float)weft_tensor_get(&t, i);
    weft_free(t.data);
    return s;
}

static weft_status finish(writer *w, int number, size_t prompt, weft_error *err)
{
    weft_run *run = w->run;
    weft_text before = {0}, after = {0};
    weft_status s = run->tokenizer->decode(run->tokenizer_self, w->ids, prompt, &before, err);
    s = s ? s : run->tokenizer->decode(run->tokenizer_self, w->ids + prompt, w->n - prompt, &after, err);
    if (!s) {
        run->plan->generator->done(run->plan->generator_self, run->step, number, weft_text_get(&before), weft_text_get(&after), run->log);
        run->view.prompt = weft_text_get(&before);
        run->view.text = weft_text_get(&after);
        weft_observe(run, WEFT_EVENT_TEXT);
        run->view.prompt = run->view.text = NULL;
    }
    weft_text_release(&before);
    weft_text_release(&after);
    return s;
}

static weft_status write_text(writer *w, int number, const int32_t *prompt, size_t n, weft_error *err)
{
    const weft_plan *plan = w->run->plan;
    weft_status s = WEFT_OK;
    int eos = w->run->tokenizer->eos(w->run->tokenizer_self), vocab = w->run->tokenizer->vocab_size(w->run->tokenizer_self);
    w->n = 0;
    for (size_t i = 0; i < n && !s; i++)
        s = append(w, prompt[i], err);
    for (int64_t i = 0; !s; i++) {
        s = next_logits(w, err);
        int64_t known = vocab < w->vocab ? vocab : w->vocab; /* never an id that the tokenizer cannot write */
        int32_t id = s ? -1 : plan->generator->pick(plan->generator_self, w->logits, known, w->run->step, number, i);
        if (s || id < 0 || id == eos)
            break;
        s = append(w, id, err);
    }
    return s ? s : finish(w, number, n, err);
}

weft_status weft_run_generate(weft_run *run, bool last, weft_error *err)
{
    (void)last;
    const weft_plan *plan = run->plan;
    writer w = {.run = run, .l = plan->lowered[WEFT_MODE_GENERATE]};
    if (!w.l || !w.l->graph->logits || !run->tokenizer)
        return WEFT_OK;
    w.context = plan->generator->context(plan->generator_self);
    w.vocab = w.l->graph->logits->dims[1].size;
    w.logits = weft_alloc((size_t)w.vocab * sizeof *w.logits);
    weft_status s = w.logits ? weft_batch_init(&w.batch, w.l, 1, err) : weft_fail_memory(err);
    s = s ? s : weft_sample_init(&w.sample, w.context, err);
    if (!s) {
        weft_fill_step(w.l, &w.batch, run->step);
        s = weft_upload(run, w.l, &w.batch, 1, err);
    }
    s = s ? s : weft_execute(run, w.l, WEFT_DO_BEGIN, -1, err);
    for (int i = 0; !s; i++) {
        const int32_t *prompt;
        size_t n = 0;
        s = plan->generator->prompt(plan->generator_self, i, run->tokenizer, run->tokenizer_self, &prompt, &n, err);
        if (s || n == 0)
            break;
        s = write_text(&w, i, prompt, n, err);
    }
    weft_batch_release(&w.batch);
    weft_sample_release(&w.sample);
    weft_free(w.logits);
    weft_free(w.ids);
    return s;
}
