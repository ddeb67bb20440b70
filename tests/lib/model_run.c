/* SPDX-License-Identifier: Apache-2.0 */
#include "model_run.h"

#include "console/built_in.h"
#include "execute/control.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static void log_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

static void check(model_run *m, weft_status status, const char *what)
{
    if (status == WEFT_OK)
        return;
    for (int i = 0; i < m->err.n_items; i++)
        print_message("  %s\n", m->err.items[i].text);
    fail_msg("%s: %s", what, weft_error_text(&m->err));
}

static void *need(void *memory)
{
    assert_non_null(memory);
    return memory;
}

/* ---- samples ---- */

static weft_status begin(void *self, int64_t seq_len, uint64_t seed, weft_error *err)
{
    (void)self, (void)seq_len, (void)seed, (void)err;
    return WEFT_OK;
}

static int64_t count_samples(void *self, weft_split split)
{
    return split == WEFT_SPLIT_TRAIN ? INT64_MAX : ((const model_run *)self)->samples.samples;
}

static weft_status take_sample(void *self, weft_split split, int64_t i, const weft_sample *out,
                               weft_error *err)
{
    const model_run *m = self;
    const model_samples *from = &m->samples;
    int64_t n = m->plan->seq_len, at = i % from->samples * n;
    (void)split, (void)err;
    for (int64_t k = 0; k < n; k++) {
        out->ids[k] = from->ids[at + k];
        out->labels[k] = from->labels ? from->labels[at + k] : -1;
        out->positions[k] = from->positions ? from->positions[at + k] : (int32_t)k;
        out->segments[k] = from->segments ? from->segments[at + k] : 0;
    }
    return WEFT_OK;
}

static const weft_data data = {
    .size = sizeof(weft_data), .begin = begin, .samples = count_samples, .sample = take_sample};

void model_run_feed(model_run *m, const model_samples *samples)
{
    assert_true(samples->samples > 0);
    m->samples = *samples;
    m->run->data = &data;
    m->run->data_self = m;
}

/* ---- reading and writing tensors ---- */

static model_numbers read_buffer(model_run *m, const weft_lowered *l, const weft_value *v)
{
    const weft_device *device = m->plan->device;
    weft_tensor t;
    assert_true(l->buffer_of[v->id] >= 0);
    weft_local_tensor(l->graph, v, l->coord, &t);
    model_numbers numbers = {.n = weft_tensor_count(&t)};
    size_t bytes = (size_t)numbers.n * weft_dtype_size(t.dtype);
    t.data = need(weft_alloc(bytes));
    check(m,
          device->download(m->plan->device_self, NULL, t.data,
                           weft_run_address(m->run, l, l->buffer_of[v->id], 0), bytes, &m->err),
          v->name);
    numbers.list = need(weft_pool_alloc(&m->pool, (size_t)numbers.n * sizeof *numbers.list));
    for (int64_t i = 0; i < numbers.n; i++)
        numbers.list[i] = weft_tensor_get(&t, i);
    weft_free(t.data);
    return numbers;
}

static const weft_lowered *train_of(const model_run *m)
{
    return m->plan->lowered[WEFT_MODE_TRAIN];
}

model_numbers model_run_get(model_run *m, const char *name)
{
    const weft_state_entry *e = weft_states_find(&m->plan->states, name);
    if (!e)
        fail_msg("the run has no parameter or state %s", name);
    return read_buffer(m, train_of(m), e->value);
}

void model_run_set(model_run *m, const char *name, const weft_safetensor *values)
{
    const weft_state_entry *e = weft_states_find(&m->plan->states, name);
    if (!e)
        fail_msg("the run has no parameter or state %s", name);
    weft_tensor t;
    weft_local_tensor(train_of(m)->graph, e->value, train_of(m)->coord, &t);
    assert_int_equal(t.n_dims, values->n_dims);
    for (int d = 0; d < t.n_dims; d++)
        assert_int_equal(t.size[d], values->size[d]);
    t.data = need(weft_alloc((size_t)e->bytes));
    for (int64_t i = 0; i < weft_tensor_count(&t); i++)
        weft_tensor_set(&t, i, safetensor_get(values, i));
    check(m,
          m->plan->device->upload(m->plan->device_self, NULL, (char *)m->run->state + e->offset,
                                  t.data, (size_t)e->bytes, &m->err),
          name);
    weft_free(t.data);
}

void model_run_set_all(model_run *m, const safetensors *file, const char *prefix)
{
    const weft_safetensor *t;
    int set = 0;
    size_t n = strlen(prefix);
    for (int i = 0; (t = safetensors_at(file, i)); i++) {
        if (strncmp(t->name, prefix, n) != 0 || t->name[n] != '/')
            continue;
        model_run_set(m, t->name + n + 1, t);
        set++;
    }
    assert_int_equal(set, model_run_parameters(m));
}

/* ---- training ---- */

int model_run_parameters(const model_run *m)
{
    return m->plan->graphs[WEFT_MODE_TRAIN]->n_parameters;
}

const char *model_run_name(const model_run *m, int i)
{
    return m->plan->graphs[WEFT_MODE_TRAIN]->parameters[i]->name;
}

model_numbers model_run_gradient(const model_run *m, const char *name)
{
    for (int i = 0; i < model_run_parameters(m); i++)
        if (strcmp(model_run_name(m, i), name) == 0)
            return m->gradients[i];
    fail_msg("the run has no parameter %s", name);
    return (model_numbers){0};
}

static weft_status keep_gradients(weft_probe *probe, weft_run *run, weft_error *err)
{
    model_run *m = (model_run *)probe;
    (void)run, (void)err;
    for (int i = 0; i < model_run_parameters(m); i++)
        m->gradients[i] =
            read_buffer(m, train_of(m), m->plan->graphs[WEFT_MODE_TRAIN]->parameters[i]->gradient);
    return WEFT_OK;
}

static weft_status report_step(weft_probe *probe, weft_run *run, weft_error *err)
{
    model_run *m = (model_run *)probe;
    (void)run, (void)err;
    if (m->after_step)
        m->after_step(m, m->ctx);
    return WEFT_OK;
}

void model_run_train(model_run *m)
{
    static const volatile sig_atomic_t never;
    m->run->probe = &m->probe;
    check(m, weft_run_train(m->run, &never, &m->err), "train");
}

/* ---- the other modes ---- */

double model_run_evaluate(model_run *m, int64_t *tokens)
{
    assert_non_null(m->plan->lowered[WEFT_MODE_EVALUATE]);
    check(m, weft_run_evaluate(m->run, &m->err), "evaluate");
    if (tokens)
        *tokens = m->run->view.eval_tokens;
    return m->run->view.eval_loss;
}

static void set_ints(const weft_batch *batch, const char *name, const int32_t *values,
                     int32_t first)
{
    weft_tensor t;
    int32_t *to = weft_batch_input(batch, 0, name, &t);
    assert_non_null(to);
    for (int64_t i = 0; i < weft_tensor_count(&t); i++)
        to[i] = values ? values[i] : first + (int32_t)i;
}

/* The whole sample as one part of a text, whatever its positions and segments. */
model_numbers model_run_logits(model_run *m, int64_t sample, int64_t last)
{
    const weft_lowered *l = m->plan->lowered[WEFT_MODE_GENERATE];
    weft_batch *batch = NULL;
    weft_sample s = {0};
    assert_non_null(l);
    assert_non_null(m->samples.ids);
    assert_int_equal(l->graph->config.sizes.seq_len, m->plan->seq_len);
    check(m, weft_batch_create(m->run, WEFT_MODE_GENERATE, 1, &batch, &m->err), "logits");
    check(m, weft_sample_init(&s, l->graph, &m->err), "logits");
    take_sample(m, WEFT_SPLIT_VALIDATION, sample, &s, &m->err);
    weft_fill_step(batch, 0);
    weft_fill_inputs(batch, 0, 0, &s);
    set_ints(batch, "cached_index", NULL, 0);
    set_ints(batch, "cached_segments", s.segments, 0);
    set_ints(batch, "last", NULL, (int32_t)last);
    check(m, weft_run_feed(m->run, batch, &m->err), "logits");
    check(m,
          weft_run_parts(m->run, WEFT_MODE_GENERATE, WEFT_PART_BEGIN, WEFT_PART_STEP_END, NULL,
                         &m->err),
          "logits");
    weft_batch_destroy(batch);
    weft_sample_release(&s);
    return read_buffer(m, l, l->graph->logits);
}

/* ---- life ---- */

static void write_ini(weft_text *ini, const char *plugins, const char *rest)
{
    const char *fixtures = getenv("WEFT_TEST_FIXTURES");
    if (!fixtures)
        fail_msg("set WEFT_TEST_FIXTURES to the folder that holds the fixture plugins' .so files");
    weft_text_print(ini, "[weft]\nplugin_path = %s/../run\nplugins = %s%s\n%s", fixtures,
                    strstr(plugins, "latents") ? "" : "given ", plugins, rest);
}

void model_run_start(model_run *m, const char *plugins, const char *rest)
{
    weft_text ini = {0};
    memset(m, 0, sizeof *m);
    m->probe = (weft_probe){.gradients = keep_gradients, .updated = report_step};
    m->log = (weft_log){log_line, &m->seen};
    write_ini(&ini, plugins, rest);
    weft_status s =
        weft_settings_read_text("test.ini", weft_text_get(&ini), ini.size, &m->settings, &m->err);
    weft_text_release(&ini);
    const weft_params *run = NULL;
    s = s ? s : weft_settings_fall_back(m->settings, WEFT_BUILT_IN, weft_built_in, &m->err);
    s = s ? s : weft_plugins_load(m->settings, &m->log, &m->plugins, &m->err);
    s = s ? s : weft_settings_section(m->settings, "weft", weft_core_params("weft"), &run, &m->err);
    check(m, s, "loading");
    int threads = weft_params_is(run, "threads", "auto") ? 1 : (int)weft_params_int(run, "threads");
    m->host =
        (weft_host){.log = &m->log, .ranks = 1, .threads = threads, .exchange = weft_host_exchange};
    const weft_plan_options options = {.ranks = 1};
    s = weft_plugins_create(m->plugins, &m->host, &m->err);
    s = s ? s : weft_plan_create(m->plugins, m->settings, &options, &m->plan, &m->err);
    check(m, s, "planning");
    m->device = *m->plan->device;
    m->device.peak = NULL; /* measuring takes longer than most tests */
    m->plan->device = &m->device;
    s = weft_plugins_open(m->plugins, &m->err);
    s = s ? s : weft_run_create(m->plan, &m->host, &m->run, &m->err);
    check(m, s, "starting");
    m->gradients =
        need(weft_pool_alloc(&m->pool, (size_t)model_run_parameters(m) * sizeof *m->gradients));
}

void model_run_release(model_run *m)
{
    weft_run_destroy(m->run);
    weft_plugins_close(m->plugins);
    weft_plan_destroy(m->plan);
    weft_plugins_destroy(m->plugins);
    weft_settings_destroy(m->settings);
    weft_pool_release(&m->pool);
    weft_error_release(&m->err);
    weft_text_release(&m->seen);
    memset(m, 0, sizeof *m);
}
