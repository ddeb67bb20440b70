/* SPDX-License-Identifier: Apache-2.0 */
/* From global samples to this rank's inputs: samples of the data plugin, which is not trusted, for
 * kernels index memory with what it gives; inputs; a thread that fills the next step's while this
 * one computes. */
#include "base/blame.h"
#include "execute/run.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* ---- samples ---- */

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

/* ---- inputs ---- */

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

weft_status weft_batch_create(weft_run *run, weft_mode mode, int64_t micro_batches,
                              weft_batch **out, weft_error *err)
{
    const weft_plan *plan = run->plan;
    weft_batch *b = *out = weft_alloc_zero(1, sizeof *b);
    if (!b)
        return weft_fail_memory(err);
    b->plan = plan;
    b->l = plan->lowered[mode];
    b->bytes = weft_lowered_batch(b->l, micro_batches);
    weft_status s = weft_device_alloc_host(plan, b->bytes.step, &b->step, err);
    return s ? s : weft_device_alloc_host(plan, b->bytes.micro, &b->micro, err);
}

void weft_batch_destroy(weft_batch *b)
{
    if (b && b->step)
        weft_device_free_host(b->plan, b->step, b->bytes.step);
    if (b && b->micro)
        weft_device_free_host(b->plan, b->micro, b->bytes.micro);
    weft_free(b);
}

void *weft_batch_input(const weft_batch *b, int64_t micro, const char *name, weft_tensor *t)
{
    const weft_lowered *l = b->l;
    const weft_value *v = weft_map_get(&l->graph->inputs, name, strlen(name));
    if (!v || l->buffer_of[v->id] < 0)
        return NULL;
    const weft_buffer *buffer = &l->buffers[l->buffer_of[v->id]];
    weft_local_tensor(l->graph, v, l->coord, t);
    char *base =
        buffer->base == WEFT_BASE_INPUT ? (char *)b->micro + micro * l->input_bytes : b->step;
    return base + buffer->offset;
}

/* What a sample fills. Each input has a layout of its own, so which rows a rank needs is asked of
 * every one of them. */
static const struct filled {
    const char *name;
    size_t field; /* of weft_sample */
    int32_t pad;  /* where there is no sample */
    bool step;    /* [micro batch seq], else [batch seq] of each micro-batch */
} filled[] = {
    {"ids", offsetof(weft_sample, ids), 0, false},
    {"labels", offsetof(weft_sample, labels), -1, false},
    {"positions", offsetof(weft_sample, positions), 0, false},
    {"segments", offsetof(weft_sample, segments), 0, false},
    {"step_labels", offsetof(weft_sample, labels), -1, true},
};
enum { N_FILLED = sizeof filled / sizeof filled[0] };

/* NULL: no sample fills it. "labels+2" is filled as "labels" is. */
static const struct filled *find_filled(const char *name)
{
    size_t n = weft_input_shift(name) ? strcspn(name, "+") : strlen(name);
    for (int i = 0; i < N_FILLED; i++)
        if (strlen(filled[i].name) == n && strncmp(filled[i].name, name, n) == 0)
            return &filled[i];
    return NULL;
}

/* This rank's columns of one row of an input. */
typedef struct part {
    int64_t at;      /* of the first, in the local tensor */
    int64_t from, n; /* in the sample */
} part;

static bool find_part(const weft_lowered *l, const weft_value *v, int64_t micro, int64_t row,
                      part *out)
{
    const struct filled *f = find_filled(v->name);
    weft_tensor t;
    if (!f || l->buffer_of[v->id] < 0)
        return false;
    weft_local_tensor(l->graph, v, l->coord, &t);
    const int64_t *lo = t.lo + f->step, *size = t.size + f->step; /* of batch, seq */
    *out = (part){.at = row - lo[0], .from = lo[1], .n = size[1]};
    if (out->at < 0 || out->at >= size[0] || out->n == 0)
        return false;
    if (f->step && (micro < t.lo[0] || micro >= t.lo[0] + t.size[0]))
        return false;
    out->at = ((f->step ? (micro - t.lo[0]) * size[0] : 0) + out->at) * size[1];
    return true;
}

bool weft_owns_row(const weft_lowered *l, int64_t micro, int64_t row)
{
    part unused;
    for (int i = 0; i < l->graph->n_inputs; i++)
        if (find_part(l, l->graph->inputs_list[i], micro, row, &unused))
            return true;
    return false;
}

static const int32_t *field_of(const weft_sample *s, const struct filled *f)
{
    int32_t *data;
    memcpy(&data, (const char *)s + f->field, sizeof data);
    return data;
}

/* The label `shift` places behind place i; -1 where the sample or the document ends before. Whoever
 * holds a part of a sample is given whole ones, so no rank needs another's labels. */
static int32_t label_behind(const weft_sample *s, int64_t seq_len, int64_t i, int64_t shift)
{
    int64_t k = i + shift;
    return k < seq_len && s->segments[k] == s->segments[i] ? s->labels[k] : -1;
}

static void fill_part(const weft_graph *g, const weft_value *v, const part *p, const weft_sample *s,
                      int32_t *to)
{
    const struct filled *f = find_filled(v->name);
    const int64_t shift = weft_input_shift(v->name), seq_len = v->dims[v->n_dims - 1].size;
    const int32_t *from = s ? field_of(s, f) : NULL;
    for (int64_t k = 0; k < p->n; k++) {
        int64_t at = weft_seq_place(g, p->from + k);
        to[k] = !s ? f->pad : shift ? label_behind(s, seq_len, at, shift) : from[at];
    }
}

void weft_fill_inputs(const weft_batch *b, int64_t micro, int64_t row, const weft_sample *s)
{
    const weft_lowered *l = b->l;
    for (int i = 0; i < l->graph->n_inputs; i++) {
        const weft_value *v = l->graph->inputs_list[i];
        weft_tensor t;
        part p;
        if (!find_part(l, v, micro, row, &p))
            continue;
        int64_t of = find_filled(v->name)->step ? 0 : micro;
        int32_t *to = weft_batch_input(b, of, v->name, &t);
        fill_part(l->graph, v, &p, s, to + p.at);
    }
}

void weft_fill_step(const weft_batch *b, int64_t step)
{
    weft_tensor t;
    int32_t *index = weft_batch_input(b, 0, "index", &t);
    for (int64_t i = 0; index && i < t.size[0]; i++)
        index[i] = (int32_t)weft_seq_place(b->l->graph, t.lo[0] + i);
    void *at = weft_batch_input(b, 0, "step", &t);
    float number = (float)step;
    if (at)
        memcpy(at, &number, sizeof number);
}

void weft_fill_micro_batch(const weft_batch *b, int64_t micro, int64_t number)
{
    weft_tensor t;
    void *at = weft_batch_input(b, micro, "micro_batch", &t);
    float as_real = (float)number;
    if (at)
        memcpy(at, &as_real, sizeof as_real);
}

static bool is_so(const weft_facts *f, const weft_tensor *t, const int32_t *data)
{
    const int64_t width = t->n_dims ? t->size[t->n_dims - 1] : 1, n = weft_tensor_count(t);
    for (int64_t i = 0, at = 0; i < n && (f->runs || f->alike); i++, at = i % width) {
        const int64_t run = f->runs == 2 && at >= f->second;
        if (data[i] != (f->alike ? data[i - at] : f->first[run] + at - run * f->second))
            return false;
    }
    return true;
}

/* Kernels were chosen by what was known of inputs, and would compute anything else wrong. */
static weft_status check_facts(const weft_batch *b, weft_error *err)
{
    const int64_t bytes = b->l->input_bytes, n = bytes ? (int64_t)b->bytes.micro / bytes : 0;
    for (int i = 0; i < b->l->graph->n_inputs; i++)
        for (int64_t micro = 0; micro == 0 || micro < n; micro++) {
            weft_tensor t;
            const char *name = b->l->graph->inputs_list[i]->name;
            const int32_t *data = weft_batch_input(b, micro, name, &t);
            if (data && !is_so(&t.facts, &t, data))
                return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                 "input '%s': the data promised that a sample is one document",
                                 name);
        }
    return WEFT_OK;
}

weft_status weft_run_feed(weft_run *run, const weft_batch *b, weft_error *err)
{
    weft_status s = check_facts(b, err);
    if (s)
        return s;
    run->batch = b;
    if (b->l->step_input_bytes)
        s = weft_device_upload(run->plan, WEFT_QUEUE_COMPUTE, run->step_inputs, b->step,
                               (size_t)b->l->step_input_bytes, err);
    s = s ? s : weft_streams_join(run, err);
    if (s)
        weft_streams_explain(run, s, err);
    return s;
}

/* On the first queue, which reads them: behind the task that read the same slot last, before the
 * one that reads them next. */
weft_status weft_upload_micro_batch(weft_run *run, const weft_lowered *l, int64_t micro,
                                    weft_error *err)
{
    char *to = (char *)run->inputs + l->inputs.slot_of[micro] * l->input_bytes;
    weft_status s = weft_device_upload(run->plan, WEFT_QUEUE_COMPUTE, to,
                                       (char *)run->batch->micro + micro * l->input_bytes,
                                       (size_t)l->input_bytes, err);
    return s ? s : weft_streams_uploaded(run, l, err);
}

/* ---- the loader ---- */

static weft_status fill(weft_run *run, const weft_batch *b, int64_t first, weft_error *err)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_TRAIN];
    weft_sample sample;
    weft_status s = weft_sample_init(&sample, run->plan->seq_len, err);
    for (int64_t i = 0; i < run->plan->global_batch && !s; i++) {
        int64_t micro = i / run->plan->micro_batch, row = i % run->plan->micro_batch;
        if (!weft_owns_row(l, micro, row))
            continue;
        s = weft_read_sample(run, l, WEFT_SPLIT_TRAIN, first + i, &sample, err);
        if (!s)
            weft_fill_inputs(b, micro, row, &sample);
    }
    weft_sample_release(&sample);
    return s;
}

static void *work(void *arg)
{
    weft_run *run = arg;
    weft_loader *l = &run->loader;
    weft_blame_set_rank(run->plan->rank);
    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        if (!l->wanted || l->ready) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        int64_t first = l->first_sample;
        pthread_mutex_unlock(&l->lock);
        weft_status s = fill(run, l->batch[l->filling], first, &l->err);
        pthread_mutex_lock(&l->lock);
        l->status = s;
        l->ready = true;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

weft_status weft_loader_create(weft_run *run, weft_error *err)
{
    weft_loader *l = &run->loader;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    run->loader_made = true;
    for (int i = 0; i < 2; i++) {
        weft_status s =
            weft_batch_create(run, WEFT_MODE_TRAIN, run->plan->micro_batches, &l->batch[i], err);
        if (s)
            return s;
    }
    int code = pthread_create(&l->thread, NULL, work, run);
    if (code)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot start the data thread: %s",
                         strerror(code));
    l->running = true;
    return WEFT_OK;
}

void weft_loader_destroy(weft_run *run)
{
    weft_loader *l = &run->loader;
    if (!run->loader_made)
        return;
    if (l->running) {
        pthread_mutex_lock(&l->lock);
        l->quit = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    for (int i = 0; i < 2; i++)
        weft_batch_destroy(l->batch[i]);
    weft_error_release(&l->err);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
}

void weft_loader_want(weft_run *run, int64_t first_sample)
{
    weft_loader *l = &run->loader;
    pthread_mutex_lock(&l->lock);
    l->first_sample = first_sample;
    l->wanted = true;
    l->ready = false;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

weft_status weft_loader_get(weft_run *run, const weft_batch **batch, weft_error *err)
{
    weft_loader *l = &run->loader;
    pthread_mutex_lock(&l->lock);
    while (!l->ready)
        pthread_cond_wait(&l->changed, &l->lock);
    weft_status s = l->status;
    *batch = l->batch[l->filling];
    l->filling = !l->filling;
    l->wanted = false;
    for (int i = 0; s && i < l->err.n_items; i++)
        weft_fail(err, l->err.items[i].status, WEFT_NOWHERE, "%s", l->err.items[i].text);
    pthread_mutex_unlock(&l->lock);
    return s;
}
