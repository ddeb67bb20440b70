/* SPDX-License-Identifier: Apache-2.0 */
/* weft ckpt: looks at checkpoints; needs no plugin of the run. */
#include "ckpt.h"

#include <inttypes.h>
#include <string.h>
#include <weft/options.h>

static weft_status print(const weft_command_host *host, weft_text *text, weft_error *err)
{
    weft_status s = text->out_of_memory ? weft_fail_memory(err)
                                        : host->write(host, weft_text_get(text), text->size, err);
    weft_text_clear(text);
    return s;
}

static void add_bytes(weft_text *text, double n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; n >= 1024 && u < 4; u++)
        n /= 1024;
    weft_text_print(text, u ? "%.1f %s" : "%.0f %s", n, units[u]);
}

/* ---- ls ---- */

static void ls_line(weft_text *text, const ckpt_manifest *m)
{
    int tensors = 0;
    for (int i = 0; i < m->base.n_files; i++)
        tensors += strstr(m->base.files[i].name, ".safetensors") != NULL;
    weft_text_print(text,
                    "step %" PRId64 " of %" PRId64 "  %" PRId64 " samples  %" PRId64 " tokens  ",
                    m->progress.step, m->steps, m->progress.samples, m->progress.tokens);
    add_bytes(text, (double)m->base.bytes);
    weft_text_print(text, " in %d file%s  %s  %s\n", tensors, tensors == 1 ? "" : "s", m->model,
                    m->path);
}

/* *damaged: how many were so far. */
static weft_status ls_one(const weft_command_host *host, const char *path, int *damaged,
                          weft_error *err)
{
    ckpt_manifest m;
    weft_text text = {0};
    weft_error why = {0};
    if (ckpt_manifest_read(weft_io_system(), path, &m, &why)) {
        weft_text_print(&text, "damaged: %s\n", weft_error_text(&why));
        *damaged += 1;
    } else {
        ls_line(&text, &m);
    }
    weft_status s = print(host, &text, err);
    weft_error_release(&why);
    weft_text_release(&text);
    ckpt_manifest_release(&m);
    return s;
}

static weft_status ls_root(const weft_command_host *host, const char *root, int *n, int *damaged,
                           weft_error *err)
{
    ckpt_list list;
    weft_status s = ckpt_scan(weft_io_system(), root, &list, err);
    for (int i = 0; i < list.n && !s; i++) {
        char *path = ckpt_step_path(root, list.list[i].step);
        weft_text text = {0};
        if (!list.list[i].whole) {
            weft_text_print(&text, "%s: %s/step-%" PRId64 "\n",
                            list.list[i].unfinished ? "unfinished" : "without a manifest", root,
                            list.list[i].step);
            s = print(host, &text, err);
        } else {
            s = path ? ls_one(host, path, damaged, err) : weft_fail_memory(err);
        }
        weft_text_release(&text);
        weft_free(path);
        *n += 1;
    }
    ckpt_list_release(&list);
    return s;
}

static weft_status ls(const weft_command_host *host, const char *const *names, weft_error *err)
{
    const weft_io *io = weft_io_system();
    char *inner = weft_format("%s/ckpt", names[0]),
         *manifest = weft_format("%s/manifest.json", names[0]);
    int n = 0, damaged = 0;
    weft_status s = inner && manifest ? WEFT_OK : weft_fail_memory(err);
    if (!s && ckpt_exists(io, manifest)) {
        s = ls_one(host, names[0], &damaged, err);
    } else if (!s) {
        s = ls_root(host, ckpt_exists(io, inner) ? inner : names[0], &n, &damaged, err);
        if (!s && !n)
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "%s holds no checkpoint: neither step-N nor ckpt/step-N in it", names[0]);
    }
    if (!s && damaged)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%d of these %s damaged", damaged,
                      damaged == 1 ? "is" : "are");
    weft_free(inner);
    weft_free(manifest);
    return s;
}

/* ---- verify ---- */

static weft_status open(const char *name, ckpt_manifest *m, weft_error *err)
{
    char *path = NULL;
    *m = (ckpt_manifest){0};
    weft_status s = ckpt_resolve(weft_io_system(), name, &path, err);
    s = s ? s : ckpt_manifest_read(weft_io_system(), path, m, err);
    weft_free(path);
    return s;
}

static weft_status verify(const weft_command_host *host, const char *const *names, weft_error *err)
{
    ckpt_manifest m;
    weft_text text = {0};
    weft_status s = open(names[0], &m, err);
    s = s ? s : ckpt_manifest_verify(weft_io_system(), &m, true, err);
    if (!s) {
        weft_text_print(&text, "%s is whole: %d files, ", m.path, m.base.n_files);
        add_bytes(&text, (double)m.base.bytes);
        weft_text_add(&text, "\n");
        s = print(host, &text, err);
    }
    weft_text_release(&text);
    ckpt_manifest_release(&m);
    return s;
}

/* ---- cat ---- */

static weft_status cat_list(const weft_command_host *host, const weft_folder *folder,
                            weft_error *err)
{
    weft_text text = {0};
    for (int i = 0; i < weft_folder_count(folder); i++) {
        const weft_stored *t = weft_folder_get(folder, i);
        weft_text_print(&text, "%s %s [", t->name, t->type);
        for (int d = 0; d < t->n_dims; d++)
            weft_text_print(&text, "%s%" PRId64, d ? ", " : "", t->size[d]);
        weft_text_print(&text, "] in %d piece%s\n", t->n_pieces, t->n_pieces == 1 ? "" : "s");
    }
    weft_status s = print(host, &text, err);
    weft_text_release(&text);
    return s;
}

/* One row of the last dim a line. */
static weft_status cat_tensor(const weft_command_host *host, weft_folder *folder, const char *name,
                              weft_error *err)
{
    const weft_stored *t = weft_folder_find(folder, name);
    if (!t)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "there is no tensor %s; weft ckpt cat FOLDER lists them", name);
    int64_t lo[WEFT_MAX_DIMS] = {0}, size[WEFT_MAX_DIMS], rows = 1,
            row = t->n_dims ? t->size[t->n_dims - 1] : 1;
    for (int d = 0; d + 1 < t->n_dims; d++)
        rows *= t->size[d];
    rows = row ? rows : 0;
    double *values = weft_alloc((size_t)row * sizeof *values + 1);
    weft_text text = {0};
    weft_status s = values ? WEFT_OK : weft_fail_memory(err);
    for (int64_t r = 0; r < rows && !s; r++) {
        int64_t rest = r;
        for (int d = t->n_dims - 1; d >= 0; d--) {
            bool last = d == t->n_dims - 1;
            size[d] = last ? row : 1;
            lo[d] = last ? 0 : rest % t->size[d];
            rest = last ? rest : rest / t->size[d];
        }
        s = weft_folder_read(folder, name, lo, size, WEFT_F64, values, err);
        for (int64_t i = 0; i < row && !s; i++)
            weft_text_print(&text, "%s%.*g", i ? " " : "", t->dtype == WEFT_F64 ? 17 : 9,
                            values[i]);
        weft_text_add(&text, "\n");
        if (text.size > 1 << 16 || r + 1 == rows)
            s = s ? s : print(host, &text, err);
    }
    weft_text_release(&text);
    weft_free(values);
    return s;
}

static weft_status cat(const weft_command_host *host, const char *const *names, int n,
                       weft_error *err)
{
    ckpt_manifest m;
    weft_folder *folder = NULL;
    weft_status s = open(names[0], &m, err);
    s = s ? s : weft_manifest_open(weft_io_system(), &m.base, false, &folder, err);
    if (!s && n == 1)
        s = cat_list(host, folder, err);
    for (int i = 1; i < n && !s; i++)
        s = cat_tensor(host, folder, names[i], err);
    weft_folder_destroy(folder);
    ckpt_manifest_release(&m);
    return s;
}

/* ---- diff ---- */

static weft_status diff(const weft_command_host *host, const char *const *names, weft_error *err)
{
    ckpt_manifest a, b = {0};
    weft_text text = {0};
    int differences = 0;
    weft_status s = open(names[0], &a, err);
    s = s ? s : open(names[1], &b, err);
    s = s ? s : ckpt_compare(host->plugins, &a, &b, &text, &differences, err);
    if (differences)
        weft_text_print(&text, "%s and %s differ in %d place%s\n", a.path, b.path, differences,
                        differences == 1 ? "" : "s");
    s = s ? s : print(host, &text, err);
    *host->answers_no = !s && differences;
    weft_text_release(&text);
    ckpt_manifest_release(&a);
    ckpt_manifest_release(&b);
    return s;
}

/* words: what to do, and what with. */
static weft_status dispatch(const weft_command_host *host, const char *const *words, int n,
                            weft_error *err)
{
    const char *what = n ? words[0] : "";
    bool is_ls = strcmp(what, "ls") == 0, is_verify = strcmp(what, "verify") == 0,
         is_diff = strcmp(what, "diff") == 0, is_cat = strcmp(what, "cat") == 0;
    int least = is_diff ? 3 : 2, most = is_cat ? n : least;
    if (!is_ls && !is_verify && !is_diff && !is_cat)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "weft ckpt %s: there are ls, verify, diff and cat; see weft ckpt --help",
                         what);
    if (n < least || n > most)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "weft ckpt %s takes %s; see weft ckpt --help", what,
                         is_diff  ? "two folders"
                         : is_cat ? "a folder, and names of tensors"
                                  : "one folder");
    if (is_ls)
        return ls(host, words + 1, err);
    if (is_verify)
        return verify(host, words + 1, err);
    return is_diff ? diff(host, words + 1, err) : cat(host, words + 1, n - 1, err);
}

static weft_status run(const weft_command_host *host, int argc, char **argv, weft_error *err)
{
    int n = 0;
    const char **words = weft_alloc_zero((size_t)argc, sizeof *words);
    const weft_options options = {
        .command = "ckpt", .arguments = words, .max_arguments = -1, .n_arguments = &n};
    weft_status s = words ? weft_options_parse(&options, argc, argv, err) : weft_fail_memory(err);
    s = s ? s : dispatch(host, words, n, err);
    weft_free(words);
    return s;
}

const weft_command ckpt_command = {
    .name = "ckpt",
    .summary = "list, check, compare and print checkpoints",
    .usage = "usage: weft ckpt ls FOLDER            the checkpoints of a run\n"
             "       weft ckpt verify FOLDER        reads all of one, and names damaged, missing "
             "and foreign files\n"
             "       weft ckpt diff A B             what differs: counters, settings, tensors (by "
             "value, whatever the ranks)\n"
             "       weft ckpt cat FOLDER [NAME..]  its tensors; with names: their values, a row a "
             "line\n"
             "FOLDER is a checkpoint, or a run's folder: then the newest whole one is meant.\n",
    .run = run,
};
