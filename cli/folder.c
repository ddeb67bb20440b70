/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <weft/files.h>

weft_status weft_folder_read_about(const char *dir, json_t **out, weft_error *err)
{
    char *path = weft_format("%s/run.json", dir), *data = NULL;
    struct stat info;
    size_t size = 0;
    json_error_t why;
    *out = NULL;
    if (!path)
        return weft_fail_memory(err);
    weft_status s = WEFT_OK;
    if (stat(path, &info) != 0)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s is not a run folder: it has no run.json, which weft train writes there",
                      dir);
    s = s ? s : weft_read_file(path, &data, &size, err);
    if (!s && !(*out = json_loadb(data, size, 0, &why)))
        s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, why.line}, "no JSON: %s", why.text);
    else if (!s && json_array_size(json_object_get(*out, "ranks")) == 0)
        s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0}, "it names no ranks");
    weft_free(data);
    weft_free(path);
    return s;
}

const char *weft_lines_rate(const json_t *lines)
{
    const json_t *line = lines;
    for (size_t i = json_array_size(lines); i > 0; i--) {
        line = json_array_get(lines, i - 1);
        if (json_object_get(line, "loss"))
            break;
    }
    return json_object_get(line, "samples_per_s") ? "samples_per_s" : "tokens_per_s";
}

const char *weft_lines_unit(const json_t *lines)
{
    return strcmp(weft_lines_rate(lines), "samples_per_s") == 0 ? "samples" : "tokens";
}

int64_t weft_folder_time(const char *text)
{
    struct tm utc = {0};
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &utc) : NULL;
    if (!rest || (*rest != '.' && *rest != 'Z'))
        return 0;
    int64_t ns = (int64_t)timegm(&utc) * 1000000000;
    for (int64_t unit = 100000000; *rest == '.' || (*rest >= '0' && *rest <= '9'); rest++)
        if (*rest != '.') {
            ns += (*rest - '0') * unit;
            unit /= 10;
        }
    return ns;
}

/* ---- progress.jsonl ---- */

/* A crash leaves its own line, which is no object, where the end would be told. */
static json_t *read_end_of(const char *line, size_t n)
{
    while (n > 0 && line[n - 1] == ' ')
        n--;
    return n == 0         ? json_object()
           : *line == '{' ? json_loadb(line, n, 0, NULL)
                          : json_pack("{s:s, s:s%}", "outcome", "crashed", "why", line,
                                      strcspn(line, "\n") < n ? strcspn(line, "\n") : n);
}

weft_status weft_folder_read_progress(const char *dir, json_t **out, weft_error *err)
{
    char *path = weft_format("%s/progress.jsonl", dir), *data = NULL;
    size_t size = 0;
    *out = NULL;
    weft_status s = path ? WEFT_OK : weft_fail_memory(err);
    if (!s && access(path, F_OK) == 0)
        s = weft_read_file(path, &data, &size, err);
    const char *end = data ? strchr(data, '\n') : NULL;
    if (end) {
        json_t *more = read_end_of(end + 1, strcspn(end + 1, "\n"));
        *out = json_loadb(data, (size_t)(end - data), 0, NULL);
        if (*out && more)
            json_object_update(*out, more);
        json_decref(more);
    }
    weft_free(data);
    weft_free(path);
    return s;
}

/* ---- metrics.jsonl ---- */

static weft_status read_end(const char *path, size_t most, weft_text *text, weft_error *err)
{
    int fd;
    weft_status s = weft_open_file(path, (weft_where){path, 0}, &fd, err);
    if (s)
        return s;
    const off_t size = lseek(fd, 0, SEEK_END);
    const bool cut = most && size > (off_t)most;
    char piece[1 << 14];
    ssize_t n = lseek(fd, cut ? size - (off_t)most : 0, SEEK_SET) < 0 ? -1 : 1;
    while (n > 0 && (n = read(fd, piece, sizeof piece)) > 0)
        weft_text_add_bytes(text, piece, (size_t)n);
    close(fd);
    if (n < 0)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s: cannot read", path);
    if (text->out_of_memory)
        return weft_fail_memory(err);
    char *first = cut ? strchr(text->data, '\n') : NULL;
    if (cut && first)
        memmove(text->data, first + 1, strlen(first + 1) + 1);
    return WEFT_OK;
}

/* A run that has begun anew in the same folder, or gone on from a checkpoint of its own, makes
 * steps again. */
static void drop_later(json_t *lines, json_int_t step, bool evaluates)
{
    for (size_t i = json_array_size(lines); i > 0; i--) {
        const json_t *line = json_array_get(lines, i - 1);
        if (json_integer_value(json_object_get(line, "step")) < step)
            return;
        if (!evaluates || json_object_get(line, "eval_loss"))
            json_array_remove(lines, i - 1);
    }
}

static weft_status take_lines(const char *text, json_t *lines, weft_error *err)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        json_t *line = json_loadb(text, (size_t)(end - text), 0, NULL);
        const json_t *step = json_object_get(line, "step");
        if (json_is_integer(step)) {
            drop_later(lines, json_integer_value(step), json_object_get(line, "eval_loss") != NULL);
            if (json_array_append(lines, line))
                return weft_fail_memory(err);
        }
        json_decref(line);
    }
    return WEFT_OK;
}

weft_status weft_folder_read_metrics(const char *dir, size_t most, json_t **out, weft_error *err)
{
    char *path = weft_format("%s/metrics.jsonl", dir);
    weft_text text = {0};
    *out = json_array();
    if (!path || !*out) {
        weft_free(path);
        return weft_fail_memory(err);
    }
    weft_status s = access(path, F_OK) == 0 ? read_end(path, most, &text, err) : WEFT_OK;
    s = s ? s : take_lines(weft_text_get(&text), *out, err);
    weft_text_release(&text);
    weft_free(path);
    return s;
}
