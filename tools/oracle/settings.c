/* SPDX-License-Identifier: Apache-2.0 */
/* Which settings of two runs differ of those that say what is computed, and what is made otherwise
 * for it: a constant of an op may be too small a change for any value to show. */
#include "oracle.h"

#include <math.h>
#include <string.h>

/* Of [train]: what is learnt, and not how it is computed or looked at. */
static const char *const of_train[] = {"steps", "seq_len", "global_batch", "seed", NULL};

static bool is_one_of(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static bool note(oracle_survey *to, const char *section, const weft_param *param,
                 const weft_params *params)
{
    oracle_setting *fresh = weft_realloc(to->list, (size_t)(to->n + 1) * sizeof *fresh);
    if (!fresh)
        return false;
    to->list = fresh;
    oracle_setting *s = &to->list[to->n++];
    const char *text = weft_params_text(params, param->name);
    *s = (oracle_setting){.section = weft_pool_strdup(&to->pool, section),
                          .key = weft_pool_strdup(&to->pool, param->name),
                          .text = weft_pool_strdup(&to->pool, text)};
    bool number = !(param->flags & WEFT_PARAM_LIST) && *text;
    s->number = number && param->type == WEFT_PARAM_REAL ? weft_params_real(params, param->name)
                : number && param->type == WEFT_PARAM_INT
                    ? (double)weft_params_int(params, param->name)
                : number && param->type == WEFT_PARAM_BOOL ? weft_params_bool(params, param->name)
                                                           : 0;
    return s->section && s->key && s->text;
}

/* A word beside numbers, as auto, is 0 as a number. */
static bool differ(const oracle_setting *x, const oracle_setting *y)
{
    bool same_number = x->number == y->number && x->number != 0;
    return !same_number && strcmp(x->text, y->text) != 0;
}

weft_status oracle_survey_settings(oracle_survey *to, const weft_session *session, weft_error *err)
{
    const weft_plugins *plugins = session->plugins;
    const weft_params *train;
    weft_status s =
        weft_settings_section(session->settings, "train", weft_core_params("train"), &train, err);
    if (s)
        return s;
    bool good = true;
    to->evaluates = weft_params_int(train, "eval_every") > 0;
    for (const weft_param *p = weft_core_params("train"); p->name && good; p++)
        if (is_one_of(of_train, p->name))
            good = note(to, "train", p, train);
    for (int i = 0; i < plugins->n && good; i++) {
        const weft_plugin *plugin = plugins->list[i].module.plugin;
        bool tells = plugin->numerics == WEFT_NUMERICS_CHANGES;
        for (const weft_param *p = plugin->params; tells && p && p->name && good; p++)
            good = note(to, plugin->name, p, plugins->list[i].params);
    }
    return good ? WEFT_OK : weft_fail_memory(err);
}

void oracle_survey_release(oracle_survey *survey)
{
    weft_pool_release(&survey->pool);
    weft_free(survey->list);
    *survey = (oracle_survey){0};
}

static const oracle_setting *find(const oracle_survey *in, const oracle_setting *s)
{
    for (int i = 0; i < in->n; i++)
        if (strcmp(in->list[i].section, s->section) == 0 && strcmp(in->list[i].key, s->key) == 0)
            return &in->list[i];
    return NULL;
}

static const char *shown(const oracle_setting *s)
{
    return *s->text ? s->text : "(not set)";
}

int oracle_compare_settings(const oracle_survey surveys[2], weft_text *out)
{
    int n = 0;
    for (int i = 0; i < surveys[0].n; i++) {
        const oracle_setting *x = &surveys[0].list[i], *y = find(&surveys[1], x);
        if (!y || !differ(x, y))
            continue;
        n++;
        weft_text_print(out, "the settings differ: [%s] %s = %s and %s\n", x->section, x->key,
                        shown(x), shown(y));
    }
    return n;
}

/* ---- what comes of it ---- */

static const weft_attr *attr_of(const oracle_value *v, const char *key)
{
    for (int i = 0; i < v->n_attrs; i++)
        if (strcmp(v->attrs[i].key, key) == 0)
            return &v->attrs[i];
    return NULL;
}

static bool same(const weft_attr *x, const weft_attr *y)
{
    if (x->kind != y->kind)
        return true; /* no constant of the same kind: nothing to compare */
    return x->kind == WEFT_ATTR_INT    ? x->i == y->i
           : x->kind == WEFT_ATTR_REAL ? x->r == y->r
                                       : strcmp(x->text, y->text) == 0;
}

static void print_attr(weft_text *out, const weft_attr *a)
{
    if (a->kind == WEFT_ATTR_INT)
        weft_text_print(out, "%lld", (long long)a->i);
    else if (a->kind == WEFT_ATTR_REAL)
        weft_text_print(out, "%.9g", a->r);
    else
        weft_text_add(out, a->text);
}

bool oracle_compare_constants(const oracle_record *a, const oracle_record *b, weft_text *out)
{
    int n = 0;
    for (int i = 0; i < b->n_values; i++) {
        const oracle_value *y = &b->values[i];
        const char *name = y->becomes ? y->becomes : y->name;
        const oracle_value *x = weft_map_get(&a->by_name, name, strlen(name));
        for (int k = 0; x && strcmp(x->op, y->op) == 0 && k < y->n_attrs; k++) {
            const weft_attr *theirs = attr_of(x, y->attrs[k].key);
            if (!theirs || same(theirs, &y->attrs[k]) || n++)
                continue;
            weft_text_print(out, "        which changes %%%s = %s (%s): %s = ", y->name, y->op,
                            y->by, y->attrs[k].key);
            print_attr(out, theirs);
            weft_text_add(out, " and ");
            print_attr(out, &y->attrs[k]);
        }
    }
    if (n > 1)
        weft_text_print(out, ", and %d constant%s more", n - 1, n == 2 ? "" : "s");
    weft_text_add(out, n ? "\n" : "        which changes no op of the graph\n");
    return n > 0;
}
