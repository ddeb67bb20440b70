/* SPDX-License-Identifier: Apache-2.0 */
/* May this run go on from that checkpoint? The model must be the same, and the data, unless the
 * user says otherwise; all else may change. */
#include "ckpt.h"

#include <inttypes.h>
#include <string.h>

static const char *show(const char *value)
{
    return !value ? "(no such setting)" : *value ? value : "(not set)";
}

static ckpt_section section_of(const ckpt_manifest *m, const char *name)
{
    return (ckpt_section){.keys = json_object_get(json_object_get(m->root, "settings"), name)};
}

/* Visits every setting that differs; a section that only one of the two has counts as a whole set
 * of plugins that differs, not here. */
static void each_change(const ckpt_manifest *m, const weft_state_view *state,
                        void (*visit)(void *ctx, const weft_setting *now, const char *then,
                                      ckpt_answer answer),
                        void *ctx)
{
    for (int i = 0; i < state->n_settings; i++) {
        const weft_setting *x = &state->settings[i];
        const ckpt_section then = section_of(m, x->section), now = {NULL, state, x->section};
        const ckpt_answer answer =
            then.keys ? ckpt_same_setting(x->table, x->key, &then, &now) : CKPT_SAME;
        if (answer)
            visit(ctx, x, ckpt_section_text(&then, x->key), answer);
    }
}

typedef struct judge {
    const ckpt_manifest *m;
    const weft_state_view *state;
    weft_text *changes;
    weft_error *err;
    weft_status found;
} judge;

/* Of the model: every key that differs is an error of its own; what is open shapes will tell. */
static void visit_model(void *ctx, const weft_setting *now, const char *then, ckpt_answer answer)
{
    judge *j = ctx;
    if (strcmp(now->section, j->state->model) == 0 && answer == CKPT_OTHER)
        j->found = weft_fail(j->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                             "%s is of another model: [%s] %s was %s, now it is %s", j->m->path,
                             now->section, now->key, show(then), show(now->value));
}

static bool is_settled(const weft_state_view *state, const weft_setting *x)
{
    return strcmp(x->section, state->model) == 0 || strcmp(x->section, "ckpt") == 0 ||
           (strcmp(x->section, "train") == 0 &&
            (strcmp(x->key, "seed") == 0 || strcmp(x->key, "seq_len") == 0));
}

static void visit_change(void *ctx, const weft_setting *now, const char *then, ckpt_answer answer)
{
    (void)answer;
    judge *j = ctx;
    if (!is_settled(j->state, now))
        weft_text_print(j->changes, "%s[%s] %s %s -> %s", j->changes->size ? ", " : "",
                        now->section, now->key, show(then), show(now->value));
}

static weft_status check_model(judge *j)
{
    if (strcmp(j->m->model, j->state->model) != 0)
        return weft_fail(j->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s is of another model: plugin %s, not %s", j->m->path, j->m->model,
                         j->state->model);
    each_change(j->m, j->state, visit_model, j);
    return j->found;
}

static void refuse(judge *j, const char *what, const char *then, const char *now)
{
    const char *advice = "[ckpt] data = restart goes on with the weights and the step, and begins "
                         "with the first sample of the new data";
    j->found =
        weft_fail(j->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                  "%s was made with %s %s, now it is %s: samples would be repeated or left out; %s",
                  j->m->path, what, show(then), show(now), advice);
}

static void check_id(judge *j, const char *what, uint64_t then, uint64_t now)
{
    char a[24], b[24];
    snprintf(a, sizeof a, "%016" PRIx64, then);
    snprintf(b, sizeof b, "%016" PRIx64, now);
    if (then && now && then != now)
        refuse(j, what, a, b);
}

static weft_status check_data(judge *j)
{
    static const char *const keys[] = {"seed", "seq_len"};
    const ckpt_section then = section_of(j->m, "train"), now = {NULL, j->state, "train"};
    for (int i = 0; i < 2; i++) {
        const char *a = ckpt_section_text(&then, keys[i]), *b = ckpt_section_text(&now, keys[i]);
        if (a && b && ckpt_same_setting(NULL, keys[i], &then, &now))
            refuse(j, i ? "[train] seq_len" : "[train] seed", a, b);
    }
    if (j->m->tokenizer_id != j->state->tokenizer_id)
        check_id(j, "a tokenizer of fingerprint", j->m->tokenizer_id, j->state->tokenizer_id);
    else
        check_id(j, "data of fingerprint", j->m->data_id, j->state->data_id);
    return j->found;
}

/* The file of the plugin of this name when the checkpoint was made; NULL: it is not told. */
static const char *bytes_then(const ckpt_manifest *m, const char *name)
{
    const json_t *list = json_object_get(m->root, "plugins");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *plugin = json_array_get(list, i);
        const char *then = json_string_value(json_object_get(plugin, "name"));
        if (then && strcmp(then, name) == 0)
            return json_string_value(json_object_get(plugin, "sha256"));
    }
    return NULL;
}

/* Versions may stay what they were while bytes do not. */
static weft_status compare_bytes(judge *j)
{
    weft_status s = WEFT_OK;
    for (const char *const *p = j->state->plugins; *p; p += 3) {
        const char *then = bytes_then(j->m, p[0]);
        if (!then || !*then || !*p[2] || strcmp(then, p[2]) == 0)
            continue;
        weft_text_print(j->changes, "%sfile of plugin %s %.12s -> %.12s",
                        j->changes->size ? ", " : "", p[0], then, p[2]);
        if (j->state->same_plugins)
            s = weft_fail(
                j->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                "%s was made with another file of plugin '%s': its SHA-256 was %.12s..., "
                "now it is %.12s...; put that file back, or set [weft] plugin_change = log",
                j->m->path, p[0], then, p[2]);
    }
    return s;
}

static void compare_plugins(judge *j)
{
    const json_t *then = json_object_get(j->m->root, "plugins");
    size_t n = 0;
    bool same = true;
    for (; j->state->plugins[3 * n]; n++) {
        const char *name = json_string_value(json_object_get(json_array_get(then, n), "name"));
        same = same && name && strcmp(name, j->state->plugins[3 * n]) == 0;
    }
    if (same && json_array_size(then) == n)
        return;
    weft_text_print(j->changes, "%splugins", j->changes->size ? ", " : "");
    for (size_t i = 0; i < json_array_size(then); i++)
        weft_text_print(j->changes, " %s",
                        show(json_string_value(json_object_get(json_array_get(then, i), "name"))));
    weft_text_add(j->changes, " ->");
    for (size_t i = 0; i < n; i++)
        weft_text_print(j->changes, " %s", j->state->plugins[3 * i]);
}

weft_status ckpt_identity_check(const ckpt_manifest *m, const weft_state_view *state, bool restart,
                                bool *other_data, weft_text *changes, weft_error *err)
{
    judge j = {m, state, changes, err, WEFT_OK};
    weft_status s = check_model(&j);
    if (s)
        return s;
    j.err = restart ? NULL : err;
    s = check_data(&j);
    *other_data = s != WEFT_OK;
    if (s && !restart)
        return s;
    each_change(m, state, visit_change, &j);
    compare_plugins(&j);
    j.err = err;
    s = compare_bytes(&j);
    if (s)
        return s;
    return changes->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}
