/* SPDX-License-Identifier: Apache-2.0 */
/* Where each parameter of a model lies in Hugging Face's files. Llama's are the same, element for
 * element; GPT-2's matrices are transposed, and its q, k, v lie in one. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

static hf_tensor *add(hf_map *map)
{
    if (map->n == map->capacity) {
        int capacity = map->capacity ? 2 * map->capacity : 256;
        hf_tensor *more = weft_realloc(map->list, (size_t)capacity * sizeof *more);
        if (!more)
            return NULL;
        map->list = more;
        map->capacity = capacity;
    }
    hf_tensor *t = &map->list[map->n++];
    memset(t, 0, sizeof *t);
    t->parts = 1;
    return t;
}

/* A parameter with one name for both. columns 0: a vector. layer < 0: of no block, so without a
 * number in its name. */
static hf_tensor *add_same(hf_map *map, const char *before, int64_t layer, const char *name,
                           int64_t rows, int64_t columns)
{
    hf_tensor *t = add(map);
    if (!t)
        return NULL;
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s%s", before, name);
    else
        snprintf(t->name, sizeof t->name, "%s%lld.%s", before, (long long)layer, name);
    memcpy(t->hf, t->name, sizeof t->hf);
    t->n_dims = columns ? 2 : 1;
    t->size[0] = rows;
    t->size[1] = columns;
    return t;
}

/* ---- Llama ---- */

static bool add_llama(hf_map *map, const hf_model *m)
{
    static const char before[] = "model.layers.";
    int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim, d = m->dim;
    bool ok = add_same(map, "", -1, "model.embed_tokens.weight", m->vocab, d);
    for (int64_t l = 0; l < m->layers && ok; l++)
        ok = add_same(map, before, l, "input_layernorm.weight", d, 0) &&
             add_same(map, before, l, "self_attn.q_proj.weight", q, d) &&
             add_same(map, before, l, "self_attn.k_proj.weight", kv, d) &&
             add_same(map, before, l, "self_attn.v_proj.weight", kv, d) &&
             add_same(map, before, l, "self_attn.o_proj.weight", d, q) &&
             add_same(map, before, l, "post_attention_layernorm.weight", d, 0) &&
             add_same(map, before, l, "mlp.gate_proj.weight", m->ffn, d) &&
             add_same(map, before, l, "mlp.up_proj.weight", m->ffn, d) &&
             add_same(map, before, l, "mlp.down_proj.weight", d, m->ffn);
    ok = ok && add_same(map, "", -1, "model.norm.weight", d, 0);
    return ok && (m->tied || add_same(map, "", -1, "lm_head.weight", m->vocab, d));
}

/* ---- GPT-2 ---- */

static const char gpt2_before[] = "transformer.h.";

/* A Conv1D and its bias. */
static bool add_conv(hf_map *map, int64_t layer, const char *name, int64_t out, int64_t in)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    hf_tensor *t = add_same(map, gpt2_before, layer, full, out, in);
    if (t)
        t->transposed = true;
    snprintf(full, sizeof full, "%s.bias", name);
    return t && add_same(map, gpt2_before, layer, full, out, 0);
}

static bool add_norm(hf_map *map, const char *before, int64_t layer, const char *name, int64_t d)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    bool ok = add_same(map, before, layer, full, d, 0);
    snprintf(full, sizeof full, "%s.bias", name);
    return ok && add_same(map, before, layer, full, d, 0);
}

static bool add_attention(hf_map *map, int64_t layer, int64_t d)
{
    static const char *const kinds[] = {"weight", "bias"};
    for (int k = 0; k < 2; k++) {
        for (int p = 0; p < 3; p++) {
            char name[64];
            snprintf(name, sizeof name, "attn.%c_proj.%s", "qkv"[p], kinds[k]);
            hf_tensor *t = add_same(map, gpt2_before, layer, name, d, k == 0 ? d : 0);
            if (!t)
                return false;
            snprintf(t->hf, sizeof t->hf, "%s%lld.attn.c_attn.%s", gpt2_before, (long long)layer,
                     kinds[k]);
            t->transposed = k == 0;
            t->part = p;
            t->parts = 3;
        }
    }
    return add_conv(map, layer, "attn.c_proj", d, d);
}

static bool add_gpt2(hf_map *map, const hf_model *m)
{
    int64_t d = m->dim;
    bool ok = add_same(map, "", -1, "transformer.wte.weight", m->vocab, d) &&
              add_same(map, "", -1, "transformer.wpe.weight", m->context, d);
    for (int64_t l = 0; l < m->layers && ok; l++)
        ok = add_norm(map, gpt2_before, l, "ln_1", d) && add_attention(map, l, d) &&
             add_norm(map, gpt2_before, l, "ln_2", d) && add_conv(map, l, "mlp.c_fc", m->ffn, d) &&
             add_conv(map, l, "mlp.c_proj", d, m->ffn);
    ok = ok && add_norm(map, "transformer.", -1, "ln_f", d);
    return ok && (m->tied || add_same(map, "", -1, "lm_head.weight", m->vocab, d));
}

/* ---- the map ---- */

weft_status hf_map_create(const hf_model *m, hf_map *map, weft_error *err)
{
    *map = (hf_map){0};
    bool ok = m->family == HF_GPT2 ? add_gpt2(map, m) : add_llama(map, m);
    return ok ? WEFT_OK : weft_fail_memory(err);
}

void hf_map_release(hf_map *map)
{
    weft_free(map->list);
    *map = (hf_map){0};
}

const hf_tensor *hf_map_find(const hf_map *map, const char *name)
{
    for (int i = 0; i < map->n; i++)
        if (strcmp(map->list[i].name, name) == 0)
            return &map->list[i];
    return NULL;
}

void hf_shape(const hf_tensor *t, int64_t size[2])
{
    int64_t out = t->size[0] * t->parts;
    size[0] = t->transposed ? t->size[1] : out;
    size[1] = t->transposed ? out : t->size[1];
}

const char *hf_family_plugin(hf_family family)
{
    static const char *const names[HF_FAMILIES] = {"llama3", "gpt2"};
    return names[family];
}
