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

/* A sample, and who made it. */
typedef struct source {
    const char *plugin;
    weft_split split;
    int64_t number;
} source;

/* Elements of a field in one sample; 0: the model does not declare one of its dims. */
static int64_t count_elements(const weft_graph *g, const weft_field *f)
{
    int64_t n = 1;
    for (const char *p = f->shape + strlen("batch"); *p && n; p += strcspn(p, " ")) {
        p += strspn(p, " ");
        const weft_dim *d = weft_map_get(&g->dims, p, strcspn(p, " "));
        n *= d ? d->size : *p == '\0';
    }
    return n;
}

static weft_status check_field(const weft_graph *g, const source *of, const weft_field *f,
                               const int32_t *numbers, weft_error *err)
{
    const weft_dim *below = f->below ? weft_map_get(&g->dims, f->below, strlen(f->below)) : NULL;
    const int64_t n = count_elements(g, f), high = below ? below->size : INT64_C(1) << 31;
    int64_t i = 0;
    while (i < n && numbers[i] >= f->low && numbers[i] < high)
        i++;
    if (i == n)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s sample %" PRId64 " of plugin '%s': %s has %" PRId32 " at place %" PRId64
                     ", which is not in the range of the model's %s, %" PRId32 " to %" PRId64,
                     of->split == WEFT_SPLIT_TRAIN ? "training" : "validation", of->number,
                     of->plugin, f->name, numbers[i], i, below ? f->below : f->name, f->low,
                     high - 1);
}

static weft_status check_sample(const weft_graph *g, const source *of, const weft_sample *sample,
                                weft_error *err)
{
    weft_status s = WEFT_OK;
    const weft_field *fields = weft_graph_fields(g);
    for (int i = 0; fields[i].name && !s; i++)
        if (fields[i].dtype == WEFT_I32 && sample->field[i])
            s = check_field(g, of, &fields[i], sample->field[i], err);
    return s;
}

/* Sample of->number as the data, or a wrap around it, gives it. */
static weft_status read_from(weft_run *run, const weft_lowered *l, const weft_data *data,
                             void *self, source *of, weft_sample *sample, weft_error *err)
{
    of->plugin = weft_plugins_giver(run->plan->plugins, data);
    sample->number = (int32_t)(of->number & INT32_MAX);
    weft_status s = data->sample(self, of->split, of->number, sample, err);
    return s ? s : check_sample(l->graph, of, sample, err);
}

/* Sample i of a split from the data plugin, checked: no kernel sees an id, label or position that
 * is out of range. */
static weft_status read_sample(weft_run *run, const weft_lowered *l, weft_split split, int64_t i,
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
    weft_error_move(err, &why, WEFT_OK, WEFT_NOWHERE, "%s", "");
    return s;
}

/* ---- inputs ---- */

weft_status weft_sample_init(weft_sample *s, const weft_graph *g, weft_error *err)
{
    const weft_field *fields = weft_graph_fields(g), *text = weft_text_fields;
    int32_t **const named[] = {&s->ids, &s->labels, &s->positions, &s->segments};
    int n = 0;
    int64_t room = 0; /* of eight bytes an element, so that each field is aligned */
    while (fields[n].name)
        room += count_elements(g, &fields[n++]);
    void **list = weft_alloc_zero((size_t)(n + room + 1), 8);
    if (!list)
        return weft_fail_memory(err);
    *s = (weft_sample){.field = list};
    room = n;
    for (int i = 0; i < n; room += count_elements(g, &fields[i++])) {
        list[i] = count_elements(g, &fields[i]) ? list + room : NULL;
        for (int k = 0; text[k].name; k++)
            if (strcmp(fields[i].name, text[k].name) == 0 && fields[i].dtype == WEFT_I32 &&
                strcmp(fields[i].shape, text[k].shape) == 0)
                *named[k] = list[i];
    }
    return WEFT_OK;
}

void weft_sample_release(weft_sample *s)
{
    weft_free((void *)(uintptr_t)s->field);
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

/* This rank's part of one sample in an input. Each input has a layout of its own, so which rows a
 * rank needs is asked of every one of them. */
typedef struct part {
    const weft_graph *g;
    const weft_value *v;
    const weft_field *field;
    const weft_sample *sample; /* NULL: there is none */
    weft_tensor from, t;       /* the field in the sample, the input */
    int64_t shift;             /* places further on */
    int batch;                 /* the dim: 1 behind the step's micro-batches, else 0 */
    int64_t at;                /* of its first element, in the local tensor */
} part;

static bool find_part(const weft_lowered *l, const weft_value *v, int64_t micro, int64_t row,
                      part *p)
{
    bool of_step;
    *p = (part){.g = l->graph, .v = v, .field = weft_input_field(l->graph, v->name, &of_step)};
    if (!p->field || l->buffer_of[v->id] < 0)
        return false;
    weft_local_tensor(l->graph, v, l->coord, &p->t);
    p->batch = of_step;
    const int64_t *lo = p->t.lo + p->batch, *size = p->t.size + p->batch;
    int64_t n = 1; /* elements of a row */
    for (int d = p->batch + 1; d < p->t.n_dims; d++)
        n *= p->t.size[d];
    if (row < lo[0] || row >= lo[0] + size[0] || n == 0)
        return false;
    if (of_step && (micro < p->t.lo[0] || micro >= p->t.lo[0] + p->t.size[0]))
        return false;
    p->at = ((of_step ? (micro - p->t.lo[0]) * size[0] : 0) + row - lo[0]) * n;
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

/* What is `shift` places behind place i; -1 where the sample or the document ends before. Whoever
 * holds a part of a sample is given whole ones, so no rank needs another's. */
static double element_behind(const part *p, int64_t i)
{
    const int32_t *segments = p->sample->segments;
    const int64_t k = i + p->shift;
    const bool there = k < weft_graph_seq_len(p->g) && (!segments || segments[k] == segments[i]);
    return there ? weft_tensor_get(&p->from, k) : -1;
}

/* Element i of the sample, or what stands for it. */
static double element_of(const part *p, int64_t i)
{
    const weft_sample *s = p->sample;
    if (!s)
        return p->shift ? -1 : p->field->pad;
    if (p->field == &weft_number_field)
        return s->number;
    return p->shift ? element_behind(p, i) : weft_tensor_get(&p->from, i);
}

/* From dim d on, row by row, into the places from k on; i: where the dims before it are in the
 * sample. Returns the place behind what was filled. */
static int64_t fill_dims(const part *p, int d, int64_t i, int64_t k)
{
    if (d == p->t.n_dims) {
        weft_tensor_set(&p->t, k, element_of(p, i));
        return k + 1;
    }
    const bool ordered = p->g->seq_order && strcmp(p->v->dims[d].name, "seq") == 0;
    const int64_t lo = p->t.lo[d], n = p->t.size[d], hi = lo + n;
    if (d == p->t.n_dims - 1 && p->from.data && !ordered && !p->shift &&
        p->from.dtype == p->t.dtype) { /* as they lie there, which is nearly always so */
        const size_t size = weft_dtype_size(p->t.dtype);
        memcpy((char *)p->t.data + (size_t)k * size,
               (const char *)p->from.data + (size_t)(i * p->t.whole[d] + lo) * size,
               (size_t)n * size);
        return k + n;
    }
    for (int64_t at = lo; at < hi; at++)
        k = fill_dims(p, d + 1, i * p->t.whole[d] + (ordered ? weft_seq_place(p->g, at) : at), k);
    return k;
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
        p.sample = s;
        p.shift = weft_input_shift(v->name);
        p.from.dtype = p.field->dtype;
        if (s && p.field != &weft_number_field)
            p.from.data = s->field[p.field - weft_graph_fields(l->graph)];
        p.t.data = weft_batch_input(b, p.batch ? 0 : micro, v->name, &t);
        fill_dims(&p, p.batch + 1, 0, p.at);
    }
}

weft_status weft_fill_samples(weft_run *run, const weft_batch *b, const weft_samples *of,
                              weft_error *err)
{
    weft_sample sample = {0};
    weft_status s = weft_sample_init(&sample, b->l->graph, err);
    for (int64_t i = 0; i < of->n && !s; i++) {
        const int64_t micro = i / run->plan->micro_batch, row = i % run->plan->micro_batch;
        if (!weft_owns_row(b->l, micro, row))
            continue;
        const bool there = of->first + i < of->end;
        if (there)
            s = read_sample(run, b->l, of->split, of->first + i, &sample, err);
        if (!s)
            weft_fill_inputs(b, micro, row, there ? &sample : NULL);
    }
    weft_sample_release(&sample);
    return s;
}

static void fill_number(const weft_batch *b, int64_t micro, const char *name, int64_t number)
{
    weft_tensor t;
    float *at = weft_batch_input(b, micro, name, &t);
    if (at)
        *at = (float)number;
}

void weft_fill_step(const weft_batch *b, int64_t step)
{
    weft_tensor t;
    const weft_graph *g = b->l->graph;
    for (int k = 0; k < g->n_inputs; k++) {
        const weft_value *v = g->inputs_list[k];
        const bool ordered = v->n_dims && strcmp(v->dims[0].name, "seq") == 0;
        const bool is_index = strncmp(v->name, "index", 5) == 0 && strchr(":", v->name[5]);
        int32_t *index = is_index ? weft_batch_input(b, 0, v->name, &t) : NULL;
        for (int64_t i = 0; index && i < t.size[0]; i++)
            index[i] = (int32_t)(ordered ? weft_seq_place(g, t.lo[0] + i) : t.lo[0] + i);
    }
    fill_number(b, 0, "step", step);
}

void weft_fill_micro_batch(const weft_batch *b, int64_t micro, int64_t number)
{
    fill_number(b, micro, "micro_batch", number);
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
        const weft_samples of = {WEFT_SPLIT_TRAIN, l->first_sample, run->plan->global_batch,
                                 INT64_MAX};
        pthread_mutex_unlock(&l->lock);
        weft_status s = weft_fill_samples(run, l->batch[l->filling], &of, &l->err);
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
    weft_error_move(err, &l->err, WEFT_OK, WEFT_NOWHERE, "%s", "");
    pthread_mutex_unlock(&l->lock);
    return s;
}
