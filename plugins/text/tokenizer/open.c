/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is a tokenizer, of whichever kind. */
#include <string.h>
#include <sys/stat.h>

#include "tiktoken.h"

char *tokenizer_path(const char *given)
{
    struct stat st;
    return !stat(given, &st) && S_ISDIR(st.st_mode) ? weft_format("%s/tokenizer.json", given)
                                                    : weft_strdup(given);
}

static bool is_json(const char *data, size_t n)
{
    size_t at = n >= 3 && !memcmp(data, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (at < n && data[at] && strchr(" \t\r\n", data[at]))
        at++;
    return at < n && data[at] == '{';
}

static weft_status open_data(const tokenizer_choice *c, const char *path, const char *data,
                             size_t n, tokenizer **out, weft_error *err)
{
    weft_where at = {path, 0};
    bool json = is_json(data, n);
    if (json && (c->pattern || (c->special && c->special[0])))
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "a tokenizer.json has its own pattern and special tokens; leave out %s and %s",
            c->pattern_key, c->special_key);
    if (json)
        return tokenizer_parse(path, data, n, out, err);
    if (!tokenizer_is_rank_file(data, n))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "neither a tokenizer.json nor a rank file (a token in base64, a blank and "
                         "its rank a line)");
    if (!c->pattern)
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "a rank file does not say how words are cut: give %s (%s, or an expression)",
            c->pattern_key, tokenizer_pattern_names());
    return tokenizer_load_ranks(path, c->pattern, c->special, out, err);
}

weft_status tokenizer_open(const tokenizer_choice *c, const char *path, tokenizer **out,
                           weft_error *err)
{
    char *data;
    size_t n;
    *out = NULL;
    weft_status status = weft_read_file(path, &data, &n, err);
    if (status)
        return status;
    status = open_data(c, path, data, n, out, err);
    weft_free(data);
    return status;
}
