/* SPDX-License-Identifier: Apache-2.0 */
/* digits: data without files or text, pictures of the digits 0 to 9 that lie somewhere, larger or
 * smaller in contrast, under noise. It shows data that have fields of their own. */
#include <weft/weft.h>

enum { ROWS = 12, COLUMNS = 12, GLYPH_ROWS = 5, GLYPH_COLUMNS = 3, ZOOM = 2 };

/* Five rows of three points, the highest bit first. */
static const uint16_t glyphs[10] = {0x7b6f, 0x2c97, 0x73e7, 0x73cf, 0x5bc9,
                                    0x79cf, 0x79ef, 0x7249, 0x7bef, 0x7bcf};

typedef struct digits {
    const weft_host *host;
    int64_t validation;
    double noise;
    uint64_t seed;
} digits;

enum { IMAGE, LABELS };
static const weft_field field_list[] = {
    [IMAGE] = {.name = "image", .shape = "batch rows columns", .dtype = WEFT_F32},
    [LABELS] = {"labels", "batch", WEFT_I32, .below = "classes", .low = -1, .pad = -1},
    {.name = NULL},
};

static const weft_field *fields(void *self)
{
    (void)self;
    return field_list;
}

/* What the model declares must be what there is. */
static weft_status fit(void *self, const weft_graph *g, weft_error *err)
{
    const int64_t rows = weft_graph_size(g, "rows"), columns = weft_graph_size(g, "columns");
    (void)self;
    if ((rows == ROWS && columns == COLUMNS) || rows == 0 || columns == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "digits: pictures are %d rows of %d, and the model is made for %lld of %lld",
                     ROWS, COLUMNS, (long long)rows, (long long)columns);
}

static weft_status begin(void *self, int64_t seq_len, uint64_t seed, weft_error *err)
{
    (void)seq_len, (void)err;
    ((digits *)self)->seed = seed;
    return WEFT_OK;
}

static int64_t samples(void *self, weft_split split)
{
    return split == WEFT_SPLIT_TRAIN ? INT64_MAX : ((const digits *)self)->validation;
}

/* Is there ink at this point of the digit? */
static bool has_ink(int digit, int row, int column)
{
    const int r = row / ZOOM, c = column / ZOOM;
    return row >= 0 && column >= 0 && r < GLYPH_ROWS && c < GLYPH_COLUMNS &&
           glyphs[digit] >> (GLYPH_ROWS * GLYPH_COLUMNS - 1 - r * GLYPH_COLUMNS - c) & 1;
}

/* May be called from a thread of its own, for any i in any order: all is drawn by its number, so
 * that it is the same on every rank, and after a restart. */
static weft_status sample(void *self, weft_split split, int64_t i, const weft_sample *out,
                          weft_error *err)
{
    const digits *d = self;
    float *image = out->field[IMAGE];
    int32_t *label = out->field[LABELS];
    const char *name = split == WEFT_SPLIT_TRAIN ? "digits train" : "digits validation";
    const uint64_t stream = weft_hash_name(name) + (uint64_t)i,
                   drawn = weft_random_bits(d->seed, stream, 0);
    const int digit = (int)(drawn % 10), down = (int)(drawn / 10 % (ROWS - ZOOM * GLYPH_ROWS + 1)),
              right = (int)(drawn / 100 % (COLUMNS - ZOOM * GLYPH_COLUMNS + 1));
    const double contrast = 0.5 + weft_random_uniform(d->seed, stream, 1);
    (void)err;
    if (label)
        *label = digit;
    for (int k = 0; image && k < ROWS * COLUMNS; k++) {
        const bool ink = has_ink(digit, k / COLUMNS - down, k % COLUMNS - right);
        const double u = weft_random_uniform(d->seed, stream, 2 + (uint64_t)k);
        image[k] = (float)(contrast * ink + d->noise * weft_normal_inverse(u));
    }
    return WEFT_OK;
}

static void describe(void *self, weft_text *text)
{
    weft_text_print(text, "pictures of digits, noise %g", ((const digits *)self)->noise);
}

/* A checkpoint goes on with the same data, or says that they have changed. */
static uint64_t fingerprint(void *self)
{
    const digits *d = self;
    return weft_hash_bytes(weft_hash_name("digits"), &d->noise, sizeof d->noise);
}

static const weft_data data = {.size = sizeof(weft_data),
                               .fields = fields,
                               .fit = fit,
                               .begin = begin,
                               .samples = samples,
                               .sample = sample,
                               .describe = describe,
                               .fingerprint = fingerprint};

static const weft_param params[] = {
    {.name = "noise",
     WEFT_REAL(digits, noise),
     .value = "0.25",
     .min = 0,
     .max = 100,
     .help = "Spread of what is added to each point; ink is 0.5 to 1.5."},
    {.name = "validation",
     WEFT_INT(digits, validation),
     .value = "500",
     .min = 0,
     .max = 1000000,
     .unit = "samples",
     .help = "How many pictures there are to validate with."},
    {.name = NULL},
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "data", .table = &data},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(digits) = {
    WEFT_PLUGIN_HEAD,
    .name = "digits",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "data: pictures of digits, made as they are read",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(digits),
};
