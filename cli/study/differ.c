/* SPDX-License-Identifier: Apache-2.0 */
#include "study/differ.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Takes what it is given; NULL is null. */
static json_t *note(json_t *out, const char *kind, const char *what, json_t *a, json_t *b)
{
    json_t *o = json_pack("{s:s, s:s, s:o, s:o}", "kind", kind, "what", what, "a",
                          a ? a : json_null(), "b", b ? b : json_null());
    json_array_append_new(out, o);
    return o;
}

static json_t *keep(const json_t *x)
{
    return x ? json_incref((json_t *)(uintptr_t)x) : NULL;
}

/* ---- the list of plugins ---- */

static int find(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return (int)i;
    return -1;
}

static const char *name_at(const json_t *list, size_t i)
{
    return json_string_value(json_array_get(list, i));
}

/* Which of b's plugins need not move: a longest subsequence that has a's order. stays[] of b. */
static void find_staying(const json_t *a, const json_t *b, bool *stays)
{
    enum { MOST = 256 };
    const size_t n = json_array_size(b) < MOST ? json_array_size(b) : MOST;
    int length[MOST], before[MOST], best = -1;
    for (size_t i = 0; i < n; i++) {
        const int place = find(a, name_at(b, i));
        length[i] = place >= 0;
        before[i] = -1;
        for (size_t k = 0; place >= 0 && k < i; k++) {
            const int earlier = find(a, name_at(b, k));
            if (earlier >= 0 && earlier < place && length[k] + 1 > length[i]) {
                length[i] = length[k] + 1;
                before[i] = (int)k;
            }
        }
        if (length[i] && (best < 0 || length[i] > length[best]))
            best = (int)i;
    }
    for (; best >= 0; best = before[best])
        stays[best] = true;
}

static json_t *before_of(const json_t *list, int place)
{
    return place > 0 ? json_string(name_at(list, (size_t)place - 1)) : json_string("");
}

static void differ_plugins(const json_t *a, const json_t *b, json_t *out)
{
    const size_t n = json_array_size(b);
    bool *stays = weft_alloc_zero(n + 1, sizeof *stays);
    for (size_t i = 0; i < json_array_size(a); i++)
        if (find(b, name_at(a, i)) < 0)
            note(out, "plugin", name_at(a, i), before_of(a, (int)i), NULL);
    if (stays)
        find_staying(a, b, stays);
    for (size_t i = 0; stays && i < n; i++) {
        const int there = find(a, name_at(b, i));
        if (stays[i])
            continue;
        json_t *o = note(out, "plugin", name_at(b, i), there < 0 ? NULL : before_of(a, there),
                         before_of(b, (int)i));
        if (there >= 0)
            json_object_set_new(o, "moved", json_true());
    }
    weft_free(stays);
}

/* ---- settings ---- */

/* A checkpoint has values as they were written: 1e-3, 10k, on. */
static double number_of(const char *text)
{
    static const char *const said[] = {"no", "yes", "false", "true", "off", "on"};
    double x;
    if (text && weft_parse_number(text, &x))
        return x;
    for (int i = 0; text && i < 6; i++)
        if (strcmp(text, said[i]) == 0)
            return i % 2;
    return NAN;
}

static bool same_value(const json_t *a, const json_t *b)
{
    return json_equal(a, b) || number_of(json_string_value(a)) == number_of(json_string_value(b));
}

/* A word of the model is the number that it stands for, where the other has that: a checkpoint has.
 */
static bool is_in_force(const json_t *plan, const char *section, const char *key,
                        const json_t *other)
{
    const json_t *value =
        json_object_get(json_object_get(json_object_get(plan, "in_force"), section), key);
    return value && same_value(value, other);
}

/* Of a plugin that only one lists nothing is compared: that it is listed is the difference. What
 * the command adds by itself is nobody's plugin. */
void weft_differ_settings(const json_t *a, const json_t *b, json_t *out)
{
    const json_t *x = json_object_get(a, "settings"), *y = json_object_get(b, "settings");
    const char *section, *key;
    json_t *keys, *value;
    differ_plugins(json_object_get(a, "plugins"), json_object_get(b, "plugins"), out);
    json_object_foreach((json_t *)(uintptr_t)x, section, keys) {
        const json_t *others = json_object_get(y, section);
        if (!others)
            continue;
        json_object_foreach(keys, key, value) {
            const json_t *other = json_object_get(others, key);
            weft_text what = {0};
            weft_text_print(&what, "[%s] %s", section, key);
            if (other && !same_value(value, other) && !is_in_force(a, section, key, other) &&
                !is_in_force(b, section, key, value))
                note(out, "setting", weft_text_get(&what), keep(value), keep(other));
            weft_text_release(&what);
        }
    }
}

/* ---- what plans come to ---- */

/* Of two objects, members that are not alike in both; group: in front of their names, NULL:
 * nothing. */
static void differ_members(const char *kind, const char *group, const json_t *x, const json_t *y,
                           json_t *out)
{
    const char *key;
    json_t *value;
    for (int turn = 0; turn < 2; turn++)
        json_object_foreach((json_t *)(uintptr_t)(turn ? y : x), key, value) {
            const json_t *other = json_object_get(turn ? x : y, key);
            if (turn ? other != NULL : json_equal(value, other))
                continue;
            weft_text what = {0};
            weft_text_print(&what, "%s%s%s", group ? group : "", group ? ": " : "", key);
            note(out, kind, weft_text_get(&what), turn ? NULL : keep(value),
                 turn ? keep(value) : keep(other));
            weft_text_release(&what);
        }
}

static void differ_plans(const json_t *a, const json_t *b, json_t *out)
{
    static const char *const numbers[] = {"ranks",         "parameters", "trained",     "tokens",
                                          "micro_batches", "flops",      "model_flops", "sent"};
    static const char *const groups[] = {"products", "memory", "collectives", "passes"};
    const json_t *x = json_object_get(a, "program"), *y = json_object_get(b, "program");
    if (!x || !y) /* a checkpoint has settings alone */
        return;
    const size_t before = json_array_size(out);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!json_equal(json_object_get(a, numbers[i]), json_object_get(b, numbers[i])))
            note(out, "plan", numbers[i], keep(json_object_get(a, numbers[i])),
                 keep(json_object_get(b, numbers[i])));
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        differ_members("plan", groups[i], json_object_get(a, groups[i]),
                       json_object_get(b, groups[i]), out);
    if (json_array_size(out) == before && !json_equal(x, y))
        note(out, "plan", "program", keep(x), keep(y));
}

/* ---- values ---- */

/* Measured, or a matter of which step it is. */
static bool is_measured(const char *key)
{
    static const char *const keys[] = {"step",          "time",         "parts",  "tokens_per_s",
                                       "samples_per_s", "step_s",       "data_s", "slowest_rank",
                                       "slowest_s",     "median_s",     "mfu",    "peak_bytes",
                                       "base_bytes",    "planned_bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* The line of this step that is of the same sort; *at goes on from where it was. */
static const json_t *line_like(const json_t *lines, const json_t *like, size_t *at)
{
    const json_int_t step = json_integer_value(json_object_get(like, "step"));
    const bool evaluates = json_object_get(like, "eval_loss") != NULL;
    for (size_t i = *at; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        const json_int_t now = json_integer_value(json_object_get(line, "step"));
        if (now < step)
            *at = i;
        if (now > step)
            return NULL;
        if (now == step && (json_object_get(line, "eval_loss") != NULL) == evaluates)
            return line;
    }
    return NULL;
}

static bool is_noted(const json_t *out, const char *key)
{
    for (size_t i = 0; i < json_array_size(out); i++) {
        const json_t *o = json_array_get(out, i);
        if (strcmp(json_string_value(json_object_get(o, "kind")), "value") == 0 &&
            strcmp(json_string_value(json_object_get(o, "what")), key) == 0)
            return true;
    }
    return false;
}

static void differ_lines(const json_t *x, const json_t *y, json_t *out)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)x, key, value) {
        const json_t *other = json_object_get(y, key);
        if (!other || is_measured(key) || json_equal(value, other) || is_noted(out, key))
            continue;
        if (json_is_number(value) && json_is_number(other) &&
            json_number_value(value) == json_number_value(other))
            continue;
        json_object_set(note(out, "value", key, keep(value), keep(other)), "step",
                        json_object_get(x, "step"));
    }
}

static const char *last_hash(const json_t *lines, const char *key)
{
    const json_t *last = json_array_get(lines, json_array_size(lines) - 1);
    if (json_object_get(last, "eval_loss") && json_array_size(lines) > 1)
        last = json_array_get(lines, json_array_size(lines) - 2);
    return json_string_value(json_object_get(last, key));
}

void weft_differ_values(const json_t *a, const json_t *b, json_t *out, bool *same_bits)
{
    size_t i, at = 0;
    const json_t *line;
    json_array_foreach(a, i, line) {
        const json_t *other = line_like(b, line, &at);
        if (other)
            differ_lines(line, other, out);
    }
    const char *x = last_hash(a, "hash"), *y = last_hash(b, "hash");
    *same_bits = x && y && strcmp(x, y) == 0;
}

const json_t *weft_differ_parting(const json_t *values)
{
    static const char *const keys[] = {"loss", "grad_norm", "hash", "eval_loss"};
    const json_t *first = NULL, *o;
    size_t i;
    json_array_foreach(values, i, o)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (strcmp(json_string_value(json_object_get(o, "what")), keys[k]) == 0 &&
                (!first || json_integer_value(json_object_get(o, "step")) <
                               json_integer_value(json_object_get(first, "step"))))
                first = o;
    return first;
}

static void differ_steps(const weft_subject *a, const weft_subject *b, json_t *out)
{
    int64_t x = 0, y = 0;
    weft_lines_last(a->lines, "loss", &x);
    weft_lines_last(b->lines, "loss", &y);
    if (x != y)
        note(out, "steps", "steps made", json_integer(x), json_integer(y));
}

/* ---- what was run ---- */

static json_t *plugin_of(const json_t *about, const char *name)
{
    size_t i;
    json_t *p;
    json_array_foreach(json_object_get(about, "plugins"), i, p)
        if (strcmp(json_string_value(json_object_get(p, "name")), name) == 0)
            return p;
    return NULL;
}

static void differ_code(const json_t *a, const json_t *b, json_t *out)
{
    size_t i;
    const json_t *p;
    static const char *const keys[] = {"version", "commit"};
    for (size_t k = 0; k < 2; k++)
        if (!json_equal(json_object_get(a, keys[k]), json_object_get(b, keys[k])))
            note(out, "code", keys[k], keep(json_object_get(a, keys[k])),
                 keep(json_object_get(b, keys[k])));
    if (json_object_get(a, "data") && json_object_get(b, "data") &&
        !json_equal(json_object_get(a, "data"), json_object_get(b, "data")))
        note(out, "data", "data", keep(json_object_get(a, "data")),
             keep(json_object_get(b, "data")));
    json_array_foreach(json_object_get(a, "plugins"), i, p) {
        const char *name = json_string_value(json_object_get(p, "name"));
        const json_t *other = name ? plugin_of(b, name) : NULL;
        if (other && !json_equal(json_object_get(p, "sha256"), json_object_get(other, "sha256")))
            note(out, "code", name, keep(json_object_get(p, "sha256")),
                 keep(json_object_get(other, "sha256")));
    }
}

weft_status weft_differ(const weft_subject *a, const weft_subject *b, json_t **out, weft_error *err)
{
    bool same_bits;
    *out = json_array();
    if (!*out)
        return weft_fail_memory(err);
    if (a->plan && b->plan) {
        weft_differ_settings(a->plan, b->plan, *out);
        differ_plans(a->plan, b->plan, *out);
        const json_t *x = json_object_get(a->plan, "checkpoint_step"),
                     *y = json_object_get(b->plan, "checkpoint_step");
        if (x && y && !json_equal(x, y))
            note(*out, "steps", "steps made", keep(x), keep(y));
    }
    if (a->about && b->about)
        differ_code(a->about, b->about, *out);
    if (a->lines && b->lines) {
        differ_steps(a, b, *out);
        weft_differ_values(a->lines, b->lines, *out, &same_bits);
    }
    if (a->tensors && b->tensors)
        differ_members("tensor", NULL, a->tensors, b->tensors, *out);
    return WEFT_OK;
}

/* ---- as text ---- */

static void print_json(const json_t *x, weft_text *text)
{
    if (json_is_real(x)) {
        weft_text_add_real(text, json_real_value(x));
        return;
    }
    if (json_is_string(x)) {
        weft_text_add(text, *json_string_value(x) ? json_string_value(x) : "(not set)");
        return;
    }
    char *words = x ? json_dumps(x, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
    weft_text_add(text, words && !json_is_null(x) ? words : "-");
    free(words); /* jansson's */
}

static void print_place(const json_t *before, weft_text *text)
{
    const char *name = json_string_value(before);
    weft_text_print(text, "%s%s", name && *name ? "behind " : "first", name ? name : "");
}

static void print_plugin(const json_t *o, weft_text *text)
{
    const json_t *a = json_object_get(o, "a"), *b = json_object_get(o, "b");
    weft_text_print(text, "  %-9s ", json_string_value(json_object_get(o, "what")));
    if (json_is_true(json_object_get(o, "moved"))) {
        weft_text_add(text, "moved, from ");
        print_place(a, text);
        weft_text_add(text, " to ");
        print_place(b, text);
    } else {
        weft_text_add(text,
                      json_is_null(a) ? "only the second lists it, " : "only the first lists it, ");
        print_place(json_is_null(a) ? b : a, text);
    }
    weft_text_add(text, "\n");
}

static void print_other(const json_t *o, weft_text *text)
{
    const json_t *step = json_object_get(o, "step");
    weft_text_print(text, "  %s", json_string_value(json_object_get(o, "what")));
    if (step)
        weft_text_print(text, ", from step %" PRId64 " on", (int64_t)json_integer_value(step));
    weft_text_add(text, ": ");
    const bool code = strcmp(json_string_value(json_object_get(o, "kind")), "code") == 0;
    for (int k = 0; k < 2; k++) { /* of sums that tell bytes apart the beginning will do */
        const json_t *x = json_object_get(o, k ? "b" : "a");
        weft_text_add(text, k ? " | " : "");
        if (code && json_string_length(x) == 64)
            weft_text_print(text, "%.12s...", json_string_value(x));
        else
            print_json(x, text);
    }
    weft_text_add(text, "\n");
}

void weft_differ_print(const json_t *differences, weft_text *text)
{
    static const char *const kinds[][2] = {{"plugin", "plugins"},      {"setting", "settings"},
                                           {"plan", "plan of a rank"}, {"code", "what has run"},
                                           {"data", "data"},           {"steps", "steps"},
                                           {"value", "values"},        {"tensor", "tensors"}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bool first = true;
        size_t i;
        const json_t *o;
        json_array_foreach(differences, i, o) {
            if (strcmp(json_string_value(json_object_get(o, "kind")), kinds[k][0]) != 0)
                continue;
            if (first)
                weft_text_print(text, "%s\n", kinds[k][1]);
            first = false;
            (k == 0 ? print_plugin : print_other)(o, text);
        }
    }
}
