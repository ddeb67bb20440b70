/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts as embeddings, and noise, from .safetensors files. */
#include "images.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static weft_status open_file(const images *m, const char *key, const char *path, weft_folder **out,
                             weft_error *err)
{
    weft_error why = {0};
    weft_status s = weft_folder_open(weft_io_system(), path, out, &why);
    if (s)
        weft_fail(err, WEFT_ERR_INPUT, weft_params_where(m->host->params, key), "[images] %s: %s",
                  key, weft_error_text(&why));
    weft_error_release(&why);
    return s ? WEFT_ERR_INPUT : WEFT_OK;
}

/* Texts of a file; 0: none. */
static int64_t count(const weft_folder *f)
{
    const weft_stored *t5 = weft_folder_find(f, "t5"), *clip = weft_folder_find(f, "clip");
    return t5 && clip && t5->n_dims == 3 && clip->n_dims == 2 && t5->size[0] == clip->size[0]
               ? t5->size[0]
               : 0;
}

static bool is_real(const weft_stored *t)
{
    return t->dtype == WEFT_F32 || t->dtype == WEFT_F64 || t->dtype == WEFT_BF16 ||
           strcmp(t->type, "F16") == 0;
}

static weft_status check_file(const images *m, const char *key, const char *path,
                              const weft_folder *f, weft_error *err)
{
    static const char *const read[] = {"t5", "clip", "noise"};
    const weft_where at = weft_params_where(m->host->params, key);
    const int64_t n = count(f);
    weft_status s = WEFT_OK;
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        const weft_stored *t = weft_folder_find(f, read[i]);
        if (t && !is_real(t))
            s = weft_fail(err, WEFT_ERR_INPUT, at,
                          "[images] %s: %s of %s is %s; F16, BF16, F32 and F64 are read", key,
                          read[i], path, t->type);
    }
    if (s)
        return s;
    if (n < 1)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "[images] %s: %s must have the tensors t5 [n tokens width] and clip [n "
                         "width], of the same texts",
                         key, path);
    if (strcmp(key, "empty") == 0)
        return n == 1 ? WEFT_OK
                      : weft_fail(err, WEFT_ERR_INPUT, at,
                                  "[images] empty: %s has %lld texts; the empty one is one", path,
                                  (long long)n);
    const weft_stored *noise = weft_folder_find(f, "noise");
    if (m->noise == IMAGES_NOISE_OF_FILE && (!noise || noise->n_dims != 4 || noise->size[0] != n))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "[images] %s has no tensor noise [%lld channels height width]", path,
                         (long long)n);
    return WEFT_OK;
}

int64_t images_samples(const images *m)
{
    int n = 0;
    while (weft_params_word(m->host->params, "samples", n))
        n++;
    return n;
}

/* `samples`, or all there are. */
static weft_status choose(images *m, weft_error *err)
{
    const weft_params *p = m->host->params;
    const int64_t there = count(m->prompts);
    weft_status s = WEFT_OK;
    const int64_t n = images_samples(m);
    const char *word;
    m->n = n ? n : there;
    if (!(m->chosen = weft_alloc((size_t)m->n * sizeof *m->chosen)))
        return weft_fail_memory(err);
    for (int64_t i = 0; !n && i < m->n; i++)
        m->chosen[i] = i;
    for (int i = 0; (word = weft_params_word(p, "samples", i)); i++) {
        char *end;
        m->chosen[i] = strtoll(word, &end, 10);
        if (end == word || *end || m->chosen[i] < 0 || m->chosen[i] >= there)
            s = weft_fail(err, WEFT_ERR_INPUT, weft_params_word_where(p, "samples", i),
                          "[images] samples: there is no '%s' in %s, which has 0 to %lld", word,
                          m->prompts_path, (long long)there - 1);
    }
    return s;
}

/* ---- are they numbers? ---- */

/* Row `sample` of a tensor. */
static weft_status check_row(const images *m, const char *key, weft_folder *f, const weft_stored *t,
                             int64_t sample, weft_error *err)
{
    int64_t lo[WEFT_MAX_DIMS] = {sample}, size[WEFT_MAX_DIMS] = {1}, n = 1;
    for (int d = 1; d < t->n_dims; d++)
        n *= size[d] = t->size[d];
    double *row = weft_alloc((size_t)n * sizeof *row);
    weft_status s =
        row ? weft_folder_read(f, t->name, lo, size, WEFT_F64, row, err) : weft_fail_memory(err);
    for (int64_t i = 0; i < n && !s; i++)
        if (!isfinite(row[i]))
            s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(m->host->params, key),
                          "[images] %s: %s has %g in its tensor %s, sample %lld; no picture can be "
                          "made of that",
                          key, strcmp(key, "empty") == 0 ? m->empty_path : m->prompts_path, row[i],
                          t->name, (long long)sample);
    weft_free(row);
    return s;
}

/* Of the chosen ones, of which each is read again for its picture: long before any is begun. */
static weft_status check_numbers(const images *m, weft_error *err)
{
    static const char *const names[] = {"t5", "clip", "noise"};
    const int kinds = m->noise == IMAGES_NOISE_OF_FILE ? 3 : 2;
    weft_status s = WEFT_OK;
    for (int k = 0; k < kinds && m->prompts; k++)
        for (int64_t i = 0; i < m->n; i++) {
            weft_status one = check_row(m, "prompts", m->prompts,
                                        weft_folder_find(m->prompts, names[k]), m->chosen[i], err);
            s = s ? s : one;
        }
    for (int k = 0; k < 2 && m->empty; k++) {
        weft_status one =
            check_row(m, "empty", m->empty, weft_folder_find(m->empty, names[k]), 0, err);
        s = s ? s : one;
    }
    return s;
}

weft_status images_open_prompts(images *m, weft_error *err)
{
    const bool needs_empty = m->cfg != 1;
    weft_status s = WEFT_OK, one = WEFT_OK;
    if (!*m->prompts_path)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "[images] prompts is not set; `weft generate` has --prompts for it");
    if (needs_empty && !*m->empty_path)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(m->host->params, "cfg"),
                      "[images] cfg needs the embeddings of an empty text; `weft generate` has "
                      "--empty for them");
    if (*m->prompts_path) {
        one = open_file(m, "prompts", m->prompts_path, &m->prompts, err);
        one = one ? one : check_file(m, "prompts", m->prompts_path, m->prompts, err);
        one = one ? one : choose(m, err);
        s = s ? s : one;
    }
    if (needs_empty && *m->empty_path) {
        one = open_file(m, "empty", m->empty_path, &m->empty, err);
        one = one ? one : check_file(m, "empty", m->empty_path, m->empty, err);
        s = s ? s : one;
    }
    s = s ? s : check_numbers(m, err);
    if (s)
        images_close_prompts(m);
    return s;
}

void images_close_prompts(images *m)
{
    weft_folder_destroy(m->prompts);
    weft_folder_destroy(m->empty);
    weft_free(m->chosen);
    m->prompts = m->empty = NULL;
    m->chosen = NULL;
    m->n = 0;
}

/* ---- sizes ---- */

static weft_status check_tensor(const images *m, const char *key, const weft_folder *f,
                                const char *name, const int64_t *want, weft_error *err)
{
    static const char *const what[][3] = {
        {"tokens", "width", NULL}, {"width", NULL, NULL}, {"channels", "height", "width"}};
    const char *const *dim = what[strcmp(name, "t5") == 0 ? 0 : strcmp(name, "clip") == 0 ? 1 : 2];
    const weft_stored *t = weft_folder_find(f, name);
    weft_status s = WEFT_OK;
    for (int d = 0; d < 3 && dim[d]; d++)
        if (t->size[d + 1] != want[d])
            s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(m->host->params, key),
                          "[images] %s: %s of %s is %lld, and the model is made for %lld", key,
                          dim[d], name, (long long)t->size[d + 1], (long long)want[d]);
    return s;
}

weft_status images_check_sizes(const images *m, weft_error *err)
{
    const images_model *o = &m->model;
    const int64_t t5[] = {o->text, o->t5}, clip[] = {o->clip},
                  noise[] = {o->channels, 2 * o->rows, 2 * o->columns};
    weft_status s = check_tensor(m, "prompts", m->prompts, "t5", t5, err);
    weft_status all[4] = {check_tensor(m, "prompts", m->prompts, "clip", clip, err)};
    if (m->noise == IMAGES_NOISE_OF_FILE)
        all[1] = check_tensor(m, "prompts", m->prompts, "noise", noise, err);
    if (m->empty) {
        all[2] = check_tensor(m, "empty", m->empty, "t5", t5, err);
        all[3] = check_tensor(m, "empty", m->empty, "clip", clip, err);
    }
    for (int i = 0; i < 4; i++)
        s = s ? s : all[i];
    return s;
}

/* ---- numbers ---- */

weft_status images_read_prompt(const images *m, int64_t k, bool empty, double *t5, double *clip,
                               weft_error *err)
{
    weft_folder *f = empty ? m->empty : m->prompts;
    const int64_t lo[3] = {empty ? 0 : m->chosen[k]};
    weft_status s = weft_folder_read(f, "t5", lo, (int64_t[]){1, m->model.text, m->model.t5},
                                     WEFT_F64, t5, err);
    return s ? s
             : weft_folder_read(f, "clip", lo, (int64_t[]){1, m->model.clip}, WEFT_F64, clip, err);
}

int64_t images_point(const images_model *m, int64_t i)
{
    const int64_t packed = 4 * m->channels, place = i / packed, channel = i % packed / 4,
                  y = place / m->columns * 2 + i % 4 / 2, x = place % m->columns * 2 + i % 2;
    return (channel * 2 * m->rows + y) * 2 * m->columns + x;
}

weft_status images_read_noise(const images *m, int64_t k, double *to, weft_error *err)
{
    const images_model *o = &m->model;
    const int64_t n = images_points(o), lo[4] = {m->chosen[k]},
                  size[4] = {1, o->channels, 2 * o->rows, 2 * o->columns};
    const uint64_t stream = weft_hash_bytes(weft_hash_name("images"), &k, sizeof k);
    for (int64_t i = 0; i < n && m->noise == IMAGES_NOISE_DRAWN; i++)
        to[i] = weft_normal_inverse(weft_random_uniform(m->seed, stream, (uint64_t)i));
    if (m->noise == IMAGES_NOISE_DRAWN)
        return WEFT_OK;
    double *whole = weft_alloc((size_t)n * sizeof *whole);
    weft_status s = whole ? weft_folder_read(m->prompts, "noise", lo, size, WEFT_F64, whole, err)
                          : weft_fail_memory(err);
    for (int64_t i = 0; i < n && !s; i++)
        to[i] = whole[images_point(o, i)];
    weft_free(whole);
    return s;
}
