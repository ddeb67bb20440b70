/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of config.json that a model's table names. */
#include "hf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

/* Is it there, and of the type that is expected? */
static bool is_right(hf_reader *r, const char *key, const json_t *x, bool is, const char *expected)
{
    if (x && !is)
        hf_complain(r, "'%s' is %s; expected %s", key, hf_json_type(x), expected);
    return x && is;
}

/* whole: no fraction. NAN: what is wrong is said. */
static double get_number(hf_reader *r, const char *key, double least, double most, bool whole)
{
    const json_t *x = hf_get(r, key);
    const double value = json_number_value(x);
    if (!x)
        hf_complain(r, "'%s' is missing", key);
    if (!is_right(r, key, x, whole ? json_is_integer(x) : json_is_number(x),
                  whole ? "a whole number" : "a number"))
        return NAN;
    if (value >= least && value <= most)
        return value;
    hf_complain(r, "'%s' is %.10g; expected %.10g to %.10g", key, value, least, most);
    return NAN;
}

static bool get_bool(hf_reader *r, const char *key)
{
    const json_t *x = hf_get(r, key);
    return is_right(r, key, x, json_is_boolean(x), "true or false") && json_is_true(x);
}

/* ---- what other keys say of a key ---- */

/* What an expression comes to. */
typedef struct amount {
    double x;           /* NAN: there is none, or one of its keys is wrong */
    bool whole;         /* every quotient is */
    char said[HF_NAME]; /* "'a*b', 2*3 = 6", "'a', 6" */
} amount;

/* Sums of products and quotients, rounded down, of numbers and of keys of the object. */
static amount amount_of(const hf_reader *r, const char *text)
{
    amount a = {.x = NAN, .whole = true};
    char numbers[HF_NAME / 2], operation = '+';
    double sum = 0, product = 0;
    size_t used = 0;
    for (const char *c = text; c && used < sizeof numbers; operation = *c++) {
        const size_t n = strcspn(c, "*/+ ");
        const double x = hf_operand(r->object, c, n);
        const bool divides = operation == '/' && x != 0, ends = !c[n] || c[n] == ' ';
        sum += operation == '+' ? product : 0;
        a.whole = a.whole && !(divides && fmod(product, x) > 0);
        product = operation == '*'   ? product * x
                  : operation == '+' ? x
                                     : product / (divides ? x : 1);
        product = divides ? floor(product) : product;
        used +=
            (size_t)snprintf(numbers + used, sizeof numbers - used, "%.10g%.*s", x, !ends, c + n);
        c += n;
        if (ends) {
            const bool one = !strpbrk(numbers, "*/+");
            a.x = sum + product;
            snprintf(a.said, sizeof a.said, one ? "'%.*s', %s" : "'%.*s', %s = %.10g",
                     (int)(c - text), text, numbers, a.x);
            break;
        }
    }
    return a;
}

static bool is_answer(const char *text)
{
    return text && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0);
}

/* A key that is left out becomes what stands for it; false: nobody knows what that is. */
static bool fill(hf_reader *r, const weft_hf_key *k)
{
    json_t *now = hf_get(r, k->name), *old = hf_get(r, k->old), *x;
    if (now && old && !json_equal(now, old))
        hf_complain(r, "'%s' and '%s' are the same key and differ; keep the right one", k->name,
                    k->old);
    if (now || !(old || k->standard))
        return true;
    const amount a = amount_of(r, old ? NULL : k->standard);
    if (!a.whole)
        hf_complain(r, "'%s' is left out, and %s, is not whole", k->name, a.said);
    if (old)
        x = json_incref(old);
    else if (k->null && json_object_get(r->object, k->name))
        x = hf_json_of(k->null);
    else if (is_answer(k->standard))
        x = json_boolean(*k->standard == 't');
    else if (isnan(a.x))
        return false;
    else
        x = a.x == floor(a.x) && fabs(a.x) < 1e15 ? json_integer((json_int_t)a.x) : json_real(a.x);
    if (json_object_set_new(r->object, k->name, x) != 0)
        r->status = weft_fail_memory(r->err);
    return true;
}

/* ---- one key ---- */

static bool is_value(const json_t *x, const char *text)
{
    json_t *value = text ? hf_json_of(text) : NULL;
    const bool same = value && (json_is_number(value) && json_is_number(x)
                                    ? json_number_value(value) == json_number_value(x)
                                    : json_equal(value, x));
    json_decref(value);
    return same;
}

void hf_check_constant(hf_reader *r, const weft_hf_key *k)
{
    const json_t *x = hf_get(r, k->name);
    if (!x || is_value(x, k->is) || is_value(x, k->also))
        return;
    char *text = json_dumps(x, JSON_ENCODE_ANY | JSON_COMPACT);
    hf_complain(r, "'%s' is %.60s; weft has %s alone", k->name, text ? text : "?", k->is);
    free(text);
}

static void check_relations(hf_reader *r, const weft_hf_key *k, double x)
{
    const amount whole = amount_of(r, k->divides), more = amount_of(r, k->below);
    const char *most = k->most;
    if (!isnan(whole.x) && (x == 0 || fmod(whole.x, x) != 0))
        hf_complain(r, "'%s' %.10g does not divide %s", k->name, x, whole.said);
    if (x >= more.x)
        hf_complain(r, "'%s' is %.10g; it must be less than %s", k->name, x, more.said);
    for (size_t n; most && (n = hf_next_word(&most)); most += n) {
        const amount a = amount_of(r, most);
        if (x > a.x) {
            hf_complain(r, "'%s' is %.10g; at most %s", k->name, x, a.said);
            return;
        }
    }
}

static void read_number(hf_reader *r, const weft_hf_key *k)
{
    static const weft_param tokens = {.type = WEFT_PARAM_INT, .min = 1, .max = 1 << 24};
    hf_value *v = hf_model_find(r->m, k->key);
    const weft_param *p = v ? v->param : &tokens;
    const bool bounded = p->min != 0 || p->max != 0;
    const double by = k->by ? amount_of(r, k->by).x : 1, least = bounded ? p->min : -1e300,
                 most = bounded ? p->max : 1e300;
    double said =
        isnan(by) ? NAN : get_number(r, k->name, least / by, most / by, p->type == WEFT_PARAM_INT);
    if (k->multiple && fmod(said, (double)k->multiple) > 0) {
        hf_complain(r, "'%s' is %.10g; %s", k->name, said, k->why ? k->why : "it is another model");
        said = NAN;
    }
    if (isnan(said)) {
        json_object_del(r->object, k->name); /* nothing is compared with it */
        if (v)
            v->text[0] = '\0';
        return;
    }
    check_relations(r, k, said);
    if (v)
        hf_value_set_number(v, said * by);
    if (k->context)
        r->m->context = (int64_t)said;
}

/* Without a key of the plugin's: it repeats what others say. */
static void check_same(hf_reader *r, const weft_hf_key *k)
{
    const double x = hf_get(r, k->name) ? get_number(r, k->name, -1e300, 1e300, false) : NAN;
    const amount a = amount_of(r, k->same);
    if (!isnan(x) && !isnan(a.x) && x != a.x)
        hf_complain(r, "'%s' is %.10g, but %s", k->name, x, a.said);
}

static void read_word(hf_reader *r, const weft_hf_key *k, hf_value *v)
{
    const json_t *x = hf_get(r, k->name);
    const char *word = json_string_value(x);
    if (!x)
        hf_complain(r, "'%s' is missing", k->name);
    if (!is_right(r, k->name, x, word, "a string"))
        return;
    if (weft_param_check("", v->param, word, WEFT_NOWHERE, NULL))
        hf_complain(r, "'%s' is '%s', which [%s] %s does not know", k->name, word,
                    r->m->table->plugin, v->param->name);
    else
        snprintf(v->text, sizeof v->text, "%s", word);
}

/* Whole numbers, each below what a key above says. */
static void read_list(hf_reader *r, const weft_hf_key *k, hf_value *v)
{
    const json_t *list = hf_get(r, k->name), *x;
    size_t i, used = 0;
    const double more = fmin(amount_of(r, k->below).x, 1e9);
    int64_t n, sum = 0, others = 0;
    int longer = (int)json_array_size(list);
    char derived[512];
    v->text[0] = '\0';
    hf_model_text(r->m, v, derived);
    is_right(r, k->name, list, json_is_array(list), "an array");
    json_array_foreach(list, i, x) {
        const double number = json_is_integer(x) ? json_number_value(x) : -1;
        if (number < 0 || number >= more) {
            hf_complain(r, "'%s' must hold whole numbers from 0 to %.10g alone", k->name, more - 1);
            return;
        }
        if (k->multiple && (int64_t)number % k->multiple != 0)
            hf_complain(r, "'%s' holds %.0f; %s", k->name, number, k->why);
        used +=
            (size_t)snprintf(v->text + used, sizeof v->text - used, "%s%.0f", i ? " " : "", number);
        if (used >= sizeof v->text) {
            hf_complain(r, "'%s' has too many numbers", k->name);
            return;
        }
        sum += (int64_t)number;
    }
    for (const char *left = derived; hf_next_number(&left, &n); longer--)
        others += n;
    if (used && *derived && (longer != 0 || sum != others)) /* others say it where it is left out */
        hf_complain(r, "'%s' must hold as many numbers as %s, with the sum %lld", k->name, derived,
                    (long long)others);
}

static void read_key(hf_reader *r, const weft_hf_key *k)
{
    hf_value *v = hf_model_find(r->m, k->key);
    if (k->is)
        hf_check_constant(r, k);
    if (k->same)
        check_same(r, k);
    if (v && (v->param->type == WEFT_PARAM_BOOL || is_answer(k->standard)))
        hf_value_set_number(v, get_bool(r, k->name));
    else if (v && v->param->type == WEFT_PARAM_CHOICE)
        read_word(r, k, v);
    else if (v && v->param->type == WEFT_PARAM_STRING)
        read_list(r, k, v);
    else if (v || k->context)
        read_number(r, k);
    if (v)
        v->said = true;
}

void hf_read_keys(hf_reader *r, const weft_hf_key *keys)
{
    for (const weft_hf_key *k = keys; k->name; k++)
        if (fill(r, k))
            read_key(r, k);
}

/* ---- rotary positions ---- */

const weft_hf_rope_type *hf_rope_type(const hf_model *m, const char *word)
{
    const weft_hf_rope_type *t = m->form->rope->types;
    while (t && t->type &&
           strcmp(word ? t->type : hf_model_find(m, t->key)->text, word ? word : t->value) != 0)
        t++;
    return t && t->type ? t : NULL;
}

static void say_types(hf_reader *r, const weft_hf_rope *rope, const char *word)
{
    weft_text text = {0};
    for (const weft_hf_rope_type *t = rope->types; t && t->type; t++)
        weft_text_print(&text, "%s%s", t[1].type ? ", " : " and ", t->type);
    hf_complain(r, "rotary positions of type '%s' are not known; this model has default%s", word,
                weft_text_get(&text));
    weft_text_release(&text);
}

/* object: holds rope_type and its numbers. *chosen: NULL is "default". false: it has said what is
 * wrong with them. */
static bool read_rope(hf_reader *r, json_t *object, const weft_hf_rope_type **chosen)
{
    hf_reader inner = {.path = r->path, .object = object, .m = r->m, .err = r->err};
    const weft_hf_rope *rope = r->m->form->rope;
    const json_t *type =
        hf_get(&inner, "rope_type") ? hf_get(&inner, "rope_type") : hf_get(&inner, "type");
    const char *word = json_is_string(type) ? json_string_value(type)
                       : type               ? hf_json_type(type)
                                            : "default";
    const weft_hf_rope_type *t = *chosen = hf_rope_type(r->m, word);
    double theta;
    hf_check_constant(&inner, &(weft_hf_key){"partial_rotary_factor", .is = "1"});
    if (t) {
        hf_value *v = hf_model_find(r->m, t->key);
        snprintf(v->text, sizeof v->text, "%s", t->value);
        v->said = true;
        hf_read_keys(&inner, t->keys);
        if (hf_value_number(hf_model_find(r->m, rope->theta), &theta) && theta <= t->above)
            hf_complain(r, "'rope_theta' is %g; positions of type '%s' need more than %g", theta,
                        word, t->above);
    } else if (strcmp(word, "default") != 0) {
        say_types(&inner, rope, word);
    }
    r->status = r->status ? r->status : inner.status;
    return !inner.status;
}

/* Both spellings may stand side by side, but must agree. t: the type of `now`, which was read. */
static void compare_rope(hf_reader *r, json_t *now, json_t *before, const weft_hf_rope_type *t)
{
    const weft_hf_rope_type *other;
    if (!read_rope(r, before, &other))
        return;
    bool same = t == other;
    for (const weft_hf_key *k = same && t ? t->keys : NULL; k && k->name; k++)
        same = same && (!k->key || json_number_value(json_object_get(now, k->name)) ==
                                       json_number_value(json_object_get(before, k->name)));
    if (!same)
        hf_complain(r, "'rope_scaling' and 'rope_parameters' differ; keep the right one");
}

/* NAN: it is wrong. */
static double read_theta(hf_reader *r)
{
    char standard[32];
    const weft_hf_rope *rope = r->m->form->rope;
    hf_value *v = hf_model_find(r->m, rope->theta);
    double theta;
    snprintf(standard, sizeof standard, "%.15g", rope->standard);
    hf_read_keys(r, (weft_hf_key[]){{"rope_theta", rope->theta, .standard = standard}, {0}});
    return hf_value_number(v, &theta) ? theta : NAN;
}

/* Transformers 5 keeps theta and the scaling in rope_parameters, those before it in rope_theta and
 * rope_scaling. */
void hf_read_rotary(hf_reader *r)
{
    json_t *now = hf_get(r, "rope_parameters"), *before = hf_get(r, "rope_scaling");
    const bool is_now = is_right(r, "rope_parameters", now, json_is_object(now), "an object"),
               is_before = is_right(r, "rope_scaling", before, json_is_object(before), "an object");
    hf_reader inner = *r;
    hf_model *m = r->m;
    const weft_hf_rope_type *chosen;
    inner.object = now;
    if (is_now && json_is_object(json_object_iter_value(json_object_iter(now))))
        hf_complain(r, "'rope_parameters' differ between layers; weft has one kind of them");
    const json_t *outer = hf_get(r, "rope_theta"),
                 *twice = is_now ? hf_get(&inner, "rope_theta") : NULL;
    const double theta = !twice || (outer && !json_equal(twice, outer)) ? read_theta(r) : NAN,
                 other = twice ? read_theta(&inner) : theta;
    if (!isnan(theta) && !isnan(other) && other != theta)
        hf_complain(r, "'rope_theta' is %g, but %g in 'rope_parameters'", theta, other);
    for (const weft_hf_rope_type *t = m->form->rope->types; t && t->type; t++) {
        hf_value *v = hf_model_find(m, t->key); /* unless it is, "no" is said */
        if (v->param->type == WEFT_PARAM_BOOL)
            hf_value_set_number(v, 0);
        v->said = v->said || v->param->type == WEFT_PARAM_BOOL;
    }
    r->status = r->status ? r->status : inner.status;
    if (is_now && read_rope(r, now, &chosen) && is_before)
        compare_rope(r, now, before, chosen);
    else if (is_before && !now)
        read_rope(r, before, &chosen);
}
