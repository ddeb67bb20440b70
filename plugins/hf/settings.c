/* SPDX-License-Identifier: Apache-2.0 */
/* A model as weft's settings, both ways. */
#include "hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *hf_number(char buffer[32], double x)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buffer, 32, "%.*g", digits, x);
        if (strtod(buffer, NULL) == x)
            break;
    }
    return buffer;
}

/* ---- the model's section ---- */

/* Every key of the plugin's, so that a checkpoint can tell the same model from another; `plain`
 * ones are their defaults, and an INI leaves them out.
 */
typedef struct each_key {
    void (*put)(void *ctx, const char *key, const char *value, bool plain);
    void *ctx;
} each_key;

static void put_int(const each_key *e, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    e->put(e->ctx, key, text, false);
}

static void put_real(const each_key *e, const char *key, double value, bool plain)
{
    char text[32];
    e->put(e->ctx, key, hf_number(text, value), plain);
}

static void put_all(const hf_model *m, const each_key *e)
{
    bool llama = m->family == HF_LLAMA;
    e->put(e->ctx, "flavor", "debug", true);
    put_int(e, "dim", m->dim);
    put_int(e, "n_layers", m->layers);
    put_int(e, "n_heads", m->heads);
    if (llama) {
        put_int(e, "n_kv_heads", m->kv_heads);
        put_int(e, "head_dim", m->head_dim);
    }
    put_int(e, "ffn_dim", m->ffn);
    put_int(e, "vocab_size", m->vocab);
    if (!llama)
        put_int(e, "n_positions", m->context);
    put_real(e, "norm_eps", m->eps, false);
    if (llama) {
        put_real(e, "rope_theta", m->theta, false);
        e->put(e->ctx, "rope_scaling", m->scaling ? "yes" : "no", !m->scaling);
        put_real(e, "rope_factor", m->factor, !m->scaling);
        put_real(e, "rope_low", m->low, !m->scaling);
        put_real(e, "rope_high", m->high, !m->scaling);
        put_real(e, "rope_original", m->original, !m->scaling);
    }
    e->put(e->ctx, "tied", m->tied ? "yes" : "no", false);
}

static void put_line(void *ctx, const char *key, const char *value, bool plain)
{
    if (!plain)
        weft_text_print(ctx, "%s = %s\n", key, value);
}

void hf_settings_section(const hf_model *m, weft_text *ini)
{
    const each_key e = {put_line, ini};
    weft_text_print(ini, "[%s]\n", hf_family_plugin(m->family));
    put_all(m, &e);
}

static void put_member(void *ctx, const char *key, const char *value, bool plain)
{
    (void)plain;
    json_object_set_new(ctx, key, json_string(value)); /* the caller counts */
}

static int64_t seq_len_of(const hf_model *m)
{
    return m->context < 2048 ? m->context : 2048;
}

json_t *hf_settings_json(const hf_model *m)
{
    char seq_len[32];
    json_t *keys = json_object();
    const each_key e = {put_member, keys};
    if (keys)
        put_all(m, &e);
    size_t wanted = m->family == HF_LLAMA ? 16 : 9;
    snprintf(seq_len, sizeof seq_len, "%lld", (long long)seq_len_of(m));
    if (json_object_size(keys) == wanted) /* an INI without steps is none */
        return json_pack("{s:o, s:{s:s, s:s}}", hf_family_plugin(m->family), keys, "train", "steps",
                         "1", "seq_len", seq_len);
    json_decref(keys);
    return NULL;
}

/* ---- INIs ---- */

/* A path as an INI's value; none that an INI cannot hold. */
static weft_status add_path(weft_text *ini, const char *key, const char *path, const char *file,
                            weft_error *err)
{
    if (strpbrk(path, "\n\r\t") || *path == ';' || strstr(path, " ;") || strstr(path, " #"))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s: this name cannot stand in an INI; rename the folder", path);
    weft_text_print(ini, "%s = %s%s%s\n", key, path, file ? "/" : "", file ? file : "");
    return WEFT_OK;
}

static void add_notes(const hf_model *m, weft_text *ini)
{
    for (const char *line = weft_text_get(&m->notes); *line;) {
        int n = (int)strcspn(line, "\n");
        weft_text_print(ini, "; %.*s\n", n, line);
        line += n + (line[n] == '\n');
    }
}

static weft_status finish(weft_text *ini, weft_status s, hf_model *m, weft_error *err)
{
    bool full = ini->out_of_memory || m->notes.out_of_memory;
    hf_model_release(m);
    return s ? s : full ? weft_fail_memory(err) : WEFT_OK;
}

weft_status hf_settings_minimal(const char *folder, weft_text *ini, weft_error *err)
{
    hf_model m;
    weft_status s = hf_config_read(folder, &m, err);
    if (s)
        return finish(ini, s, &m, err);
    bool tokenizer = hf_has_file(folder, "tokenizer.json");
    add_notes(&m, ini);
    weft_text_print(ini, "[weft]\nplugins =\n    %s\n%s    hf\n\n[train]\n",
                    hf_family_plugin(m.family), tokenizer ? "    text\n" : "");
    weft_text_print(ini, "seq_len = %lld\n\n", (long long)seq_len_of(&m));
    hf_settings_section(&m, ini);
    weft_text_add(ini, "\n[hf]\n");
    s = add_path(ini, "load", folder, NULL, err);
    if (!s && tokenizer) {
        weft_text_add(ini, "\n[text]\n");
        s = add_path(ini, "tokenizer", folder, "tokenizer.json", err);
        s = s ? s : hf_tokens_settings(folder, &m, ini, err);
    }
    return finish(ini, s, &m, err);
}

weft_status hf_settings_train(const char *folder, weft_text *ini, weft_error *err)
{
    hf_model m;
    weft_status s = hf_config_read(folder, &m, err);
    if (s)
        return finish(ini, s, &m, err);
    bool tokenizer = hf_has_file(folder, "tokenizer.json");
    add_notes(&m, ini);
    weft_text_print(ini,
                    "[weft]\nplugins =\n    %s\n    text                ; the data\n    hf         "
                    "         ; where the parameters begin\n"
                    "    cpu\n    bf16                ; activations and weight copies in bf16\n    "
                    "adamw\n    metrics\n    ckpt                ; saves "
                    "and resumes\ndir = runs/finetune\n\n[train]\nsteps = 1000\n",
                    hf_family_plugin(m.family));
    weft_text_print(ini, "seq_len = %lld\n", (long long)seq_len_of(&m));
    weft_text_print(ini, "global_batch = 8        ; samples a step: %lld tokens\n\n",
                    (long long)(8 * seq_len_of(&m)));
    hf_settings_section(&m, ini);
    weft_text_add(ini, "\n[hf]\n");
    s = add_path(ini, "load", folder, NULL, err);
    weft_text_add(ini, "\n[text]\npath = train.txt        ; your text\n");
    if (tokenizer) {
        s = s ? s : add_path(ini, "tokenizer", folder, "tokenizer.json", err);
        s = s ? s : hf_tokens_settings(folder, &m, ini, err);
    } else
        weft_text_add(ini, "; the folder has no tokenizer.json: name the model's tokenizer here, "
                           "or the ids will mean something else\n;tokenizer =\n");
    weft_text_add(
        ini, "\n[adamw]\nlr = 2e-5\nwarmup_steps = 50\nlr_decay = cosine\nmin_lr_factor = 0.1\n");
    return finish(ini, s, &m, err);
}

/* ---- the format service ---- */

static bool is_model(const char *folder)
{
    return hf_is_folder(folder);
}

const weft_model_format hf_format = {
    .size = sizeof(weft_model_format), .is = is_model, .settings = hf_settings_minimal};

/* ---- from a checkpoint's settings ---- */

typedef struct section {
    const json_t *settings;
    const char *name, *where;
    const weft_folder *tensors;
    weft_error *err;
    weft_status status;
} section;

static const char *value_of(const section *s, const char *key)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(s->settings, s->name), key));
    return text ? text : "";
}

static double real_of(const section *s, const char *key, double standard)
{
    const char *text = value_of(s, key);
    char *end = NULL;
    double x = strtod(text, &end);
    return end != text ? x : standard;
}

static bool switch_of(const section *s, const char *key, bool standard)
{
    const char *text = value_of(s, key);
    if (!*text)
        return standard;
    return strcmp(text, "yes") == 0 || strcmp(text, "true") == 0 || strcmp(text, "on") == 0 ||
           strcmp(text, "1") == 0;
}

/* How many heads no shape tells; where the settings say "flavor", the flavor does. */
static int64_t heads_of(section *s)
{
    static const struct {
        const char *plugin, *flavor;
        int64_t heads;
    } flavors[] = {{"llama3", "debug", 16}, {"llama3", "8B", 32}, {"llama3", "70B", 64},
                   {"llama3", "405B", 128}, {"gpt2", "debug", 4}, {"gpt2", "124M", 12},
                   {"gpt2", "355M", 16},    {"gpt2", "774M", 20}, {"gpt2", "1558M", 25}};
    int64_t heads = (int64_t)real_of(s, "n_heads", 0);
    for (size_t i = 0; i < sizeof flavors / sizeof flavors[0] && heads < 1; i++)
        if (strcmp(flavors[i].plugin, s->name) == 0 &&
            strcmp(flavors[i].flavor, value_of(s, "flavor")) == 0)
            heads = flavors[i].heads;
    if (heads < 1)
        s->status = weft_fail(s->err, WEFT_ERR_INPUT, ((weft_where){s->where, 0}),
                              "its settings do not say [%s] n_heads", s->name);
    return heads < 1 ? 1 : heads;
}

static int64_t extent(section *s, const char *name, int dim)
{
    const weft_stored *t = weft_folder_find(s->tensors, name);
    if (t && dim < t->n_dims)
        return t->size[dim];
    if (dim == 0 || !t)
        s->status = weft_fail(s->err, WEFT_ERR_INPUT, ((weft_where){s->where, 0}),
                              "holds no tensor '%s'", name);
    return 1;
}

static int64_t count_layers(const section *s, const char *format_before, const char *after)
{
    for (int64_t l = 0;; l++) {
        char name[96];
        snprintf(name, sizeof name, "%s%lld.%s", format_before, (long long)l, after);
        if (!weft_folder_find(s->tensors, name))
            return l;
    }
}

static void read_llama(section *s, hf_model *m)
{
    m->vocab = extent(s, "model.embed_tokens.weight", 0);
    m->dim = extent(s, "model.embed_tokens.weight", 1);
    m->layers = count_layers(s, "model.layers.", "self_attn.q_proj.weight");
    m->heads = heads_of(s);
    m->head_dim = extent(s, "model.layers.0.self_attn.q_proj.weight", 0) / m->heads;
    m->head_dim = m->head_dim > 0 ? m->head_dim : 1;
    m->kv_heads = extent(s, "model.layers.0.self_attn.k_proj.weight", 0) / m->head_dim;
    m->ffn = extent(s, "model.layers.0.mlp.gate_proj.weight", 0);
    m->theta = real_of(s, "rope_theta", 500000);
    m->tied = switch_of(s, "tied", false);
    m->scaling = switch_of(s, "rope_scaling", false);
    m->factor = real_of(s, "rope_factor", 8);
    m->low = real_of(s, "rope_low", 1);
    m->high = real_of(s, "rope_high", 4);
    m->original = real_of(s, "rope_original", 8192);
}

static void read_gpt2(section *s, hf_model *m)
{
    m->vocab = extent(s, "transformer.wte.weight", 0);
    m->dim = extent(s, "transformer.wte.weight", 1);
    m->context = extent(s, "transformer.wpe.weight", 0);
    m->layers = count_layers(s, "transformer.h.", "ln_1.weight");
    m->heads = m->kv_heads = heads_of(s);
    m->head_dim = m->dim / m->heads;
    m->ffn = extent(s, "transformer.h.0.mlp.c_fc.weight", 0);
    m->tied = switch_of(s, "tied", true);
}

weft_status hf_settings_read(const json_t *settings, const weft_folder *tensors, const char *where,
                             hf_model *m, weft_error *err)
{
    section s = {.settings = settings, .where = where, .tensors = tensors, .err = err};
    *m = (hf_model){
        .bos = -1, .eos = -1, .factor = 8, .low = 1, .high = 4, .original = 8192, .theta = 10000};
    int f = 0;
    while (f < HF_FAMILIES && !json_object_get(settings, hf_family_plugin((hf_family)f)))
        f++;
    if (f == HF_FAMILIES)
        return weft_fail(err, WEFT_ERR_INPUT, ((weft_where){where, 0}),
                         "its settings have neither [llama3] nor [gpt2]; models of other plugins "
                         "have no form in Hugging Face's files");
    m->family = (hf_family)f;
    s.name = "train";
    m->context = (int64_t)real_of(&s, "seq_len", 2048);
    s.name = hf_family_plugin(m->family);
    m->eps = real_of(&s, "norm_eps", 1e-5);
    if (m->family == HF_GPT2)
        read_gpt2(&s, m);
    else
        read_llama(&s, m);
    return s.status;
}
