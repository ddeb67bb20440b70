/* SPDX-License-Identifier: Apache-2.0 */
/* Differences as units that can be taken over one by one. */
#include "bisect.h"

#include "study/differ.h"

#include <string.h>

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static bool is_plugin(const json_t *o)
{
    return strcmp(text_of(o, "kind"), "plugin") == 0;
}

/* [weft] says how a run is looked at; lists are plugins' business. */
weft_status bisect_find_differences(bisection *b, weft_error *err)
{
    json_t *all = json_array(), *o;
    size_t i;
    b->list = json_array();
    if (!all || !b->list) {
        json_decref(all);
        return weft_fail_memory(err);
    }
    weft_differ_settings(b->a, b->b, all);
    json_array_foreach(all, i, o)
        if (strncmp(text_of(o, "what"), "[weft] ", 7) != 0)
            json_array_append(b->list, o);
    json_decref(all);
    b->n = (int)json_array_size(b->list);
    return b->n <= BISECT_MOST
               ? WEFT_OK
               : weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "the two have %d differences, more than %d", b->n, BISECT_MOST);
}

void bisect_print_difference(const bisection *b, int i, weft_text *text)
{
    const json_t *o = json_array_get(b->list, (size_t)i);
    const bool gone = json_is_null(json_object_get(o, "b"));
    const char *before = text_of(o, "b");
    if (!is_plugin(o))
        weft_text_print(text, "%s = %s", text_of(o, "what"), *before ? before : "(not set)");
    else if (gone)
        weft_text_print(text, "without %s", text_of(o, "what"));
    else
        weft_text_print(text, "%s %s%s", text_of(o, "what"), *before ? "behind " : "first", before);
}

/* ---- the INI ---- */

static int place_of(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return (int)i;
    return -1;
}

/* Which difference it is that speaks of this plugin; NULL: none that is taken over. */
static const json_t *plugin_difference(const bisection *b, const bool *has, const char *name)
{
    for (int i = 0; i < b->n; i++) {
        const json_t *o = json_array_get(b->list, (size_t)i);
        if (has[i] && is_plugin(o) && strcmp(text_of(o, "what"), name) == 0)
            return o;
    }
    return NULL;
}

/* What stays stands as in the first list; what comes or moves, behind the nearest that stands
 * before it in the second. */
static json_t *list_of(const bisection *b, const bool *has)
{
    const json_t *first = json_object_get(b->a, "plugins"),
                 *second = json_object_get(b->b, "plugins");
    json_t *list = json_array(), *name;
    size_t i;
    json_array_foreach(first, i, name)
        if (!plugin_difference(b, has, json_string_value(name)))
            json_array_append(list, name);
    json_array_foreach(second, i, name) {
        if (!plugin_difference(b, has, json_string_value(name)))
            continue;
        int at = 0;
        for (size_t k = i; k > 0 && at == 0; k--)
            at = place_of(list, json_string_value(json_array_get(second, k - 1))) + 1;
        json_array_insert(list, (size_t)at, name);
    }
    return list;
}

static const char *chosen(const bisection *b, const bool *has, const char *section, const char *key,
                          const char *value)
{
    for (int i = 0; i < b->n; i++) {
        const json_t *o = json_array_get(b->list, (size_t)i);
        const char *what = text_of(o, "what");
        const size_t n = strlen(section);
        if (has[i] && !is_plugin(o) && what[0] == '[' && strncmp(what + 1, section, n) == 0 &&
            what[n + 1] == ']' && strcmp(what + n + 3, key) == 0)
            return text_of(o, "b");
    }
    return value;
}

static void print_section(const bisection *b, const bool *has, const char *name, const json_t *keys,
                          weft_text *text)
{
    const char *key;
    json_t *value;
    weft_text_print(text, "[%s]\n", name);
    json_object_foreach((json_t *)(uintptr_t)keys, key, value) {
        const char *is = chosen(b, has, name, key, json_string_value(value));
        if (*is)
            weft_text_print(text, "%s = %s\n", key, is);
    }
}

weft_status bisect_write_ini(const bisection *b, const bool *has, const char *path, weft_error *err)
{
    const json_t *first = json_object_get(b->a, "settings"),
                 *second = json_object_get(b->b, "settings");
    weft_text text = {0};
    json_t *list = list_of(b, has), *name, *keys;
    const char *section;
    size_t i;
    weft_text_add(&text, "[weft]\nplugins =");
    json_array_foreach(list, i, name)
        weft_text_print(&text, " %s", json_string_value(name));
    weft_text_add(&text, "\n");
    const json_t *weft = json_object_get(first, "weft");
    json_object_foreach((json_t *)(uintptr_t)weft, section, keys)
        if (*json_string_value(keys))
            weft_text_print(&text, "%s = %s\n", section, json_string_value(keys));
    json_object_foreach((json_t *)(uintptr_t)first, section, keys)
        if (strcmp(section, "weft") != 0 &&
            (place_of(json_object_get(b->a, "plugins"), section) < 0 ||
             place_of(list, section) >= 0))
            print_section(b, has, section, keys, &text);
    json_object_foreach((json_t *)(uintptr_t)second, section, keys)
        if (!json_object_get(first, section) && place_of(list, section) >= 0)
            print_section(b, has, section, keys, &text);
    json_decref(list);
    weft_status s = text.out_of_memory ? weft_fail_memory(err)
                                       : weft_write_file(path, text.data, text.size, err);
    weft_text_release(&text);
    return s;
}
