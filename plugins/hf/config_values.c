/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a JSON object, each checked as it is read. */
#include "config.h"

#include <math.h>
#include <weft/files.h>

weft_status hf_refuse(weft_error *err, const char *of, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_status s = weft_vfail(err, WEFT_ERR_INPUT, (weft_where){of, 0}, format, args);
    va_end(args);
    return s;
}

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

double hf_get_number(hf_reader *r, const char *key, double least, double most, bool whole,
                     double standard)
{
    const json_t *x = hf_get(r, key);
    if (!x && isnan(standard))
        hf_complain(r, "'%s' is missing", key);
    if (!x)
        return isnan(standard) ? least : standard;
    if (!(whole ? json_is_integer(x) : json_is_number(x))) {
        hf_complain(r, "'%s' is %s; expected a %snumber", key, hf_json_type(x),
                    whole ? "whole " : "");
        return least;
    }
    double value = json_number_value(x);
    if (value >= least && value <= most)
        return value;
    hf_complain(r, "'%s' is %.10g; expected %.10g to %.10g", key, value, least, most);
    return least;
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
