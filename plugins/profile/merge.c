/* SPDX-License-Identifier: Apache-2.0 */
/* weft profile DIR: the ranks' records as one trace, and the tables of all ranks. */
#include "profile.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/files.h>
#include <weft/options.h>

typedef struct merged {
    json_t *events; /* of all ranks, times since the earliest epoch */
    int64_t epoch_ns;
    profile_limits limits;
    profile_table ops, blocks;
    int ranks, steps; /* ranks that are here; steps of all ranks together */
    int due;          /* ranks of the run */
} merged;

static weft_status wrong(const char *path, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0},
                     "%s; it is not a record of the plugin profile", what);
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* ---- one rank's file ---- */

static weft_status count_event(merged *m, const json_t *event, const char *path, weft_error *err)
{
    const json_t *args = json_object_get(event, "args");
    const char *kind = json_string_value(json_object_get(event, "cat"));
    const char *name = json_string_value(json_object_get(event, "name"));
    if (!name || !json_is_object(args))
        return wrong(path, "an event has no name or no args", err);
    if (!kind || strcmp(kind, "task") == 0)
        return WEFT_OK;
    if (strcmp(kind, "step") == 0) {
        m->steps++;
        return WEFT_OK;
    }
    char block[32];
    bool sends = strcmp(kind, "collective") == 0 || strcmp(kind, "transfer") == 0;
    double seconds = 1e-6 * number_of(event, "dur"), flops = number_of(args, "flops"),
           bytes = number_of(args, "bytes");
    profile_block_name((int)json_integer_value(json_object_get(args, "block")), block,
                       sizeof block);
    weft_status s = profile_table_add(&m->ops, &m->limits, name, seconds, flops, bytes, sends, err);
    return s ? s
             : profile_table_add(&m->blocks, &m->limits, block, seconds, flops, bytes, sends, err);
}

/* Times of one rank are since its own epoch. */
static weft_status take_events(merged *m, json_t *events, int64_t epoch_ns, const char *path,
                               weft_error *err)
{
    double shift = 1e-3 * (double)(epoch_ns - m->epoch_ns);
    size_t i;
    json_t *event;
    weft_status s = WEFT_OK;
    json_array_foreach(events, i, event) {
        const json_t *ts = json_object_get(event, "ts");
        if (ts && (!json_is_number(ts) ||
                   json_object_set_new(event, "ts", json_real(json_number_value(ts) + shift))))
            return wrong(path, "an event has a time that is not a number", err);
        s = s ? s : count_event(m, event, path, err);
        if (!s && json_array_append(m->events, event))
            s = weft_fail_memory(err);
    }
    return s;
}

static weft_status load(const char *path, json_t **file, int64_t *epoch_ns, weft_error *err)
{
    char *data, *end;
    size_t size;
    json_error_t why;
    weft_status s = weft_read_file(path, &data, &size, err);
    if (s)
        return s;
    *file = json_loadb(data, size, 0, &why);
    weft_free(data);
    if (!*file)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, why.line}, "no JSON: %s",
                         why.text);
    const json_t *other = json_object_get(*file, "otherData");
    const char *epoch = json_string_value(json_object_get(other, "epoch_ns"));
    *epoch_ns = epoch ? strtoll(epoch, &end, 10) : 0;
    if (epoch && !*end && *epoch_ns > 0 && json_is_array(json_object_get(*file, "traceEvents")))
        return WEFT_OK;
    json_decref(*file);
    *file = NULL;
    return wrong(path, "no traceEvents, or no otherData with epoch_ns", err);
}

/* Limits of ranks differ little; the tables are held against their mean. */
static void add_limits(merged *m, const json_t *file)
{
    const json_t *other = json_object_get(file, "otherData");
    double n = ++m->ranks;
    m->limits.flops_per_s += (number_of(other, "flops_per_s") - m->limits.flops_per_s) / n;
    m->limits.bytes_per_s += (number_of(other, "bytes_per_s") - m->limits.bytes_per_s) / n;
    m->limits.sent_per_s += (number_of(other, "sent_per_s") - m->limits.sent_per_s) / n;
    m->due = (int)json_integer_value(json_object_get(other, "ranks"));
}

/* ---- all of them ---- */

typedef struct rank_files {
    char **paths;
    json_t **files;
    int64_t *epochs;
    int n;
} rank_files;

static void release_files(rank_files *l)
{
    for (int i = 0; i < l->n; i++) {
        weft_free(l->paths[i]);
        json_decref(l->files[i]);
    }
    weft_free(l->paths);
    weft_free(l->files);
    weft_free(l->epochs);
}

static int count_ranks(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0, rank, end;
    for (const struct dirent *e; d && (e = readdir(d));) {
        end = 0;
        if (sscanf(e->d_name, "rank-%d.json%n", &rank, &end) == 1 && end && !e->d_name[end])
            n = rank >= n && rank < 1 << 20 ? rank + 1 : n;
    }
    if (d)
        closedir(d);
    return n;
}

/* A file that an earlier run of more ranks has left there is not of this one. */
static weft_status read_files(const char *dir, int n, rank_files *l, merged *m, weft_error *err)
{
    weft_status s = WEFT_OK;
    l->paths = weft_alloc_zero((size_t)n, sizeof *l->paths);
    l->files = weft_alloc_zero((size_t)n, sizeof *l->files);
    l->epochs = weft_alloc_zero((size_t)n, sizeof *l->epochs);
    if (!l->paths || !l->files || !l->epochs)
        return weft_fail_memory(err);
    for (int r = 0; r < n && !s && (r == 0 || !m->due || r < m->due); r++) {
        l->n = r + 1;
        l->paths[r] = profile_path(dir, r);
        if (!l->paths[r])
            return weft_fail_memory(err);
        s = load(l->paths[r], &l->files[r], &l->epochs[r], err);
        if (!s)
            add_limits(m, l->files[r]);
    }
    return s;
}

static weft_status merge(merged *m, const rank_files *l, weft_error *err)
{
    weft_status s = WEFT_OK;
    m->events = json_array();
    if (!m->events)
        return weft_fail_memory(err);
    for (int r = 0; r < l->n; r++)
        m->epoch_ns = r == 0 || l->epochs[r] < m->epoch_ns ? l->epochs[r] : m->epoch_ns;
    for (int r = 0; r < l->n && !s; r++)
        s = take_events(m, json_object_get(l->files[r], "traceEvents"), l->epochs[r], l->paths[r],
                        err);
    return s;
}

static weft_status write_trace(const merged *m, const char *path, weft_error *err)
{
    json_t *whole = json_pack("{s:s, s:{s:s, s:i}, s:O}", "displayTimeUnit", "ms", "otherData",
                              "weft", WEFT_VERSION, "ranks", m->ranks, "traceEvents", m->events);
    char *text = whole ? json_dumps(whole, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    weft_status s = text ? weft_write_file(path, text, strlen(text), err) : weft_fail_memory(err);
    free(text); /* jansson's */
    json_decref(whole);
    return s;
}

static weft_status print_tables(const weft_command_host *host, const merged *m, const char *path,
                                weft_error *err)
{
    weft_text text = {0};
    weft_text_print(&text, "%d step%s of %d rank%s, the mean of all; ", m->steps / m->ranks,
                    m->steps == m->ranks ? "" : "s", m->ranks, m->ranks == 1 ? "" : "s");
    profile_limits_print(&m->limits, &text);
    weft_text_add(&text, "\n");
    double per = m->steps > 0 ? m->steps : 1;
    profile_table_print(&m->ops, "op", per, 0, &text);
    profile_table_print(&m->blocks, "block", per, 0, &text);
    weft_text_print(&text, "trace: %s\n", path);
    weft_status s = text.out_of_memory ? weft_fail_memory(err)
                                       : host->write(host, weft_text_get(&text), text.size, err);
    weft_text_release(&text);
    return s;
}

static weft_status make_trace(const weft_command_host *host, const char *dir, const char *path,
                              int n, weft_error *err)
{
    merged m = {0};
    rank_files files = {0};
    weft_status s = read_files(dir, n, &files, &m, err);
    s = s ? s : merge(&m, &files, err);
    s = s ? s : write_trace(&m, path, err);
    if (!s && m.ranks < m.due)
        weft_log_print(host->log, WEFT_LOG_WARN, "%d of %d ranks have left a record", m.ranks,
                       m.due);
    s = s ? s : print_tables(host, &m, path, err);
    json_decref(m.events);
    profile_table_release(&m.ops);
    profile_table_release(&m.blocks);
    release_files(&files);
    return s;
}

static weft_status run(const weft_command_host *host, int argc, char **argv, weft_error *err)
{
    const char *dir = NULL, *out = NULL;
    int n = 0;
    const weft_option list[] = {{.name = "out", .argument = "FILE", .text = &out}, {.name = NULL}};
    const weft_options options = {.command = "profile",
                                  .list = list,
                                  .arguments = &dir,
                                  .max_arguments = 1,
                                  .n_arguments = &n};
    weft_status s = weft_options_parse(&options, argc, argv, err);
    if (s)
        return s;
    if (n < 1)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "weft profile takes the folder of a run: weft profile DIR");
    char *folder = profile_folder(dir), *path = folder ? weft_format("%s/trace.json", folder) : 0;
    int ranks = folder ? count_ranks(folder) : 0;
    if (!folder || !path)
        s = weft_fail_memory(err);
    else if (ranks == 0)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s has no rank-N.json; list the plugin profile in the run, and give its "
                      "run folder",
                      folder);
    else
        s = make_trace(host, dir, out ? out : path, ranks, err);
    weft_free(folder);
    weft_free(path);
    return s;
}

const weft_command profile_command = {
    "profile", "show what the plugin profile has recorded, and make one trace of all ranks",
    "usage: weft profile DIR [--out FILE]\n"
    "\n"
    "Prints time per op and per block of the steps that the plugin profile has recorded in the\n"
    "run folder DIR, and writes a trace of all ranks for ui.perfetto.dev or chrome://tracing.\n"
    "  --out FILE   where to (default DIR/profile/trace.json)\n",
    run};
