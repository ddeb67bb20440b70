/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, read and written; what is wrong with it is said with its file. */
#include "hf.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/files.h>

void hf_one_line(char *text)
{
    for (; *text; text++)
        *text = iscntrl((unsigned char)*text) ? '?' : *text;
}

static weft_status refuse(weft_error *err, const char *of, const char *format, va_list args)
{
    char *words = weft_vformat(format, args);
    if (!words)
        return weft_fail_memory(err);
    hf_one_line(words);
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){of, 0}, "%s", words);
    weft_free(words);
    return s;
}

weft_status hf_refuse(weft_error *err, const char *of, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_status s = refuse(err, of, format, args);
    va_end(args);
    return s;
}

void hf_say_more(weft_error *err, const char *of, int n, const char *what)
{
    if (n > HF_MOST_NAMED)
        hf_refuse(err, of, "further %s: %d%s", what, n - HF_MOST_NAMED,
                  n > HF_MOST_COUNTED ? " at least" : "");
}

void hf_complain(hf_reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_status s = refuse(r->err, r->path, format, args);
    va_end(args);
    r->status = r->status ? r->status : s;
}

const char *hf_json_type(const json_t *x)
{
    static const char *const names[] = {"an object", "an array", "a string", "a number",
                                        "a number",  "true",     "false",    "null"};
    return names[json_typeof(x)];
}

weft_status hf_read_json(const char *path, json_t **out, weft_error *err)
{
    char *data = NULL;
    size_t size = 0;
    json_error_t where;
    weft_status s = weft_read_file(path, &data, &size, err);
    *out = s ? NULL : json_loadb(data, size, JSON_REJECT_DUPLICATES, &where);
    weft_free(data);
    if (!s && !*out)
        s = weft_fail(err, WEFT_ERR_INPUT, ((weft_where){path, where.line > 0 ? where.line : 0}),
                      "is not JSON: %s", where.text);
    else if (!s && !json_is_object(*out))
        s = hf_refuse(err, path, "holds %s; expected an object", hf_json_type(*out));
    return s;
}

json_t *hf_get(const hf_reader *r, const char *key)
{
    json_t *x = json_object_get(r->object, key);
    return json_is_null(x) ? NULL : x;
}

json_t *hf_json_of(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    return value ? value : json_string(text);
}

double hf_operand(const json_t *object, const char *word, size_t n)
{
    double x;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)n, word);
    const json_t *of = json_object_get(object, text);
    return weft_parse_number(text, &x) ? x : json_is_number(of) ? json_number_value(of) : NAN;
}

/* What json_dumps has made, with each real number as short as it can be: jansson writes the 17
 * digits that any needs, and 1e-5 is 1.0000000000000001e-5 then. */
static void add_shortest(weft_text *out, const char *json)
{
    bool quoted = false;
    for (size_t n; *json; json += n) {
        const size_t whole = quoted ? 0 : strspn(json, "-0123456789");
        n = *json == '\\' ? 2 : whole ? strspn(json, "-+.eE0123456789") : 1;
        quoted = quoted != (*json == '"');
        if (n > whole && whole) {
            char number[32];
            hf_number(number, strtod(json, NULL));
            weft_text_print(out, "%s%s", number, strpbrk(number, ".e") ? "" : ".0");
        } else {
            weft_text_add_bytes(out, json, n);
        }
    }
}

weft_status hf_write_json(const json_t *root, size_t flags, const char *end, const char *folder,
                          const char *name, weft_error *err)
{
    char path[HF_PATH], *text = root ? json_dumps(root, JSON_INDENT(2) | flags) : NULL;
    weft_text out = {0};
    if (text) {
        add_shortest(&out, text);
        weft_text_add(&out, end);
    }
    weft_status s = text && !out.out_of_memory ? weft_write_file(hf_path(path, folder, name),
                                                                 weft_text_get(&out), out.size, err)
                                               : weft_fail_memory(err);
    weft_text_release(&out);
    free(text);
    return s;
}
