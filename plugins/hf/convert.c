/* SPDX-License-Identifier: Apache-2.0 */
/* weft convert FROM TO. */
#include "hf.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What the command line says. Every wrong word is reported. */
static weft_status read_arguments(hf_options *o, const char **settings, const char **target,
                                  int argc, char **argv, weft_error *err)
{
    static const char *const targets[] = {"hf", "weft", NULL},
                             *const dtypes[] = {"bf16", "f32", "f64", NULL},
                             *const extras[] = {"leave-out", "export", NULL};
    const char *folders[2] = {0}, *dtype = NULL, *size = NULL, *extra = NULL;
    double bytes = (double)o->max_shard;
    int n = 0;
    const weft_option list[] = {
        {.name = "to", .text = target, .choices = targets},
        {.name = "dtype", .text = &dtype, .choices = dtypes},
        {.name = "max-shard-size", .text = &size},
        {.name = "extra", .text = &extra, .choices = extras},
        {.name = "force", .flag = &o->force},
        {.name = "settings", .text = settings},
        {.name = "model", .text = &o->tables.named},
        {.name = NULL},
    };
    const weft_options options = {.command = "convert",
                                  .list = list,
                                  .arguments = folders,
                                  .max_arguments = 2,
                                  .n_arguments = &n};
    weft_status s = weft_options_parse(&options, argc, argv, err);
    o->from = folders[0];
    o->to = folders[1];
    if (extra)
        o->extra = strcmp(extra, "export") == 0 ? HF_EXTRA_EXPORT : HF_EXTRA_LEAVE_OUT;
    if (dtype)
        o->dtype = weft_dtype_find(dtype);
    if (size && (!weft_parse_bytes(size, &bytes) || bytes < 1))
        s = hf_refuse(err, NULL, "--max-shard-size %s: expected a size, such as 5GB", size);
    if (*settings && o->from)
        s = hf_refuse(err, NULL, "--settings prints an INI and converts nothing: leave '%s' out",
                      o->from);
    if (!*settings && !o->to)
        s = hf_refuse(err, NULL,
                      "weft convert takes two folders, FROM and TO; weft convert --help says more");
    if (o->to && !*o->to)
        s = hf_refuse(err, NULL, "the name of the target, TO, is empty");
    o->max_shard = (int64_t)bytes;
    return s;
}

/* ---- a conversion ---- */

/* A target inside the source, or around it, would be read and replaced at once. */
static weft_status check_apart(const hf_options *o, weft_error *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (!realpath(o->from, from) || !realpath(o->to, to))
        return WEFT_OK; /* what is not there is refused elsewhere, or made */
    size_t n = strlen(to);
    if (strncmp(from, to, n) == 0 && (!from[n] || from[n] == '/' || n == 1))
        return hf_refuse(err, o->to, "is the source, or holds it; name another target");
    return WEFT_OK;
}

/* What FROM is, its tensors and all. */
static weft_status open_source(const hf_options *o, bool hugging, hf_source *from, weft_error *err)
{
    weft_status s = hugging ? hf_folder_open(from, o->from, &o->tables, o->extra, err)
                            : hf_checkpoint_open(from, o->from, &o->tables, o->extra, err);
    if (s && o->extra == HF_EXTRA_REFUSE && from->n_extras)
        weft_fail(
            err, s, WEFT_NOWHERE,
            "tensors that do not belong to the model: --extra leave-out leaves them out, --extra "
            "export writes them under their own names");
    return s;
}

static void report(const hf_options *o, const hf_source *from, int n, int64_t bytes)
{
    weft_log_print(o->host->log, WEFT_LOG_INFO, "\r");
    weft_log_print(o->host->log, WEFT_LOG_INFO, "%s: %s, %d tensors, %.*f MB", o->to,
                   from->ours ? "a Hugging Face folder" : "a checkpoint of weft's", n,
                   bytes < 10000000 ? 2 : 0, (double)bytes / 1e6);
}

static weft_status convert(const hf_options *o, bool hugging, weft_error *err)
{
    hf_source from;
    hf_place place = {.fd = -1};
    int n = 0;
    int64_t bytes = 0;
    weft_status s = check_apart(o, err);
    if (s)
        return s;
    s = open_source(o, hugging, &from, err);
    if (!s)
        hf_print_notes(&from.model, o->host->log);
    s = s ? s : hf_place_begin(&place, o->to, o->force, err);
    s = s ? s : hf_write(o, &from, place.temporary, &n, &bytes, err);
    s = s ? s : hf_place_commit(&place, err);
    if (!s)
        report(o, &from, n, bytes);
    hf_source_close(&from);
    hf_place_end(&place);
    return s;
}

static weft_status print_settings(const hf_options *o, const char *folder, weft_error *err)
{
    weft_text ini = {0};
    weft_status s = hf_settings_print(folder, &o->tables, false, &ini, err);
    s = s ? s : o->host->write(o->host, weft_text_get(&ini), ini.size, err);
    weft_text_release(&ini);
    return s;
}

static weft_status run(const weft_command_host *host, int argc, char **argv, weft_error *err)
{
    const char *settings = NULL, *target = NULL;
    hf_options o = {.host = host,
                    .tables = {.plugins = host->plugins},
                    .dtype = WEFT_DTYPES,
                    .max_shard = 5000000000};
    weft_status s = read_arguments(&o, &settings, &target, argc, argv, err);
    if (s)
        return s;
    if (settings)
        return print_settings(&o, settings, err);
    const bool hugging = !hf_has_file(o.from, "manifest.json") &&
                         (hf_is_folder(o.from) || hf_has_file(o.from, "params.json") ||
                          hf_has_file(o.from, "model_index.json"));
    if (target && strcmp(target, hugging ? "hf" : "weft") == 0)
        return hf_refuse(err, o.from, "is %s already",
                         hugging ? "a Hugging Face folder" : "weft's");
    return convert(&o, hugging, err);
}

const weft_command hf_convert = {
    .name = "convert",
    .summary = "convert a checkpoint to a Hugging Face folder, or back",
    .usage =
        "usage: weft convert FROM TO [options]\n"
        "       weft convert --settings FOLDER\n"
        "\n"
        "Converts between weft's checkpoints and Hugging Face folders (config.json, *.safetensors) "
        "of models whose\nplugins say how they lie there.\n"
        "FROM: a Hugging Face folder, a checkpoint (step-N), or a run's folder, whose latest "
        "checkpoint is taken.\n"
        "TO: a folder that is not there yet (its parents are made, too), or empty. The tokenizer's "
        "files go along.\n"
        "\n"
        "options:\n"
        "  --to hf|weft               what TO shall be; taken from FROM if left out\n"
        "  --dtype bf16|f32|f64       how tensors are stored; as in FROM if left out\n"
        "  --max-shard-size SIZE      files of at most this size (5GB)\n"
        "  --extra leave-out|export   what becomes of tensors that are not the model's own, as of\n"
        "                             adapters: left out, or written under their names\n"
        "  --model PLUGIN             whose model it is; found by the folder's model_type if left "
        "out\n"
        "  --force                    replace TO, if it is a checkpoint or a Hugging Face folder\n"
        "  --settings FOLDER          print an INI to train the model of this Hugging Face folder\n"
        "  -h, --help                 this text\n",
    .run = run,
};
