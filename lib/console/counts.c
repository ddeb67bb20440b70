/* SPDX-License-Identifier: Apache-2.0 */
/* Where a key counts (weft_param.when), and what is said of one that is set where it does not. */
#include "console/counts.h"

#include <string.h>

enum { WORD = 128 };

/* One of the conditions in "state!=none gradients=yes load". */
typedef struct condition {
    char key[WORD], word[WORD];
    bool differs, is_set; /* != instead of =; it names a key alone */
} condition;

static bool next_condition(const char **at, condition *out)
{
    const char *p = *at + strspn(*at, " ");
    const size_t n = strcspn(p, " "), key = strcspn(p, "!= ");
    *at = p + n;
    *out = (condition){.differs = p[key] == '!', .is_set = key == n};
    const size_t from = key + (out->is_set ? 0 : out->differs ? 2 : 1);
    if (n == 0 || key >= WORD || n - from >= WORD)
        return false;
    memcpy(out->key, p, key);
    memcpy(out->word, p + from, n - from);
    return true;
}

weft_status weft_param_check(const char *section, const weft_param *p, const char *text,
                             weft_where at, weft_error *err)
{
    return weft_value_parse(section, p, text, at, &(weft_checked){0}, err);
}

bool weft_param_is_same(const weft_param *p, const char *a, const char *b)
{
    weft_checked x = {0}, y = {0};
    if (strcmp(a, b) == 0)
        return true;
    if (p->flags & WEFT_PARAM_LIST || weft_value_parse("", p, a, WEFT_NOWHERE, &x, NULL) ||
        weft_value_parse("", p, b, WEFT_NOWHERE, &y, NULL) || x.word || y.word)
        return false;
    return p->type == WEFT_PARAM_INT    ? x.integer == y.integer
           : p->type == WEFT_PARAM_REAL ? x.real == y.real
                                        : p->type == WEFT_PARAM_BOOL && x.boolean == y.boolean;
}

static const weft_param *find(const weft_param *table, const char *key)
{
    while (table->name && strcmp(table->name, key) != 0)
        table++;
    return table->name ? table : NULL;
}

bool weft_param_counts(const weft_param *table, const weft_param *param, weft_value_of *value_of,
                       const void *arg)
{
    const char *at = param->when;
    condition c;
    while (at && next_condition(&at, &c)) {
        const weft_param *other = find(table, c.key);
        const char *now = other ? value_of(arg, other) : "";
        if (c.is_set ? now && *now
                     : other && now && weft_param_is_same(other, now, c.word) != c.differs)
            return true;
    }
    return !param->when;
}

void weft_when_print(const char *when, weft_text *text)
{
    condition c;
    for (int i = 0; next_condition(&when, &c); i++) {
        weft_text_print(text, i ? " or %s" : "%s", c.key);
        if (c.is_set)
            weft_text_add(text, " is set");
        else
            weft_text_print(text, c.differs ? " is not %s" : " = %s", c.word);
    }
}

/* ---- a whole INI ---- */

static const char *value_of(const void *params, const weft_param *other)
{
    return weft_params_text(params, other->name);
}

bool weft_params_count(const weft_params *params, const weft_param *table, const weft_param *param)
{
    return weft_param_counts(table, param, value_of, params);
}

/* "schedule = 1f1b", of each key that it depends on. */
static void print_now(const char *when, const weft_params *params, weft_text *text)
{
    condition c;
    for (int i = 0; next_condition(&when, &c); i++) {
        const char *now = weft_params_text(params, c.key);
        weft_text_print(text, i ? " and %s" : "%s", c.key);
        if (*now)
            weft_text_print(text, " = %s", now);
        else
            weft_text_add(text, " not set");
    }
}

static void print_where(weft_where at, weft_text *text)
{
    weft_text_print(text, at.line > 0 ? "%s:%d" : "%s", at.file, at.line);
}

void weft_param_warn_idle(const char *section, const weft_param *param, const weft_params *params,
                          const weft_log *log)
{
    weft_text line = {0};
    print_where(weft_params_where(params, param->name), &line);
    weft_text_print(&line, ": [%s] %s = %s does nothing with ", section, param->name,
                    weft_params_text(params, param->name));
    print_now(param->when, params, &line);
    weft_text_add(&line, ": it counts where ");
    weft_when_print(param->when, &line);
    weft_log_print(log, WEFT_LOG_WARN, "%s", weft_text_get(&line));
    weft_text_release(&line);
}

/* Set, and to something else than what it is without. */
static bool is_changed(const weft_checked *value)
{
    const weft_param *p = value->param;
    return value->given && !(p->value && weft_param_is_same(p, value->text, p->value));
}

/* SECTION.KEY, as it is set; NULL: it is not. */
static const weft_checked *find_changed(const weft_settings *settings, const char *name)
{
    const char *dot = strchr(name, '.');
    for (const weft_section *s = settings->sections; s && dot; s = s->next)
        for (int i = 0; s->params && i < s->params->n; i++)
            if (strlen(s->name) == (size_t)(dot - name) &&
                strncmp(s->name, name, (size_t)(dot - name)) == 0 &&
                strcmp(s->params->values[i].param->name, dot + 1) == 0)
                return is_changed(&s->params->values[i]) ? &s->params->values[i] : NULL;
    return NULL;
}

static weft_status refuse(const weft_section *s, const weft_checked *value, const char *name,
                          const weft_checked *other, weft_error *err)
{
    const int section = (int)strcspn(name, ".");
    weft_text at = {0};
    print_where(other->where, &at);
    const weft_status status = weft_fail(
        err, WEFT_ERR_INPUT, value->where,
        "[%s] %s = %s and [%.*s] %s = %s (%s) exclude each other; take one of the two out", s->name,
        value->param->name, value->text, section, name, other->param->name, other->text,
        weft_text_get(&at));
    weft_text_release(&at);
    return status;
}

static weft_status check_refused(const weft_settings *settings, const weft_section *s,
                                 const weft_checked *value, weft_error *err)
{
    weft_status status = WEFT_OK;
    condition c;
    for (const char *at = value->param->refuses; at && next_condition(&at, &c);) {
        const weft_checked *other = is_changed(value) ? find_changed(settings, c.key) : NULL;
        if (other)
            status = refuse(s, value, c.key, other, err);
    }
    return status;
}

/* A line of a file, or an option: what a run's checkpoint has of each key has neither. */
static bool is_by_user(const weft_checked *value)
{
    return value->given && (value->where.line > 0 || value->where.file[0] == '-');
}

weft_status weft_settings_check_keys(const weft_settings *settings, const weft_log *log,
                                     weft_error *err)
{
    weft_status status = WEFT_OK;
    for (const weft_section *s = settings->sections; s; s = s->next)
        for (int i = 0; s->params && i < s->params->n; i++) {
            const weft_checked *value = &s->params->values[i];
            const weft_status refused = check_refused(settings, s, value, err);
            if (is_by_user(value) && !weft_params_count(s->params, s->table, value->param))
                weft_param_warn_idle(s->name, value->param, s->params, log);
            status = status ? status : refused;
        }
    return status;
}

static bool drop_idle(weft_section *s)
{
    bool dropped = false;
    for (int i = 0; s->params && i < s->params->n; i++) {
        weft_checked *value = &s->params->values[i];
        if (!value->given || value->param->flags & WEFT_PARAM_REQUIRED ||
            weft_params_count(s->params, s->table, value->param))
            continue;
        value->given = false;
        value->text = value->param->value ? value->param->value : "";
        dropped = true;
    }
    return dropped;
}

void weft_settings_drop_idle(weft_settings *settings)
{
    for (weft_section *s = settings->sections; s; s = s->next)
        while (drop_idle(s))
            continue;
}
