/* SPDX-License-Identifier: Apache-2.0 */
/* How FLUX lies in the folder "transformer" of diffusers: tensors are called as the run's, but
 * that the last matrix of a single block is one there. The rows of norm_out are (scale, shift) in
 * both. */
#include "flux.h"

#include <stdio.h>
#include <string.h>

#define LINEAR(name_, out_, in_)                                                                   \
    {name_ ".weight", .shape = out_ " " in_},                                                      \
    {                                                                                              \
        name_ ".bias", .shape = out_                                                               \
    }
#define TOLD(name_, in_)                                                                           \
    LINEAR("time_text_embed." name_ ".linear_1", "dim", in_),                                      \
        LINEAR("time_text_embed." name_ ".linear_2", "dim", "dim")

#define DOUBLE_LINEAR(name_, out_, in_)                                                            \
    {"transformer_blocks.{l}." name_ ".weight", .shape = out_ " " in_, .blocks = "n_double"},      \
    {                                                                                              \
        "transformer_blocks.{l}." name_ ".bias", .shape = out_, .blocks = "n_double"               \
    }
#define DOUBLE_NORM(name_)                                                                         \
    {                                                                                              \
        "transformer_blocks.{l}.attn." name_ ".weight", .shape = "dim/n_heads",                    \
                                                        .blocks = "n_double"                       \
    }
#define SINGLE "single_transformer_blocks.{l}."
#define SINGLE_LINEAR(name_, out_, in_)                                                            \
    {SINGLE name_ ".weight", .shape = out_ " " in_, .blocks = "n_single"},                         \
    {                                                                                              \
        SINGLE name_ ".bias", .shape = out_, .blocks = "n_single"                                  \
    }
#define SINGLE_NORM(name_)                                                                         \
    {                                                                                              \
        SINGLE "attn." name_ ".weight", .shape = "dim/n_heads", .blocks = "n_single"               \
    }
#define SINGLE_OUT(name_, in_, part_)                                                              \
    {                                                                                              \
        SINGLE "proj_out." name_ ".weight", .shape = "dim " in_, .file = SINGLE "proj_out.weight", \
                                            .part = part_, .parts = 2, .along = 1,                 \
                                            .blocks = "n_single"                                   \
    }

static const weft_hf_tensor tensors[] = {
    TOLD("timestep_embedder", "256"),
    {"time_text_embed.guidance_embedder.linear_1.weight", .shape = "dim 256", .when = "guidance"},
    {"time_text_embed.guidance_embedder.linear_1.bias", .shape = "dim", .when = "guidance"},
    {"time_text_embed.guidance_embedder.linear_2.weight", .shape = "dim dim", .when = "guidance"},
    {"time_text_embed.guidance_embedder.linear_2.bias", .shape = "dim", .when = "guidance"},
    TOLD("text_embedder", "clip_dim"),
    LINEAR("context_embedder", "dim", "t5_dim"),
    LINEAR("x_embedder", "dim", "4*channels"),
    DOUBLE_LINEAR("norm1.linear", "6*dim", "dim"),
    DOUBLE_LINEAR("norm1_context.linear", "6*dim", "dim"),
    DOUBLE_NORM("norm_q"),
    DOUBLE_NORM("norm_k"),
    DOUBLE_LINEAR("attn.to_q", "dim", "dim"),
    DOUBLE_LINEAR("attn.to_k", "dim", "dim"),
    DOUBLE_LINEAR("attn.to_v", "dim", "dim"),
    DOUBLE_LINEAR("attn.to_out.0", "dim", "dim"),
    DOUBLE_NORM("norm_added_q"),
    DOUBLE_NORM("norm_added_k"),
    DOUBLE_LINEAR("attn.add_q_proj", "dim", "dim"),
    DOUBLE_LINEAR("attn.add_k_proj", "dim", "dim"),
    DOUBLE_LINEAR("attn.add_v_proj", "dim", "dim"),
    DOUBLE_LINEAR("attn.to_add_out", "dim", "dim"),
    DOUBLE_LINEAR("ff.net.0.proj", "4*dim", "dim"),
    DOUBLE_LINEAR("ff.net.2", "dim", "4*dim"),
    DOUBLE_LINEAR("ff_context.net.0.proj", "4*dim", "dim"),
    DOUBLE_LINEAR("ff_context.net.2", "dim", "4*dim"),
    SINGLE_LINEAR("norm.linear", "3*dim", "dim"),
    SINGLE_LINEAR("proj_mlp", "4*dim", "dim"),
    SINGLE_OUT("attn", "dim", 0),
    SINGLE_OUT("mlp", "4*dim", 1),
    {SINGLE "proj_out.bias", .shape = "dim", .blocks = "n_single"},
    SINGLE_NORM("norm_q"),
    SINGLE_NORM("norm_k"),
    SINGLE_LINEAR("attn.to_q", "dim", "dim"),
    SINGLE_LINEAR("attn.to_k", "dim", "dim"),
    SINGLE_LINEAR("attn.to_v", "dim", "dim"),
    LINEAR("norm_out.linear", "2*dim", "dim"),
    LINEAR("proj_out", "4*channels", "dim"),
    {0}};

static const weft_hf_key keys[] = {
    {"patch_size", .standard = "1", .is = "1"},
    {"in_channels", "channels", .standard = "64", .by = "0.25", .multiple = 4,
     .why = "a place of the sequence has 2 x 2 points of latents, so it is a multiple of 4"},
    {"out_channels", .same = "in_channels", .unwritten = true},
    {"num_layers", "n_double", .standard = "19"},
    {"num_single_layers", "n_single", .standard = "38"},
    {"num_attention_heads", "n_heads", .standard = "24"},
    {"attention_head_dim", "dim", .standard = "128", .by = "num_attention_heads"},
    {"joint_attention_dim", "t5_dim", .standard = "4096"},
    {"pooled_projection_dim", "clip_dim", .standard = "768"},
    {"guidance_embeds", "guidance", .standard = "false"},
    {"axes_dims_rope", .key = "axes", .multiple = 2,
     .why = "dims are turned by twos, so each is even"},
    {0}};

static void derive(const char *key, int64_t (*get)(const void *model, const char *key),
                   const void *model, char text[64])
{
    int64_t axis[3];
    const int64_t heads = get(model, "n_heads");
    if (strcmp(key, "axes") != 0 || heads < 1)
        return;
    flux_derive_axes(get(model, "dim") / heads, axis);
    snprintf(text, 64, "%lld %lld %lld", (long long)axis[0], (long long)axis[1],
             (long long)axis[2]);
}

static const weft_hf_form form = {.type = "FluxTransformer2DModel",
                                  .architecture = "FluxTransformer2DModel",
                                  .layers = "n_double",
                                  .with = "diffusion",
                                  .tensors = tensors,
                                  .keys = keys,
                                  .diffusers = true,
                                  .data = "latents",
                                  .derive = derive};
static const weft_hf_form *const forms[] = {&form, NULL};
const weft_hf_model flux_hf = {sizeof flux_hf, "flux", flux_params, forms};
