/* SPDX-License-Identifier: Apache-2.0 */
/* latents: pictures as a variational autoencoder's latents, and their texts as embeddings, computed
 * before and read from files. */
#include "latents.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct latents {
    const weft_host *host;
    int64_t validation;
    double drop[LATENTS_KINDS]; /* of t5 and clip: how often the empty one takes its place */
    const char *empty;
    bool shuffle;
    latents_file **files, *empty_file;
    int n_files, capacity;
    int64_t n; /* samples of all */
    uint64_t seed;
    weft_field fields[LATENTS_KINDS + 1];
    int kinds[LATENTS_KINDS], n_fields; /* of each field */
} latents;

static const char *const more[] = {"noise", "time", NULL};

#define DROP(key_, kind_, help_)                                                                   \
    {                                                                                              \
        .name = key_, WEFT_REAL(latents, drop[kind_]), .value = "0", .min = 0, .max = 1,           \
        .help = help_                                                                              \
    }
static const weft_param params[] = {
    {.name = "path",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_REQUIRED,
     .help = "Files (.safetensors, .tar), and folders of such."},
    {.name = "empty",
     WEFT_PATH(latents, empty),
     .help =
         "A file with the embeddings of an empty text, t5 [1 tokens width] and clip [1 width]."},
    DROP("drop_t5", LATENTS_TEXT,
         "Which part of the samples has the empty text's t5, each by itself."),
    DROP("drop_clip", LATENTS_CLIP, "The same of clip, by dice of its own."),
    {.name = "validation",
     WEFT_INT(latents, validation),
     .value = "0",
     .min = 0,
     .max = INT32_MAX,
     .unit = "samples",
     .help = "The last so many samples are for validation."},
    {.name = "shuffle",
     WEFT_BOOL(latents, shuffle),
     .value = "yes",
     .help = "Each epoch in an order of its own, drawn from [train] seed."},
    {.name = "also",
     .type = WEFT_PARAM_CHOICE,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_ADVANCED,
     .choices = more,
     .help = "What else the files have, for [flux] noise = data, timestep = data: noise, like "
             "latents, and time [n]."},
    {.name = NULL},
};

/* ---- fields ---- */

static void add_field(latents *l, int kind)
{
    static const weft_field all[LATENTS_KINDS] = {
        [LATENTS_IMAGE] = {.name = "image", .shape = "batch image_seq packed", .dtype = WEFT_F32},
        [LATENTS_TEXT] = {.name = "text", .shape = "batch text_seq t5_width", .dtype = WEFT_F32},
        [LATENTS_CLIP] = {.name = "clip", .shape = "batch clip_width", .dtype = WEFT_F32},
        [LATENTS_NOISE] = {.name = "noise", .shape = "batch image_seq packed", .dtype = WEFT_F32},
        [LATENTS_TIME] = {.name = "time", .shape = "batch", .dtype = WEFT_F32}};
    l->kinds[l->n_fields] = kind;
    l->fields[l->n_fields++] = all[kind];
}

static weft_status create(void *self, weft_error *err)
{
    latents *l = self;
    const weft_params *p = l->host->params;
    weft_status s = WEFT_OK;
    for (int k = LATENTS_IMAGE; k <= LATENTS_CLIP; k++) {
        add_field(l, k);
        /* of a checkpoint no path is known, and nothing is read */
        if (l->drop[k] > 0 && weft_params_given(p, "path") && !weft_params_given(p, "empty"))
            s = weft_fail(err, WEFT_ERR_INPUT,
                          weft_params_where(p, k == LATENTS_TEXT ? "drop_t5" : "drop_clip"),
                          "[latents] %s needs `empty`: a file with the embeddings of an empty text",
                          k == LATENTS_TEXT ? "drop_t5" : "drop_clip");
    }
    if (weft_params_has(p, "also", "noise"))
        add_field(l, LATENTS_NOISE);
    if (weft_params_has(p, "also", "time"))
        add_field(l, LATENTS_TIME);
    return s;
}

static const weft_field *fields(void *self)
{
    return ((latents *)self)->fields;
}

/* ---- files ---- */

static weft_status add_file(latents *l, const char *path, weft_where at, weft_error *err)
{
    latents_file *f;
    if (l->n_files == l->capacity) {
        const int capacity = l->capacity ? 2 * l->capacity : 16;
        latents_file **longer = weft_realloc(l->files, (size_t)capacity * sizeof *longer);
        if (!longer)
            return weft_fail_memory(err);
        l->files = longer;
        l->capacity = capacity;
    }
    weft_status s = latents_open(path, at, &f, err);
    if (s)
        return s;
    l->files[l->n_files++] = f;
    l->n += latents_count(f);
    for (int i = 0; i < l->n_fields; i++)
        if (!latents_sizes_of(f)->there[l->kinds[i]])
            s = weft_fail(err, WEFT_ERR_INPUT, at, "[latents] %s has no tensor %s", path,
                          latents_names[l->kinds[i]]);
    return s;
}

static bool is_ours(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".safetensors") == 0 || strcmp(dot, ".tar") == 0);
}

/* A folder's files, sorted; or the file itself. */
static weft_status add_path(latents *l, const char *path, weft_where at, weft_error *err)
{
    const weft_io *io = weft_io_system();
    char **names = NULL;
    weft_status s = WEFT_OK;
    if (is_ours(path))
        return add_file(l, path, at, err);
    const bool lists = io->list(io->ctx, path, &names) == 0;
    if (!lists && errno == ENOENT)
        return weft_fail(err, WEFT_ERR_INPUT, at, "[latents] %s: there is no such file or folder",
                         path);
    if (!lists)
        return add_file(l, path, at, err);
    const int before = l->n_files;
    for (char **name = names; *name; name++) {
        char *file = is_ours(*name) ? weft_format("%s/%s", path, *name) : NULL;
        weft_status one = file ? add_file(l, file, at, err) : WEFT_OK;
        s = s ? s : one;
        weft_free(file);
    }
    weft_names_free(names);
    if (!s && l->n_files == before)
        s = weft_fail(err, WEFT_ERR_INPUT, at, "[latents] %s has no .safetensors or .tar file",
                      path);
    return s;
}

/* Are the empty text's sizes those of the others? The model's are compared in `fit`. */
static weft_status check_empty(const latents *l, weft_where at, weft_error *err)
{
    const latents_sizes *e = latents_sizes_of(l->empty_file);
    weft_status s = WEFT_OK;
    if (latents_count(l->empty_file) != 1)
        s = weft_fail(err, WEFT_ERR_INPUT, at,
                      "[latents] empty: %s has %lld samples; the empty text is one", l->empty,
                      (long long)latents_count(l->empty_file));
    for (int k = LATENTS_TEXT; k <= LATENTS_CLIP; k++)
        if (l->drop[k] > 0 && !e->there[k])
            s = weft_fail(err, WEFT_ERR_INPUT, at, "[latents] %s has no tensor %s, and %s drops it",
                          l->empty, latents_names[k], k == LATENTS_TEXT ? "drop_t5" : "drop_clip");
    return s;
}

static void close_files(latents *l)
{
    for (int i = 0; i < l->n_files; i++)
        latents_close(l->files[i]);
    latents_close(l->empty_file);
    weft_free(l->files);
    l->files = NULL;
    l->empty_file = NULL;
    l->n_files = l->capacity = 0;
    l->n = 0;
}

static weft_status open_files(void *self, weft_error *err)
{
    latents *l = self;
    const weft_params *p = l->host->params;
    weft_status s = WEFT_OK;
    const char *path;
    for (int i = 0; (path = weft_params_word(p, "path", i)); i++) {
        weft_status one = add_path(l, path, weft_params_word_where(p, "path", i), err);
        s = s ? s : one;
    }
    if (weft_params_given(p, "empty")) {
        weft_status one =
            latents_open(l->empty, weft_params_where(p, "empty"), &l->empty_file, err);
        one = one ? one : check_empty(l, weft_params_where(p, "empty"), err);
        s = s ? s : one;
    }
    if (!s && weft_params_given(p, "path") && l->validation >= l->n)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "validation"),
                      "[latents] validation takes %lld samples, and there are %lld",
                      (long long)l->validation, (long long)l->n);
    if (s)
        close_files(l);
    return s;
}

static void close_all(void *self)
{
    close_files(self);
}

/* ---- sizes: the model's, and each file's ---- */

static weft_status misfit(const char *path, const char *what, int64_t here, const char *dim,
                          int64_t wanted, weft_where at, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, at,
                     "[latents] %s: %s is %lld, and the model is made for %lld (%s)", path, what,
                     (long long)here, (long long)wanted, dim);
}

static weft_status fit_file(const latents *l, const weft_graph *g, const latents_file *f,
                            bool is_empty, weft_error *err)
{
    static const struct {
        int kind, d;
        const char *what, *dim;
        int64_t times, over; /* of the size in the file */
    } checks[] = {
        {LATENTS_IMAGE, 0, "channels of latents", "packed", 4, 1},
        {LATENTS_IMAGE, 1, "height of latents", "image_rows", 1, 2},
        {LATENTS_IMAGE, 2, "width of latents", "image_columns", 1, 2},
        {LATENTS_NOISE, 0, "channels of noise", "packed", 4, 1},
        {LATENTS_NOISE, 1, "height of noise", "image_rows", 1, 2},
        {LATENTS_NOISE, 2, "width of noise", "image_columns", 1, 2},
        {LATENTS_TEXT, 0, "tokens of t5", "text_seq", 1, 1},
        {LATENTS_TEXT, 1, "width of t5", "t5_width", 1, 1},
        {LATENTS_CLIP, 0, "width of clip", "clip_width", 1, 1},
    };
    const latents_sizes *s = latents_sizes_of(f);
    const weft_where at = weft_params_where(l->host->params, is_empty ? "empty" : "path");
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const int k = checks[i].kind;
        const int64_t have = s->size[k][checks[i].d] * checks[i].times,
                      want = weft_graph_size(g, checks[i].dim) * checks[i].over;
        bool read = false;
        for (int n = 0; n < l->n_fields; n++)
            read = read || l->kinds[n] == k;
        if (!read || !s->there[k] || want == 0 || have == want ||
            (is_empty && (k == LATENTS_IMAGE || k == LATENTS_NOISE)))
            continue;
        status = misfit(latents_path(f), checks[i].what, s->size[k][checks[i].d], checks[i].dim,
                        want / checks[i].times, at, err);
    }
    return status;
}

static weft_status fit(void *self, const weft_graph *g, weft_error *err)
{
    const latents *l = self;
    weft_status s = WEFT_OK;
    for (int i = 0; i < l->n_files; i++) {
        weft_status one = fit_file(l, g, l->files[i], false, err);
        s = s ? s : one;
    }
    weft_status one = l->empty_file ? fit_file(l, g, l->empty_file, true, err) : WEFT_OK;
    return s ? s : one;
}

/* ---- samples ---- */

static weft_status begin(void *self, int64_t seq_len, uint64_t seed, weft_error *err)
{
    (void)seq_len, (void)err;
    ((latents *)self)->seed = seed;
    return WEFT_OK;
}

static int64_t samples(void *self, weft_split split)
{
    return split == WEFT_SPLIT_TRAIN ? INT64_MAX : ((const latents *)self)->validation;
}

/* Which sample of the files is number i of a split. */
static int64_t place_of(const latents *l, weft_split split, int64_t i)
{
    const int64_t n = l->n - l->validation;
    if (split != WEFT_SPLIT_TRAIN)
        return n + i;
    return l->shuffle
               ? (int64_t)weft_permute(l->seed, weft_hash_name("latents") + (uint64_t)(i / n),
                                       (uint64_t)n, (uint64_t)(i % n))
               : i % n;
}

/* Squares of 2 x 2 points, row by row; of each all channels, of these the points row by row. */
static void pack(const int64_t size[LATENTS_MOST_DIMS], const float *from, float *to)
{
    const int64_t channels = size[0], height = size[1], width = size[2];
    for (int64_t y = 0; y + 1 < height; y += 2)
        for (int64_t x = 0; x + 1 < width; x += 2)
            for (int64_t c = 0; c < channels; c++)
                for (int k = 0; k < 4; k++)
                    *to++ = from[(c * height + y + k / 2) * width + x + k % 2];
}

static weft_status read_picture(latents_file *f, int kind, int64_t i, float *to, weft_error *err)
{
    const latents_sizes *s = latents_sizes_of(f);
    float *room = weft_alloc((size_t)latents_elements(s, kind) * sizeof *room);
    if (!room)
        return weft_fail_memory(err);
    weft_status status = latents_read(f, kind, i, room, err);
    if (!status)
        pack(s->size[kind], room, to);
    weft_free(room);
    return status;
}

/* By dice of the sample's number, of each kind for itself. */
static bool is_dropped(const latents *l, weft_split split, int64_t i, int kind)
{
    return split == WEFT_SPLIT_TRAIN && l->drop[kind] > 0 &&
           weft_random_uniform(l->seed, weft_hash_name(latents_names[kind]), (uint64_t)i) <
               l->drop[kind];
}

static weft_status sample(void *self, weft_split split, int64_t i, const weft_sample *out,
                          weft_error *err)
{
    const latents *l = self;
    int64_t at = place_of(l, split, i);
    int file = 0;
    while (at >= latents_count(l->files[file]))
        at -= latents_count(l->files[file++]);
    weft_status s = WEFT_OK;
    for (int n = 0; n < l->n_fields && !s; n++) {
        const int kind = l->kinds[n];
        float *to = out->field[n];
        if (!to)
            continue;
        if (kind == LATENTS_IMAGE || kind == LATENTS_NOISE)
            s = read_picture(l->files[file], kind, at, to, err);
        else if (is_dropped(l, split, i, kind))
            s = latents_read(l->empty_file, kind, 0, to, err);
        else
            s = latents_read(l->files[file], kind, at, to, err);
    }
    return s;
}

static void describe(void *self, weft_text *text)
{
    const latents *l = self;
    weft_text_print(text, "latents of %lld pictures in %d file%s, %lld for validation",
                    (long long)l->n, l->n_files, l->n_files == 1 ? "" : "s",
                    (long long)l->validation);
}

/* Which files, how many samples of what sizes each has, and what is done with them. */
static uint64_t fingerprint(void *self)
{
    const latents *l = self;
    uint64_t h = weft_hash_name("latents");
    const double said[] = {l->drop[LATENTS_TEXT], l->drop[LATENTS_CLIP], l->shuffle,
                           (double)l->validation};
    for (int i = 0; i < l->n_files; i++) {
        const char *path = latents_path(l->files[i]), *name = strrchr(path, '/');
        const int64_t n = latents_count(l->files[i]);
        name = name ? name + 1 : path;
        h = weft_hash_bytes(h, name, strlen(name));
        h = weft_hash_bytes(h, &n, sizeof n);
        h = weft_hash_bytes(h, latents_sizes_of(l->files[i])->size,
                            sizeof latents_sizes_of(l->files[i])->size);
    }
    return weft_hash_bytes(h, said, sizeof said);
}

static const weft_data data = {.size = sizeof(weft_data),
                               .fields = fields,
                               .fit = fit,
                               .begin = begin,
                               .samples = samples,
                               .sample = sample,
                               .describe = describe,
                               .fingerprint = fingerprint};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "data", .table = &data},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(latents) = {
    WEFT_PLUGIN_HEAD,
    .name = "latents",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "data: latents of pictures, embeddings of their texts, from safetensors or tar",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(latents),
    .contributions = contributions,
    .create = create,
    .open = open_files,
    .close = close_all,
};
