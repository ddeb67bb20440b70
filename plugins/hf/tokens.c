/* SPDX-License-Identifier: Apache-2.0 */
/* Which tokens begin and end a text: in a folder's tokenizer files, in the settings of a run, and
 * from one to the other. */
#include "hf.h"

#include <string.h>
#include <sys/stat.h>

static const char *const keys[2] = {"bos", "eos"};
static const char *const token_keys[2] = {"bos_token", "eos_token"};

/* A JSON file of the folder; NULL if there is none, or it is damaged, which whoever needs it
 * says. */
static json_t *read_json(const char *folder, const char *name)
{
    char path[HF_PATH];
    struct stat st;
    if (stat(hf_path(path, folder, name), &st) != 0 || !S_ISREG(st.st_mode))
        return NULL; /* a named pipe would be waited for */
    json_t *root = json_load_file(path, 0, NULL);
    /* a model_max_length of 1e30 is usual, as an integer */
    return root ? root : json_load_file(path, JSON_DECODE_INT_AS_REAL, NULL);
}

/* ---- a tokenizer.json ---- */

static int64_t id_of(const json_t *tokenizer, const char *text)
{
    size_t i;
    const json_t *token;
    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, token) {
        const char *content = json_string_value(json_object_get(token, "content"));
        if (content && text && strcmp(content, text) == 0)
            return json_integer_value(json_object_get(token, "id"));
    }
    const json_t *id = json_object_get(
        json_object_get(json_object_get(tokenizer, "model"), "vocab"), text ? text : "");
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

/* Of added tokens alone: what begins or ends texts is one. */
static const char *text_of(const json_t *tokenizer, int64_t id)
{
    size_t i;
    const json_t *token;
    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, token)
        if (json_integer_value(json_object_get(token, "id")) == id)
            return json_string_value(json_object_get(token, "content"));
    return NULL;
}

/* The token that a template puts in front of a text; NULL: none. */
static const char *first_of(const json_t *processor)
{
    const char *type = json_string_value(json_object_get(processor, "type")), *first = NULL;
    size_t i;
    const json_t *inner;
    if (type && strcmp(type, "TemplateProcessing") == 0)
        first = json_string_value(
            json_object_get(json_object_get(json_array_get(json_object_get(processor, "single"), 0),
                                            "SpecialToken"),
                            "id"));
    json_array_foreach(json_object_get(processor, "processors"), i, inner)
        if (!first)
            first = first_of(inner);
    return first;
}

/* A token in tokenizer_config.json: a text, or an object with its content. */
static const char *token_in(const json_t *config, const char *key)
{
    const json_t *token = json_object_get(config, key);
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* What Transformers puts in front of a prompt; NULL: nothing. Its add_bos_token does not count
 * where there is a tokenizer.json. */
static const char *prefix_of(const json_t *tokenizer)
{
    return first_of(json_object_get(tokenizer, "post_processor"));
}

/* ---- a folder's, as [text] ---- */

static bool fits_ini(const char *text)
{
    return *text && !strpbrk(text, " \t\r\n;#");
}

static void add_token(weft_text *ini, const char *key, const char *text, const char *standard)
{
    if (!text)
        weft_text_print(ini, "%s = no\n", key);
    else if (fits_ini(text) && (!standard || strcmp(text, standard) != 0))
        weft_text_print(ini, "%s = %s\n", key, text);
}

void hf_tokens_settings(const char *folder, const hf_model *m, weft_text *ini)
{
    json_t *tokenizer = read_json(folder, "tokenizer.json"),
           *config = read_json(folder, "tokenizer_config.json");
    const char *eos = token_in(config, "eos_token");
    add_token(ini, "bos", prefix_of(tokenizer), token_in(config, "bos_token"));
    if (!eos && m->eos >= 0)
        eos = text_of(tokenizer, m->eos);
    add_token(ini, "eos", eos, token_in(config, "eos_token"));
    json_decref(tokenizer);
    json_decref(config);
}

/* ---- a run's ---- */

typedef struct tokens {
    const json_t *text; /* the settings [text] */
    const char *file;   /* the checkpoint's copy of the tokenizer */
    json_t *tokenizer, *config;
    const char *token[2]; /* bos, eos; NULL: none */
} tokens;

static const char *token_of(const tokens *t, int i)
{
    const char *value = json_string_value(json_object_get(t->text, keys[i]));
    if (!value || hf_says_no(value))
        return NULL;
    return hf_says_yes(value) ? token_in(t->config, token_keys[i]) : value;
}

/* Under its own name, or as tokenizer.json if a folder was named. */
static const char *file_of(const hf_source *c, const json_t *text)
{
    const char *given = json_string_value(json_object_get(text, "tokenizer")),
               *slash = given ? strrchr(given, '/') : NULL;
    const char *name = slash ? slash + 1 : given;
    return name && *name && hf_has_file(c->path, name) ? name : "tokenizer.json";
}

static void open_tokens(const hf_source *c, tokens *t)
{
    const json_t *manifest = c->manifest.json;
    *t = (tokens){.text = json_object_get(json_object_get(manifest, "settings"), "text")};
    t->file = file_of(c, t->text);
    t->tokenizer = read_json(c->path, t->file);
    t->config = read_json(c->path, "tokenizer_config.json");
    for (int i = 0; i < 2; i++)
        t->token[i] = token_of(t, i);
}

static void close_tokens(tokens *t)
{
    json_decref(t->tokenizer);
    json_decref(t->config);
}

void hf_tokens_find(hf_source *c)
{
    tokens t;
    int64_t *ids[2] = {&c->model.bos, &c->model.eos};
    open_tokens(c, &t);
    for (int i = 0; i < 2 && t.tokenizer; i++)
        if (*ids[i] < 0 && t.token[i])
            *ids[i] = id_of(t.tokenizer, t.token[i]);
    close_tokens(&t);
}

static bool differ(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) != 0 : a != b;
}

/* tokenizer_config.json with the run's tokens. */
static weft_status write_config(const tokens *t, const char *folder, weft_error *err)
{
    json_t *root = t->config ? json_deep_copy(t->config)
                             : json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast");
    bool ok = root != NULL;
    for (int i = 0; i < 2 && ok; i++)
        ok = json_object_set_new(root, token_keys[i],
                                 t->token[i] ? json_string(t->token[i]) : json_null()) == 0;
    weft_status s = hf_write_json(ok ? root : NULL, 0, "", folder, "tokenizer_config.json", err);
    json_decref(root);
    return s;
}

static json_t *template_of(const char *bos, int64_t id)
{
    return json_pack("{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}, "
                     "{s:{s:s, s:i}}, {s:{s:s, s:i}}], "
                     "s:{s:{s:s, s:[I], s:[s]}}}",
                     "type", "TemplateProcessing", "single", "SpecialToken", "id", bos, "type_id",
                     0, "Sequence", "id", "A", "type_id", 0, "pair", "SpecialToken", "id", bos,
                     "type_id", 0, "Sequence", "id", "A", "type_id", 0, "SpecialToken", "id", bos,
                     "type_id", 1, "Sequence", "id", "B", "type_id", 1, "special_tokens", bos, "id",
                     bos, "ids", (json_int_t)id, "tokens", bos);
}

/* tokenizer.json with the run's way to begin a text. */
static weft_status write_tokenizer(const tokens *t, const char *folder, weft_error *err)
{
    json_t *processor =
        t->token[0] ? template_of(t->token[0], id_of(t->tokenizer, t->token[0])) : json_null();
    json_t *root = json_copy(t->tokenizer);
    bool ok = root && processor && json_object_set(root, "post_processor", processor) == 0;
    weft_status s = hf_write_json(ok ? root : NULL, 0, "", folder, "tokenizer.json", err);
    json_decref(root);
    json_decref(processor);
    return s;
}

weft_status hf_tokens_write(const hf_source *c, const char *folder, weft_error *err)
{
    tokens t;
    weft_status s = WEFT_OK;
    open_tokens(c, &t);
    if (t.text && t.tokenizer) {
        if (strcmp(t.file, "tokenizer.json") != 0)
            s = hf_copy_file(c->path, t.file, folder, "tokenizer.json", err);
        if (!s && differ(prefix_of(t.tokenizer), t.token[0]))
            s = write_tokenizer(&t, folder, err);
        if (!s && ((t.token[0] && differ(token_in(t.config, "bos_token"), t.token[0])) ||
                   differ(token_in(t.config, "eos_token"), t.token[1])))
            s = write_config(&t, folder, err);
    }
    close_tokens(&t);
    return s;
}
