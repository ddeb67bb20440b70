/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a JSON object, each checked as it is read. */
#include "config.h"

#include <math.h>
#include <string.h>

void hf_complain(hf_reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_status s = weft_vfail(r->err, WEFT_ERR_INPUT, (weft_where){r->path, 0}, format, args);
    va_end(args);
    r->status = r->status ? r->status : s;
}

const char *hf_json_type(const json_t *x)
{
    static const char *const names[] = {"an object", "an array", "a string", "a number",
                                        "a number",  "true",     "false",    "null"};
    return names[json_typeof(x)];
}

json_t *hf_get(const hf_reader *r, const char *key)
{
    json_t *x = json_object_get(r->object, key);
    return json_is_null(x) ? NULL : x;
}

int64_t hf_get_int(hf_reader *r, const char *key, int64_t least, int64_t standard)
{
    const json_t *x = hf_get(r, key);
    if (!x && standard < least)
        hf_complain(r, "'%s' is missing", key);
    if (!x)
        return standard;
    if (!json_is_integer(x)) {
        hf_complain(r, "'%s' is %s; expected a whole number", key, hf_json_type(x));
        return least;
    }
    if (json_integer_value(x) < least || json_integer_value(x) > 1 << 24)
        hf_complain(r, "'%s' is %lld; expected %lld to %d", key, (long long)json_integer_value(x),
                    (long long)least, 1 << 24);
    return json_integer_value(x);
}

double hf_get_real(hf_reader *r, const char *key, double least, double most, double standard)
{
    const json_t *x = hf_get(r, key);
    if (!x && isnan(standard))
        hf_complain(r, "'%s' is missing", key);
    if (!x)
        return standard;
    if (!json_is_number(x)) {
        hf_complain(r, "'%s' is %s; expected a number", key, hf_json_type(x));
        return least;
    }
    double value = json_number_value(x);
    if (!(value >= least && value <= most))
        hf_complain(r, "'%s' is %g; expected %g to %g", key, value, least, most);
    return value;
}

bool hf_get_bool(hf_reader *r, const char *key, bool standard)
{
    const json_t *x = hf_get(r, key);
    if (x && !json_is_boolean(x))
        hf_complain(r, "'%s' is %s; expected true or false", key, hf_json_type(x));
    return x ? json_is_true(x) : standard;
}

int64_t hf_get_id(const hf_reader *r, const char *key)
{
    const json_t *x = hf_get(r, key);
    if (json_is_array(x))
        x = json_array_get(x, 0);
    return json_is_integer(x) ? json_integer_value(x) : -1;
}

void hf_must_be(hf_reader *r, const char *key, double value)
{
    const json_t *x = hf_get(r, key);
    bool same = !x || (json_is_boolean(x) ? json_is_true(x) == (value != 0)
                                          : json_is_number(x) && json_number_value(x) == value);
    if (!same)
        hf_complain(r, "'%s' must be %g; weft's models know nothing else", key, value);
}

void hf_must_be_word(hf_reader *r, const char *key, const char *const *words)
{
    const json_t *x = hf_get(r, key);
    if (!x)
        return;
    for (int i = 0; words[i]; i++)
        if (json_is_string(x) && strcmp(json_string_value(x), words[i]) == 0)
            return;
    hf_complain(r, "'%s' is %s%s%s; weft has %s alone", key, json_is_string(x) ? "'" : "",
                json_is_string(x) ? json_string_value(x) : hf_json_type(x),
                json_is_string(x) ? "'" : "", words[0]);
}
