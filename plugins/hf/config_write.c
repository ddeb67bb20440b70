/* SPDX-License-Identifier: Apache-2.0 */
/* config.json, written as Transformers 5 writes it, and readable for Transformers 4: rope in both
 * spellings. Of diffusers' folders, as diffusers does. */
#include "hf.h"

#include <string.h>

/* "0 2" as [0, 2] */
static json_t *array_of(const char *text)
{
    json_t *list = json_array();
    for (int64_t x; hf_next_number(&text, &x);)
        json_array_append_new(list, json_integer((json_int_t)x));
    return list;
}

/* root: has the keys above. */
static json_t *value_of(const weft_hf_key *k, const hf_model *m, const json_t *root)
{
    double x = 0;
    const hf_value *v = hf_model_find(m, k->key);
    if (k->same)
        return json_integer((json_int_t)hf_operand(root, k->same, strlen(k->same)));
    if (v && k->null && strcmp(v->text, k->null) == 0)
        return json_null();
    if (!v)
        return k->is || k->written ? hf_json_of(k->is ? k->is : k->written)
                                   : json_integer((json_int_t)m->context);
    if (v->param->type == WEFT_PARAM_STRING) {
        char list[512];
        hf_model_text(m, v, list);
        return array_of(list);
    }
    if (!hf_value_number(v, &x))
        return json_string(v->text);
    x /= k->by ? hf_operand(root, k->by, strlen(k->by)) : 1;
    return v->param->type == WEFT_PARAM_INT || k->whole ? json_integer((json_int_t)x)
           : v->param->type == WEFT_PARAM_REAL          ? json_real(x)
                                                        : json_boolean(x != 0);
}

/* Of the object `root`; false: out of memory. */
static bool add_keys(json_t *root, const weft_hf_key *keys, const hf_model *m)
{
    bool ok = root != NULL;
    for (const weft_hf_key *k = keys; k->name; k++) {
        if (k->unwritten)
            continue;
        ok = json_object_set_new(root, k->name, value_of(k, m, root)) == 0 && ok;
        if (k->old)
            ok = json_object_set_new(root, k->old, value_of(k, m, root)) == 0 && ok;
    }
    return ok;
}

static bool add_rope(json_t *root, const hf_model *m)
{
    double theta = 0;
    const weft_hf_rope_type *t = hf_rope_type(m, NULL);
    json_t *before = t ? json_object() : json_null();
    bool ok = !t || (add_keys(before, t->keys, m) &&
                     json_object_set_new(before, "rope_type", json_string(t->type)) == 0);
    json_t *now = t ? json_copy(before) : json_pack("{s:s}", "rope_type", "default");
    hf_value_number(hf_model_find(m, m->form->rope->theta), &theta);
    ok = json_object_set_new(now, "rope_theta", json_real(theta)) == 0 && ok;
    ok = json_object_set_new(root, "rope_parameters", now) == 0 && ok;
    ok = json_object_set_new(root, "rope_scaling", before) == 0 && ok;
    return json_object_set_new(root, "rope_theta", json_real(theta)) == 0 && ok;
}

static const char *name_of(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? "float64" : dtype == WEFT_BF16 ? "bfloat16" : "float32";
}

static json_t *id_of(int64_t id)
{
    return id >= 0 ? json_integer(id) : json_null();
}

/* Transformers 5 reads dtype, those before it torch_dtype. */
static json_t *head_of(const hf_model *m, weft_dtype dtype)
{
    if (m->form->diffusers)
        return json_pack("{s:s}", "_class_name", m->form->type);
    return json_pack("{s:[s], s:s, s:o, s:o, s:s, s:s}", "architectures", m->form->architecture,
                     "model_type", m->form->type, "bos_token_id", id_of(m->bos), "eos_token_id",
                     id_of(m->eos), "dtype", name_of(dtype), "torch_dtype", name_of(dtype));
}

weft_status hf_config_write(const char *folder, const hf_model *m, weft_dtype dtype,
                            weft_error *err)
{
    json_t *root = head_of(m, dtype);
    const bool ok = add_keys(root, m->form->keys, m) && (!m->form->rope || add_rope(root, m));
    weft_status s =
        hf_write_json(ok ? root : NULL, JSON_SORT_KEYS, "\n", folder, "config.json", err);
    json_decref(root);
    return s;
}
