/* SPDX-License-Identifier: Apache-2.0 */
/* images: a model of rectified flow makes pictures of prompts, while it trains or in `weft
 * generate`. Gives the capability "generator". */
#include "images.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const auto_word[] = {"auto", NULL};
static const char *const shifts[] = {"auto", "none", "places", NULL};
static const char *const noises[] = {"drawn", "file", NULL};

static const weft_param params[] = {
    {.name = "prompts",
     WEFT_PATH(images, prompts_path),
     .help = "A .safetensors file with the embeddings of texts, t5 [n tokens width] and clip [n "
             "width], such as those of [latents] path."},
    {.name = "samples",
     .type = WEFT_PARAM_STRING,
     .value = "",
     .flags = WEFT_PARAM_LIST,
     .help = "Which of them, from 0, a picture each; one named twice has two. Empty: all."},
    {.name = "every",
     WEFT_INT(images, every),
     .value = "1000",
     .min = 0,
     .max = 1e15,
     .unit = "steps",
     .help = "Steps of training from one set of pictures to the next; 0: after the last alone."},
    {.name = "steps",
     WEFT_INT(images, steps),
     .value = "28",
     .min = 1,
     .max = 100000,
     .help = "Steps from noise to a picture."},
    {.name = "guidance",
     WEFT_REAL(images, guidance),
     .value = "auto",
     .min = 0,
     .max = 1000,
     .choices = auto_word,
     .help = "What a model with [flux] guidance = yes is told; auto: 3.5."},
    {.name = "cfg",
     WEFT_REAL(images, cfg),
     .value = "1",
     .min = 0,
     .max = 1000,
     .help = "Classifier-free guidance: so many times the way from what the model says of the "
             "empty text to what it says of the prompt; 1: the prompt alone is asked."},
    {.name = "empty",
     WEFT_PATH(images, empty_path),
     .when = "cfg!=1",
     .help = "A file with the embeddings of an empty text, as that of [latents] empty."},
    {.name = "shift",
     WEFT_CHOICE(images, shift),
     .value = "auto",
     .choices = shifts,
     .help = "Steps lie nearer to the noise: none; places: the more, the more places the sequence "
             "of a picture has; auto: places, if the model is told a guidance, as published."},
    {.name = "base_shift",
     WEFT_REAL(images, base_shift),
     .value = "0.5",
     .min = -100,
     .max = 100,
     .flags = WEFT_PARAM_ADVANCED,
     .when = "shift!=none",
     .help = "The logarithm of the shift at 256 places."},
    {.name = "max_shift",
     WEFT_REAL(images, max_shift),
     .value = "1.15",
     .min = -100,
     .max = 100,
     .flags = WEFT_PARAM_ADVANCED,
     .when = "shift!=none",
     .help = "The same at 4096 places; on a line through both for others."},
    {.name = "noise",
     WEFT_CHOICE(images, noise),
     .value = "drawn",
     .choices = noises,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "What a picture begins as: drawn by the seed and its place in the list; file: `noise` "
             "[n channels height width] of the file of prompts."},
    {.name = "seed",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = 0,
     .max = 9e18,
     .choices = auto_word,
     .when = "noise=drawn",
     .help = "Seed of the noise; auto: that of the run."},
    {.name = "batch",
     WEFT_INT(images, batch),
     .value = "1",
     .min = 1,
     .max = 65536,
     .help = "Pictures that are made at a time."},
    {.name = "file",
     WEFT_PATH(images, file),
     .help = "The .safetensors file that their latents are written to; not set: images/step-N of "
             "the run folder."},
    {.name = NULL},
};

/* ---- what the model is asked for ---- */

static const weft_field *fields(void *self)
{
    static const weft_field all[] = {
        {.name = "image", .shape = "batch image_seq packed", .dtype = WEFT_F32},
        {.name = "text", .shape = "batch text_seq t5_width", .dtype = WEFT_F32},
        {.name = "clip", .shape = "batch clip_width", .dtype = WEFT_F32},
        {.name = "time", .shape = "batch", .dtype = WEFT_F32},
        {.name = "guidance", .shape = "batch", .dtype = WEFT_F32},
        {.name = NULL}};
    (void)self;
    return all;
}

static int64_t rows(void *self)
{
    return images_rows(self);
}

static bool want(void *self, int64_t step, bool last)
{
    const images *m = self;
    return last || (m->every > 0 && step % m->every == 0);
}

/* Where shift is auto, the model decides whether there is one. */
static void check_idle(const images *m)
{
    static const char *const keys[] = {"base_shift", "max_shift"};
    const double by_itself[] = {0.5, 1.15}, now[] = {m->base_shift, m->max_shift};
    const weft_params *p = m->host->params;
    for (int i = 0; i < 2 && m->shift == IMAGES_BY_MODEL && !images_shifts(m); i++)
        if (now[i] != by_itself[i])
            weft_warn(
                m->host, weft_params_where(p, keys[i]),
                "[images] %s = %s does nothing: it is for shift = places, and auto is none for "
                "a model that is told no guidance",
                keys[i], weft_params_text(p, keys[i]));
}

/* The model is there: its sizes. */
static void look(void *self, weft_graph *g)
{
    images *m = self;
    const bool trains = weft_graph_mode(g) == WEFT_MODE_TRAIN;
    if (trains ? !weft_graph_find(g, "image") : !weft_output_is_like(g, "image")) {
        weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_where(m->host->weft, "plugins"),
                        "[weft] plugins lists images, which is for models that make pictures, as "
                        "flux does: they set an output like their input 'image', and this one has "
                        "none; leave images out (texts are written by the plugin sample)");
        return;
    }
    if (trains)
        return;
    m->model = (images_model){.rows = weft_graph_size(g, "image_rows"),
                              .columns = weft_graph_size(g, "image_columns"),
                              .channels = weft_graph_size(g, "packed") / 4,
                              .text = weft_graph_size(g, "text_seq"),
                              .t5 = weft_graph_size(g, "t5_width"),
                              .clip = weft_graph_size(g, "clip_width"),
                              .guided = weft_graph_find(g, "guidance") != NULL};
    if (weft_params_given(m->host->params, "guidance") && !m->model.guided &&
        !weft_params_is(m->host->params, "guidance", "auto"))
        weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_where(m->host->params, "guidance"),
                        "[images] guidance: the model is told none ([flux] guidance = no); cfg "
                        "with the empty text's embeddings works with any model");
    check_idle(m);
    if (m->prompts)
        images_check_sizes(m, weft_graph_error(g));
}

/* ---- the pictures' file ---- */

/* Pictures of training say whose they are: those of the same run folder are replaced by the next,
 * and no other file is. */
static const char in_run[] = "run";

static char *folder_of(const images *m)
{
    return m->host->dir ? realpath(m->host->dir, NULL) : NULL;
}

static bool is_own(const images *m)
{
    weft_folder *f = NULL;
    weft_error why = {0};
    const char *run = NULL;
    char *folder = folder_of(m);
    if (folder && !weft_folder_open(weft_io_system(), m->file, &f, &why))
        run = weft_folder_metadata(f, in_run);
    const bool own = run && strcmp(run, folder) == 0;
    weft_folder_destroy(f);
    free(folder);
    weft_error_release(&why);
    return own;
}

static bool is_same(const char *path, const struct stat *file)
{
    struct stat st;
    return *path && stat(path, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* Is there a file that somebody else has made? Prompts and data are among those. */
static weft_status check_name(const images *m, weft_error *err)
{
    const weft_where at = weft_params_where(m->host->params, "file");
    struct stat st;
    if (m->host->rank != 0 || !*m->file || stat(m->file, &st) != 0)
        return WEFT_OK;
    for (int i = 0; i < 2; i++)
        if (is_same(i ? m->empty_path : m->prompts_path, &st))
            return weft_fail(err, WEFT_ERR_INPUT, at,
                             "[images] file: %s is the file of `%s`; name another", m->file,
                             i ? "empty" : "prompts");
    return is_own(m) ? WEFT_OK
                     : weft_fail(err, WEFT_ERR_INPUT, at,
                                 "[images] file: %s is there already, and not of this run; name "
                                 "another",
                                 m->file);
}

static char *path_of(const images *m, const weft_run_view *run)
{
    if (*m->file)
        return weft_format("%s", m->file);
    return weft_format("%s/images/step-%" PRId64 ".safetensors", run->dir, run->step);
}

/* How they were made. */
static weft_status save(const images *m, const float *pictures, const char *path, weft_error *err)
{
    const weft_safetensor t = {
        .name = "latents",
        .dtype = WEFT_F32,
        .n_dims = 4,
        .size = {m->n, m->model.channels, 2 * m->model.rows, 2 * m->model.columns},
        .data = pictures};
    char text[4][32];
    snprintf(text[0], sizeof text[0], "%" PRId64, m->steps);
    snprintf(text[1], sizeof text[1], "%g", m->cfg);
    snprintf(text[2], sizeof text[2], "%" PRIu64, m->seed);
    snprintf(text[3], sizeof text[3], "%g", m->guidance);
    const char *metadata[11] = {"steps", text[0], "cfg", text[1], "seed", text[2]};
    int n = 6;
    if (m->model.guided) {
        metadata[n++] = "guidance";
        metadata[n++] = text[3];
    }
    char *folder = *m->file && !m->host->no_data ? folder_of(m) : NULL;
    if (folder) {
        metadata[n++] = in_run;
        metadata[n++] = folder;
    }
    weft_status s = weft_write_safetensors(path, &t, 1, metadata, err);
    free(folder);
    return s;
}

static weft_status save_in_folder(const images *m, const weft_run_view *run, const float *pictures,
                                  const char *path, weft_error *err)
{
    char *folder = weft_format("%s/images", run->dir);
    weft_status s = folder ? weft_make_dirs(folder, err) : weft_fail_memory(err);
    weft_free(folder);
    return s ? s : save(m, pictures, path, err);
}

/* A disk that is full is no reason to end training. */
static weft_status save_or_warn(const images *m, const weft_run_view *run, const float *pictures,
                                double seconds, weft_error *err)
{
    char *path = path_of(m, run);
    weft_error why = {0};
    weft_status s = !path      ? weft_fail_memory(&why)
                    : *m->file ? save(m, pictures, path, &why)
                               : save_in_folder(m, run, pictures, path, &why);
    if (!s)
        weft_log_print(m->host->log, WEFT_LOG_INFO,
                       "latents of %" PRId64 " picture%s in %s, %.2f s", m->n, m->n == 1 ? "" : "s",
                       path, seconds);
    else if (!m->host->no_data)
        weft_log_print(m->host->log, WEFT_LOG_WARN, "[images] %s", weft_error_text(&why));
    else
        weft_fail(err, s, weft_params_where(m->host->params, "file"), "[images] %s",
                  weft_error_text(&why));
    weft_error_release(&why);
    weft_free(path);
    return m->host->no_data ? s : WEFT_OK;
}

static weft_status write(void *self, const weft_run_view *run, weft_error *err)
{
    images *m = self;
    const double begin = weft_now();
    const int64_t n = run->rank == 0 ? m->n * images_points(&m->model) : 0;
    weft_tensor latents = {
        .dtype = WEFT_F32, .n_dims = 1, .size = {n}, .data = weft_alloc((size_t)n * sizeof(float))};
    weft_status s =
        latents.data || n == 0 ? images_make(m, run, &latents, err) : weft_fail_memory(err);
    if (!s && run->rank == 0)
        s = save_or_warn(m, run, latents.data, weft_now() - begin, err);
    weft_free(latents.data);
    return s;
}

static const weft_generator generator = {
    .size = sizeof(weft_generator), .want = want, .fields = fields, .rows = rows, .write = write};

/* ---- the plugin ---- */

static weft_status create(void *self, weft_error *err)
{
    images *m = self;
    const weft_params *p = m->host->params;
    const int64_t samples = images_samples(m);
    weft_status s = WEFT_OK;
    if (samples > 0 && m->batch > samples)
        m->batch = samples;
    m->seed = (uint64_t)(weft_params_is(p, "seed", "auto") ? weft_params_int(m->host->train, "seed")
                                                           : weft_params_int(p, "seed"));
    if (weft_params_is(p, "guidance", "auto"))
        m->guidance = 3.5;
    if (m->cfg != 1 && !weft_params_given(p, "empty") && !m->host->no_data)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "cfg"),
                      "[images] cfg needs `empty`: a file with the embeddings of an empty text");
    if (!weft_params_given(p, "prompts") && !m->host->no_data)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "[images] needs `prompts`: a file with the embeddings of texts");
    return s;
}

/* Memory is planned for `batch` pictures at a time: for more than there are, only where that was
 * before anybody knew. */
static weft_status fit_batch(images *m, weft_error *err)
{
    if (m->batch > m->n && m->model.rows)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(m->host->params, "batch"),
                         "[images] batch is %" PRId64 ", and %s has %" PRId64
                         " texts; set it to that, or less",
                         m->batch, m->prompts_path, m->n);
    m->batch = m->batch < m->n ? m->batch : m->n;
    return WEFT_OK;
}

static weft_status open_files(void *self, weft_error *err)
{
    images *m = self;
    weft_status s = WEFT_OK;
    if (!*m->file && !m->host->dir)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "[images] has nowhere to write to: set [weft] dir, or [images] file");
    weft_status one = check_name(m, err);
    s = s ? s : one;
    one = images_open_prompts(m, err);
    s = s ? s : one;
    one = s ? WEFT_OK : fit_batch(m, err);
    s = s ? s : one;
    one = !s && m->model.rows ? images_check_sizes(m, err) : WEFT_OK;
    return s ? s : one;
}

static void close_files(void *self)
{
    images_close_prompts(self);
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "generator", .table = &generator},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_TABLE,
     .modes = WEFT_IN_TRAIN | WEFT_IN_GENERATE,
     .graph = look,
     .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(images) = {
    WEFT_PLUGIN_HEAD,
    .name = "images",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "makes pictures with a model of rectified flow, as latents",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .self_size = WEFT_SELF(images),
    .contributions = contributions,
    .create = create,
    .open = open_files,
    .close = close_files,
};
