/* SPDX-License-Identifier: Apache-2.0 */
/* FLUX (Black Forest Labs, 2024): a transformer that takes noise away from latents of pictures. In
 * double blocks text and image have weights of their own and attend to each other (Esser et al.,
 * "Scaling rectified flow transformers", 2024); in single blocks they are one sequence. Parameters
 * are called as diffusers calls them, but where one of its matrices is two here. Knows nothing of
 * meshes. */
#include "flux.h"

#include <stdlib.h>
#include <string.h>

static const char *const flavor_names[] = {"debug", "schnell", "dev", NULL};
static const char *const flavors[] = {
    "dim = 128, n_heads = 4, n_double = 2, n_single = 2, t5_dim = 64, clip_dim = 32, text = 32, "
    "image = 128",
    "dim = 3072, n_heads = 24, n_double = 19, n_single = 38, t5_dim = 4096, clip_dim = 768, "
    "text = 256, image = 1024",
    "dim = 3072, n_heads = 24, n_double = 19, n_single = 38, t5_dim = 4096, clip_dim = 768, "
    "text = 512, image = 1024",
};
static const char *const of_flavor[] = {"flavor", NULL};
static const char *const same[] = {"image", NULL};
static const char *const laws[] = {"uniform", "logit_normal", "data", NULL};
static const char *const draws[] = {"drawn", "data", NULL};

#define SIZE(key_, field_, most_, unit_, help_)                                                    \
    {                                                                                              \
        .name = key_, WEFT_INT(flux, field_), .value = "flavor", .min = 1, .max = most_,           \
        .choices = of_flavor, .unit = unit_, .help = help_                                         \
    }

const weft_param flux_params[] = {
    {.name = "flavor",
     .type = WEFT_PARAM_CHOICE,
     .value = "debug",
     .choices = flavor_names,
     .presets = flavors,
     .help = "the sizes that the other keys default to"},
    SIZE("dim", dim, 1 << 20, NULL, "width of both streams"),
    SIZE("n_heads", heads, 1 << 16, NULL, "heads; a head is dim / n_heads wide"),
    SIZE("n_double", doubles, 1 << 14, NULL, "blocks with weights for text and for image"),
    {.name = "n_single",
     WEFT_INT(flux, singles),
     .value = "flavor",
     .min = 1,
     .max = 1 << 14,
     .choices = of_flavor,
     .flags = WEFT_PARAM_DEPTH,
     .help = "blocks behind these, of both in one sequence"},
    SIZE("t5_dim", t5, 1 << 20, NULL, "width of the embeddings of a text's tokens"),
    SIZE("clip_dim", clip, 1 << 20, NULL, "width of the one embedding of the whole text"),
    SIZE("text", text, 1 << 20, "tokens", "tokens of a text"),
    SIZE("image", image, 1 << 16, "points", "height of a picture; a multiple of 16"),
    {.name = "image_width",
     WEFT_INT(flux, image_width),
     .value = "image",
     .min = 1,
     .max = 1 << 16,
     .choices = same,
     .unit = "points",
     .help = "width of a picture; image: as its height"},
    {.name = "channels",
     WEFT_INT(flux, channels),
     .value = "16",
     .min = 1,
     .max = 4096,
     .help = "channels of latents, each an eighth of the picture high and wide"},
    {.name = "timestep",
     WEFT_CHOICE(flux, law),
     .value = "uniform",
     .choices = laws,
     .help = "how much noise a sample gets: uniform in (0, 1); logit_normal: more often a medium "
             "amount; data: what the field `time` says"},
    {.name = "timestep_mean",
     WEFT_REAL(flux, mean),
     .value = "0",
     .min = -100,
     .max = 100,
     .flags = WEFT_PARAM_ADVANCED,
     .when = "timestep=logit_normal",
     .help = "of logit_normal's normal numbers"},
    {.name = "timestep_std",
     WEFT_REAL(flux, std),
     .value = "1",
     .min = 1e-6,
     .max = 100,
     .flags = WEFT_PARAM_ADVANCED,
     .when = "timestep=logit_normal",
     .help = "their spread"},
    {.name = "noise",
     WEFT_CHOICE(flux, noise),
     .value = "drawn",
     .choices = draws,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "drawn by the sample's number, or data: what the field `noise` says"},
    {.name = "levels",
     WEFT_INT(flux, levels),
     .value = "8",
     .min = 1,
     .max = 1000000,
     .when = "timestep!=data",
     .help = "validation is at the middles of so many equal parts of time, in turn"},
    {.name = "guidance",
     WEFT_BOOL(flux, guidance),
     .value = "no",
     .help = "the model is told how strongly images follow their texts (the published dev is)"},
    {.name = "guidance_scale",
     WEFT_REAL(flux, guidance_scale),
     .value = "1",
     .min = 0,
     .max = 1000,
     .when = "guidance=yes",
     .help = "what it is told in training"},
    {.name = "axes",
     .type = WEFT_PARAM_STRING,
     .value = "",
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_ADVANCED,
     .help = "how many dims of a head are turned by a place in the text, by its row and by its "
             "column; empty: in proportion to 16, 56 and 56 of 128"},
    {.name = "rope_theta",
     WEFT_REAL(flux, theta),
     .value = "10000",
     .min = 1,
     .max = 1e12,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "base of the rotary frequencies"},
    {.name = NULL},
};

void flux_derive_axes(int64_t head, int64_t axis[3])
{
    axis[1] = axis[2] = 7 * head / 16 / 2 * 2;
    axis[0] = head - 2 * axis[1];
}

static weft_status set_axes(flux *m, weft_error *err)
{
    const weft_params *p = m->host->params;
    const int64_t head = m->dim / m->heads;
    const char *word;
    int64_t own[3], sum = 0;
    int n = 0;
    bool fits = true;
    flux_derive_axes(head, m->axis);
    for (; (word = weft_params_word(p, "axes", n)); n++) {
        char *end = NULL;
        const long long x = strtoll(word, &end, 10);
        fits = fits && n < 3 && !*end && x >= 0 && x <= head && x % 2 == 0;
        sum += fits ? x : 0;
        if (fits)
            own[n] = x;
    }
    if (n && (!fits || n != 3 || sum != head))
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "axes"),
                         "[flux] axes must be three even numbers with the sum %lld, a head's "
                         "width, such as %lld %lld %lld",
                         (long long)head, (long long)m->axis[0], (long long)m->axis[1],
                         (long long)m->axis[2]);
    if (n)
        memcpy(m->axis, own, sizeof own);
    return WEFT_OK;
}

static weft_status create(void *self, weft_error *err)
{
    flux *m = self;
    const weft_params *p = m->host->params;
    weft_status s = WEFT_OK;
    if (m->image_width < 0)
        m->image_width = m->image;
    if (m->dim % m->heads || m->dim / m->heads % 2)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_heads"),
                      "[flux] dim %lld over n_heads %lld is no even whole number, which rotary "
                      "positions need",
                      (long long)m->dim, (long long)m->heads);
    for (int i = 0; i < 2; i++) {
        const char *key = i ? "image_width" : "image";
        const int64_t size = i ? m->image_width : m->image;
        if (size % 16 == 0 || (i && m->image_width == m->image))
            continue;
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, key),
                      "[flux] %s is %lld points, and a place of the sequence is 16 of them; choose "
                      "%lld or %lld",
                      key, (long long)size, (long long)(size < 16 ? 16 : size / 16 * 16),
                      (long long)(size / 16 * 16 + 16));
    }
    s = s ? s : set_axes(m, err);
    if (s)
        return s;
    m->rows = m->image / 16;
    m->columns = m->image_width / 16;
    m->places = m->rows * m->columns;
    m->seed = weft_params_int(m->host->train, "seed");
    return WEFT_OK;
}

static const char *const needs[] = {"diffusion", NULL}, *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .graph = flux_build,
     .needs = needs,
     .gives = gives},
    {.kind = WEFT_SERVICE, .service = "hf_model", .table = &flux_hf},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(flux) = {
    WEFT_PLUGIN_HEAD,
    .name = "flux",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "FLUX: images by rectified flow, double and single blocks",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = flux_params,
    .self_size = WEFT_SELF(flux),
    .contributions = contributions,
    .create = create,
};
