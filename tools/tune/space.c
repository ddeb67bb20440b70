/* SPDX-License-Identifier: Apache-2.0 */
/* What may be chosen: what plugins say of their keys, and the axes that nobody has listed yet. */
#include "console/counts.h"
#include "session.h"
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Listed for the search where the INI does not; what is not used is not listed in the end. */
static const char *const helpers[] = {"tp", "fsdp", "cp", "pp", "ac"};

static bool helps(const tune_space *s, const char *section)
{
    const size_t n = strlen(section);
    for (int i = 0; i < s->n_with; i++)
        if (strncmp(s->with[i], section, n) == 0 && s->with[i][n] == '@')
            return true;
    return false;
}

static weft_status too_many(weft_error *err)
{
    return weft_fail(
        err, WEFT_ERR_INPUT, WEFT_NOWHERE,
        "plugins have more than %d keys that may be tuned, or one more than %d values; "
        "--fix some",
        TUNE_MOST_KEYS, TUNE_MOST_VALUES);
}

static weft_status add_value(tune_space *s, tune_key *k, const char *text, size_t n,
                             weft_error *err)
{
    char *copy = weft_pool_format(&s->pool, "%.*s", (int)n, text);
    if (k->n == TUNE_MOST_VALUES)
        return too_many(err);
    if (!copy)
        return weft_fail_memory(err);
    k->values[k->n++] = copy;
    return WEFT_OK;
}

static weft_status add_number(tune_space *s, tune_key *k, int64_t number, weft_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return add_value(s, k, text, strlen(text), err);
}

static weft_status add_degrees(tune_space *s, tune_key *k, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int d = 1; d <= s->ranks && !status; d++)
        if (s->ranks % d == 0)
            status = add_number(s, k, d, err);
    return status;
}

/* One, two, four, ... micro-batches a step. */
static weft_status add_batches(tune_space *s, tune_key *k, int64_t batch, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int64_t n = 1; n <= batch && !status; n *= 2)
        if (batch % n == 0)
            status = add_number(s, k, batch / n, err);
    return status;
}

static weft_status add_words(tune_space *s, tune_key *k, const char *words, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (const char *p = words + strspn(words, " "); *p && !status; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        status = add_value(s, k, p, n, err);
        p += n;
    }
    return status;
}

static bool is_fixed(const weft_option_values *fixed, const char *section, const char *key)
{
    const size_t n = strlen(section), m = strlen(key);
    for (int i = 0; i < fixed->n; i++) {
        const char *text = fixed->list[i].text;
        if (strncmp(text, section, n) == 0 && text[n] == '.' &&
            strncmp(text + n + 1, key, m) == 0 && text[n + 1 + m] == '=')
            return true;
    }
    return false;
}

/* A key that counts with some values of others alone is to be asked again when these are chosen. */
static weft_status keep_texts(tune_space *s, tune_key *k, const weft_params *params,
                              weft_error *err)
{
    int n = 0;
    while (k->table[n].name)
        n++;
    k->texts = k->param->when ? weft_pool_alloc(&s->pool, (size_t)n * sizeof *k->texts) : NULL;
    for (int i = 0; k->texts && i < n; i++) {
        k->texts[i] = weft_pool_strdup(&s->pool, weft_params_text(params, k->table[i].name));
        if (!k->texts[i])
            return weft_fail_memory(err);
    }
    return k->param->when && !k->texts ? weft_fail_memory(err) : WEFT_OK;
}

static weft_status add_key(tune_space *s, const char *section, const weft_param *table,
                           const weft_param *p, const weft_params *params, weft_error *err)
{
    if (s->n_keys == TUNE_MOST_KEYS)
        return too_many(err);
    tune_key *k = &s->keys[s->n_keys];
    *k = (tune_key){.section = weft_pool_strdup(&s->pool, section),
                    .key = weft_pool_strdup(&s->pool, p->name),
                    .table = table,
                    .param = p,
                    .base = -1};
    if (!k->section || !k->key)
        return weft_fail_memory(err);
    weft_status status = keep_texts(s, k, params, err);
    if (status)
        return status;
    if (strcmp(p->tune, "ranks") == 0) {
        k->kind = TUNE_RANKS;
        status = add_degrees(s, k, err);
    } else if (strcmp(p->tune, "batch") == 0) {
        k->kind = TUNE_BATCH;
        status = add_batches(s, k, weft_params_int(params, "global_batch"), err);
    } else {
        status = add_words(s, k, p->tune, err);
    }
    for (int i = 0; i < k->n; i++)
        if (strcmp(k->values[i], weft_params_text(params, p->name)) == 0 &&
            !((p->flags & WEFT_PARAM_REQUIRED) && helps(s, section))) /* ours, not the INI's */
            k->base = i;
    if (k->kind == TUNE_VALUES && k->n > 1 && k->base < 0) { /* what is in force is tried, too */
        const char *now = weft_params_text(params, p->name);
        status = status ? status : add_value(s, k, now, strlen(now), err);
        k->base = k->n - 1;
    }
    if (strcmp(section, "pp") == 0 && strcmp(p->name, "degree") == 0)
        s->pp = s->n_keys;
    s->n_keys++;
    return status;
}

/* Degrees that are fixed must leave the ranks something to divide. */
static weft_status count_fixed(tune_space *s, const char *section, const weft_param *p,
                               const weft_params *params, weft_error *err)
{
    const int64_t degree = weft_params_int(params, p->name);
    if (strcmp(p->tune, "ranks") != 0 || degree < 1)
        return WEFT_OK;
    s->fixed_ranks *= degree;
    if (s->ranks % s->fixed_ranks == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(params, p->name),
                     "%d ranks cannot be divided by %lld, [%s] %s%s; choose a divisor", s->ranks,
                     (long long)s->fixed_ranks, section, p->name,
                     s->fixed_ranks == degree ? "" : " times other fixed degrees");
}

/* What the search changes is open, and may be whatever is asked for. */
typedef struct fixed_look {
    const tune_space *space;
    const char *section;
    const weft_params *params;
    bool *open;
} fixed_look;

static const char *fixed_value(const void *look_, const weft_param *other)
{
    const fixed_look *look = look_;
    *look->open |= other->tune && !is_fixed(look->space->fixed, look->section, other->name);
    return weft_params_text(look->params, other->name);
}

/* A key that --fix sets, and that does nothing whatever is chosen. */
static void warn_fixed(const tune_space *s, const char *section, const weft_param *table,
                       const weft_param *p, const weft_params *params)
{
    bool open = false;
    const fixed_look look = {s, section, params, &open};
    weft_cli_log sink;
    if (!is_fixed(s->fixed, section, p->name) || weft_param_counts(table, p, fixed_value, &look) ||
        open)
        return;
    const weft_log log = weft_cli_log_init(&sink, WEFT_LOG_WARN);
    weft_param_warn_idle(section, p, params, &log);
    weft_cli_log_release(&sink);
}

static weft_status add_table(tune_space *s, const char *section, const weft_param *table,
                             const weft_params *params, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (const weft_param *p = table; p && p->name && params && !status; p++) {
        warn_fixed(s, section, table, p, params);
        if (p->tune)
            status = is_fixed(s->fixed, section, p->name)
                         ? count_fixed(s, section, p, params, err)
                         : add_key(s, section, table, p, params, err);
        if ((p->flags & WEFT_PARAM_DEPTH) && !s->depth_key) {
            s->depth = weft_params_int(params, p->name);
            s->depth_section = weft_pool_strdup(&s->pool, section);
            s->depth_key = weft_pool_strdup(&s->pool, p->name);
        }
    }
    return status;
}

/* ---- plugins that are listed for it ---- */

static bool gives(const weft_plugin *plugin, const char *what)
{
    for (const weft_contribution *c = plugin->contributions; c && c->kind; c++)
        for (const char *const *g = c->gives; g && *g; g++)
            if (strcmp(*g, what) == 0)
                return true;
    return false;
}

static const char *optimizer_of(const weft_plugins *plugins)
{
    for (int i = 0; i < plugins->n; i++)
        if (gives(plugins->list[i].module.plugin, "optimizer"))
            return plugins->list[i].module.plugin->name;
    return NULL;
}

const weft_loaded *tune_find_plugin(const weft_plugins *plugins, const char *name)
{
    for (int i = 0; i < plugins->n; i++)
        if (strcmp(plugins->list[i].module.plugin->name, name) == 0)
            return &plugins->list[i];
    return NULL;
}

/* In front of the optimizer, behind whatever makes numbers narrow. */
static weft_status add_helpers(tune_space *s, const weft_plugins *plugins, weft_error *err)
{
    const char *before = optimizer_of(plugins);
    const char *const *names = weft_search_names(plugins->search);
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++) {
        bool found = false;
        for (int k = 0; names && names[k]; k++)
            found = found || strcmp(names[k], helpers[i]) == 0;
        if (tune_find_plugin(plugins, helpers[i]) || !found || !before ||
            (s->ranks == 1 && strcmp(helpers[i], "ac") != 0))
            continue;
        s->with[s->n_with] = weft_pool_format(&s->pool, "%s@before:%s", helpers[i], before);
        if (!s->with[s->n_with++])
            return weft_fail_memory(err);
    }
    return WEFT_OK;
}

static weft_status add_edit(weft_pool *pool, weft_cli_options *to, weft_cli_edit_kind kind,
                            const char *as, const char *text, weft_error *err)
{
    const char *whole = weft_pool_format(pool, "%s %s", as, text);
    if (!whole || !text)
        return weft_fail_memory(err);
    to->edits[to->n_edits++] = (weft_cli_edit){kind, text, whole};
    return WEFT_OK;
}

/* The section of an edit "tp.degree=8". */
static bool is_of(const char *edit, const char *section)
{
    const size_t n = strlen(section);
    return strncmp(edit, section, n) == 0 && edit[n] == '.';
}

/* A degree that is fixed to 1: the plugin is not wanted. */
static bool is_off(const tune_space *s, const char *section)
{
    bool off = false;
    for (int i = 0; i < s->fixed->n; i++)
        off = off || (is_of(s->fixed->list[i].text, section) &&
                      strcmp(s->fixed->list[i].text + strlen(section), ".degree=1") == 0);
    return off && helps(s, section) && strcmp(section, "fsdp") != 0;
}

/* "tp.degree=8"; NULL: of a plugin that is not wanted. */
static const char *fixed_text(const tune_space *s, int i)
{
    char section[64];
    const char *text = s->fixed->list[i].text;
    snprintf(section, sizeof section, "%.*s", (int)strcspn(text, "."), text);
    return is_off(s, section) ? NULL : text;
}

/* all: where plugins that are not wanted are listed, too. */
static weft_status add_fixed(const tune_space *s, bool all, weft_pool *pool, weft_cli_options *to,
                             weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->fixed->n && !status; i++)
        if (all || fixed_text(s, i))
            status = add_edit(pool, to, WEFT_CLI_SET, "--fix", s->fixed->list[i].text, err);
    return status;
}

/* What the search begins with is planned once, to read what plugins say; degrees of 1 are valid
 * whatever the ranks are. */
static weft_status begin_edits(tune_space *s, weft_cli_edit *edits, weft_cli_options *out,
                               weft_error *err)
{
    *out = *s->options;
    out->silent = true;
    out->edits = edits;
    for (int i = 0; i < s->options->n_edits; i++)
        edits[i] = s->options->edits[i];
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->n_with && !status; i++) {
        const int n = (int)strcspn(s->with[i], "@");
        status = add_edit(&s->pool, out, WEFT_CLI_WITH, "listed by tune:", s->with[i], err);
        if (strncmp(s->with[i], "fsdp", 4) == 0 || strncmp(s->with[i], "ac", 2) == 0)
            continue;
        const char *degree = weft_pool_format(&s->pool, "%.*s.degree=1", n, s->with[i]);
        status = status ? status : add_edit(&s->pool, out, WEFT_CLI_SET, "tried:", degree, err);
    }
    return status ? status : add_fixed(s, true, &s->pool, out, err);
}

static weft_status read_tables(tune_space *s, weft_error *err)
{
    weft_cli_edit edits[TUNE_MOST_EDITS];
    weft_cli_options options;
    weft_session session = {0};
    weft_status status = begin_edits(s, edits, &options, err);
    status = status ? status : weft_session_init(&session, &options, 0, NULL, true, err);
    for (int i = 0; !status && i < session.plugins->n; i++) {
        const weft_loaded *l = &session.plugins->list[i];
        status = add_table(s, l->module.plugin->name, l->module.plugin->params, l->params, err);
    }
    const weft_params *train = NULL;
    const weft_param *table = weft_core_params("train");
    status = status ? status : weft_settings_section(session.settings, "train", table, &train, err);
    status = status ? status : add_table(s, "train", table, train, err);
    weft_session_release(&session);
    return status;
}

static weft_status list_helpers(tune_space *s, weft_error *err)
{
    weft_session session = {0};
    weft_status status = weft_session_init(&session, s->options, 0, NULL, true, err);
    status = status ? status : add_helpers(s, session.plugins, err);
    weft_session_release(&session);
    return status;
}

weft_status tune_space_init(tune_space *s, const weft_cli_options *options,
                            const weft_option_values *fixed, weft_error *err)
{
    *s = (tune_space){.options = options,
                      .fixed = fixed,
                      .ranks = options->ranks > 0 ? options->ranks : 1,
                      .pp = -1,
                      .fixed_ranks = 1};
    if (options->n_edits + fixed->n + TUNE_OWN_EDITS > TUNE_MOST_EDITS - TUNE_MOST_KEYS)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "there are more than %d -o and --fix",
                         TUNE_MOST_EDITS - TUNE_MOST_KEYS - TUNE_OWN_EDITS);
    weft_status status = list_helpers(s, err);
    status = status ? status : read_tables(s, err);
    if (!status && s->n_keys == 0)
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "there is nothing to tune: no listed plugin has a key that may be, or "
                           "all are fixed");
    return status;
}

void tune_space_release(tune_space *s)
{
    weft_pool_release(&s->pool);
}

/* ---- choices ---- */

static int64_t ranks_of(const tune_space *s, const tune_choice *c)
{
    int64_t product = s->fixed_ranks;
    for (int i = 0; i < s->n_keys; i++)
        if (s->keys[i].kind == TUNE_RANKS)
            product *= strtoll(s->keys[i].values[c->at[i]], NULL, 10);
    return product;
}

bool tune_choice_fits(const tune_space *s, const tune_choice *c)
{
    const int64_t product = ranks_of(s, c);
    for (int i = 0; i < s->n_keys; i++)
        if (s->keys[i].refused[c->at[i]])
            return false;
    return product <= s->ranks && s->ranks % product == 0;
}

/* The ranks that other degrees leave are fsdp's. */
bool tune_takes_rest(const tune_space *s, const char *section)
{
    return strcmp(section, "fsdp") == 0 && !is_fixed(s->fixed, section, "degree");
}

int64_t tune_number(const tune_space *s, const tune_choice *c, const char *section, const char *key)
{
    for (int i = 0; i < s->n_keys; i++)
        if (strcmp(s->keys[i].section, section) == 0 && strcmp(s->keys[i].key, key) == 0) {
            const int64_t n = strtoll(s->keys[i].values[c->at[i]], NULL, 10);
            return n > 0 ? n : 1;
        }
    const size_t n = strlen(section), m = strlen(key);
    for (int i = 0; i < s->fixed->n; i++) {
        const char *text = s->fixed->list[i].text;
        if (strncmp(text, section, n) == 0 && text[n] == '.' &&
            strncmp(text + n + 1, key, m) == 0 && text[n + 1 + m] == '=') {
            const int64_t number = strtoll(text + n + 2 + m, NULL, 10);
            return number > 0 ? number : 1;
        }
    }
    return 1;
}

/* Parameters are stored in shards over whatever cuts tokens, too: that neither tp nor pp do. */
static bool shards(const tune_space *s, const tune_choice *c)
{
    return tune_number(s, c, "tp", "degree") * tune_number(s, c, "pp", "degree") < s->ranks;
}

/* A plugin whose only degree is 1 does nothing, and what else it may be told has no meaning. */
static bool is_idle(const tune_space *s, const tune_choice *c, const char *section)
{
    bool degrees = tune_takes_rest(s, section), alone = !degrees || !shards(s, c);
    for (int i = 0; i < s->n_keys; i++)
        if (strcmp(s->keys[i].section, section) == 0 && s->keys[i].kind == TUNE_RANKS) {
            degrees = true;
            alone = alone && strcmp(s->keys[i].values[c->at[i]], "1") == 0;
        }
    if (degrees)
        return alone;
    for (int i = 0; i < s->n_keys; i++)
        if (strcmp(s->keys[i].section, section) == 0 && strcmp(s->keys[i].key, "mode") == 0)
            return strcmp(s->keys[i].values[c->at[i]], "none") == 0;
    return false;
}

typedef struct choice_look {
    const tune_space *space;
    const tune_choice *choice;
    const tune_key *key;
} choice_look;

static const char *chosen_value(const void *look_, const weft_param *other)
{
    const choice_look *look = look_;
    const tune_key *k = look->space->keys;
    for (int i = 0; i < look->space->n_keys; i++)
        if (k[i].param == other)
            return k[i].values[look->choice->at[i]];
    return look->key->texts[other - look->key->table];
}

bool tune_key_counts(const tune_space *s, const tune_choice *c, int key)
{
    const tune_key *k = &s->keys[key];
    const choice_look look = {s, c, k};
    if (k->texts && !weft_param_counts(k->table, k->param, chosen_value, &look))
        return false;
    return k->kind == TUNE_RANKS || strcmp(k->key, "mode") == 0 || !is_idle(s, c, k->section);
}

/* Is a plugin listed for the search, with this choice? Not if it has nothing to do, unless one of
 * its keys is fixed. */
static bool is_helper(const tune_space *s, const tune_choice *c, const char *section)
{
    bool fixed = false;
    for (int i = 0; i < s->fixed->n; i++)
        fixed = fixed || is_of(s->fixed->list[i].text, section);
    return helps(s, section) && !is_off(s, section) && (fixed || !is_idle(s, c, section));
}

static bool is_set(const tune_space *s, const tune_choice *c, int i)
{
    const tune_key *k = &s->keys[i];
    return tune_key_counts(s, c, i) && (!helps(s, k->section) || is_helper(s, c, k->section)) &&
           c->at[i] != k->base;
}

int tune_choice_changes(const tune_space *s, const tune_choice *c)
{
    int n = 0;
    for (int i = 0; i < s->n_keys; i++)
        n += is_set(s, c, i);
    for (int i = 0; i < s->n_with; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(s->with[i], "@"), s->with[i]);
        n += is_helper(s, c, name);
    }
    return n;
}

/* The name in "tp@before:adamw"; NULL: no memory. */
static char *helper_name(weft_pool *pool, const char *with)
{
    return weft_pool_format(pool, "%.*s", (int)strcspn(with, "@"), with);
}

static const char *blank(const weft_text *text, size_t from)
{
    return text->size > from ? " " : "";
}

void tune_choice_print(const tune_space *s, const tune_choice *c, weft_text *text)
{
    weft_pool pool = {0};
    const size_t from = text->size;
    for (int i = 0; i < s->n_with; i++) {
        const char *name = helper_name(&pool, s->with[i]);
        if (name && is_helper(s, c, name))
            weft_text_print(text, "%s+%s", blank(text, from), name);
    }
    weft_pool_release(&pool);
    for (int i = 0; i < s->fixed->n; i++)
        if (fixed_text(s, i))
            weft_text_print(text, "%s%s", blank(text, from), fixed_text(s, i));
    for (int i = 0; i < s->n_keys; i++)
        if (is_set(s, c, i))
            weft_text_print(text, "%s%s.%s=%s", blank(text, from), s->keys[i].section,
                            s->keys[i].key, s->keys[i].values[c->at[i]]);
    if (text->size == from)
        weft_text_add(text, "as the INI has it");
}

weft_status tune_choice_edits(const tune_space *s, const tune_choice *c, int64_t depth,
                              weft_pool *pool, weft_cli_options *out, weft_error *err)
{
    weft_cli_edit *edits = weft_pool_alloc(pool, TUNE_MOST_EDITS * sizeof *edits);
    if (!edits)
        return weft_fail_memory(err);
    *out = *s->options;
    out->silent = true;
    out->edits = edits;
    for (int i = 0; i < s->options->n_edits; i++)
        edits[i] = s->options->edits[i];
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->n_with && !status; i++) {
        const char *name = helper_name(pool, s->with[i]);
        if (name && is_helper(s, c, name))
            status = add_edit(pool, out, WEFT_CLI_WITH, "listed by tune:", s->with[i], err);
    }
    status = status ? status : add_fixed(s, false, pool, out, err);
    for (int i = 0; i < s->n_keys && !status; i++) {
        const tune_key *k = &s->keys[i];
        if (!is_set(s, c, i))
            continue;
        char *set = weft_pool_format(pool, "%s.%s=%s", k->section, k->key, k->values[c->at[i]]);
        status = add_edit(pool, out, WEFT_CLI_SET, "tried:", set, err);
    }
    if (depth > 0 && !status) {
        char *set =
            weft_pool_format(pool, "%s.%s=%lld", s->depth_section, s->depth_key, (long long)depth);
        status = add_edit(pool, out, WEFT_CLI_SET, "tried:", set, err);
    }
    return status;
}

weft_status tune_print_ini(const tune_space *s, const tune_choice *choice, int threads,
                           weft_text *text, weft_error *err)
{
    weft_pool pool = {0};
    weft_session session = {0};
    weft_cli_options options;
    weft_status status = tune_choice_edits(s, choice, 0, &pool, &options, err);
    const char *set = weft_pool_format(&pool, "weft.threads=%d", threads);
    if (!status && !set)
        status = weft_fail_memory(err);
    if (!status && threads > 0)
        options.edits[options.n_edits++] = (weft_cli_edit){WEFT_CLI_SET, set, NULL};
    options.gpu = NULL; /* the run's own device */
    options.silent = true;
    options.ranks = 1; /* ranks are no matter of an INI, and neither is who carries them here */
    if (!status)
        status = weft_cli_settings(&options, &session.settings, err);
    session.log = weft_cli_log_init(&session.sink, WEFT_LOG_ERROR);
    if (!status)
        status = weft_plugins_load(session.settings, &session.log, &session.plugins, err);
    if (!status) {
        weft_settings_drop_idle(session.settings);
        weft_settings_print(session.settings, false, true, text);
    }
    weft_session_release(&session);
    weft_pool_release(&pool);
    return status;
}
