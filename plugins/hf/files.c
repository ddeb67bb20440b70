/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a Hugging Face folder that hold its tensors: one, or those of an index. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

/* Each once: names[] is as long as files, an object, has members. */
static weft_status list_files(json_t *map, const char *folder, const char *index, json_t *files,
                              const char **names, weft_error *err)
{
    const char *tensor;
    json_t *file;
    weft_status s = WEFT_OK;
    json_object_foreach(map, tensor, file) {
        const char *name = json_string_value(file);
        if (!name || !name[0] || strchr(name, '/') || name[0] == '.')
            return hf_refuse(err, index, "'%s' lies in '%s', which is not a file's name", tensor,
                             name ? name : "?");
        if (json_object_get(files, name))
            continue;
        names[json_object_size(files)] = name;
        if (json_object_set(files, name, file) != 0)
            return weft_fail_memory(err);
        if (!hf_has_file(folder, name))
            s = hf_refuse(err, index, "names %s, which is not there; fetch it again", name);
    }
    return s || json_object_size(files) ? s : hf_refuse(err, index, "names no files");
}

/* What the index promises must be in the file that it names. */
static weft_status compare_index(const weft_folder *folder, json_t *map, const char *index,
                                 weft_error *err)
{
    const char *tensor;
    json_t *file;
    weft_status s = WEFT_OK;
    int missing = 0;
    json_object_foreach(map, tensor, file)
        if (!weft_folder_find(folder, tensor) && missing++ < HF_MOST_NAMED)
            s = hf_refuse(err, index, "says that %s holds '%s', which is not there",
                          json_string_value(file), tensor);
    hf_say_more(err, index, missing, "tensors that their files do not hold");
    return s;
}

static weft_status open_indexed(const char *folder, const char *index, weft_folder **out,
                                weft_error *err)
{
    json_t *root, *files = json_object();
    weft_status s = hf_read_json(index, &root, err);
    json_t *map = json_object_get(root, "weight_map");
    const char **names = weft_alloc((json_object_size(map) + 1) * sizeof *names);
    if (!s && !json_is_object(map))
        s = hf_refuse(err, index, "has no 'weight_map'");
    else if (!s && (!files || !names))
        s = weft_fail_memory(err);
    s = s ? s : list_files(map, folder, index, files, names, err);
    s = s ? s
          : weft_folder_open_files(weft_io_system(), folder, names, (int)json_object_size(files),
                                   out, err);
    s = s ? s : compare_index(*out, map, index, err);
    weft_free(names);
    json_decref(root);
    json_decref(files);
    return s;
}

typedef struct file_names {
    char single[64], index[96];
} file_names;

static file_names names_of(const hf_model *m)
{
    file_names n;
    snprintf(n.single, sizeof n.single, "%s.safetensors", hf_files_stem(m));
    snprintf(n.index, sizeof n.index, "%s.index.json", n.single);
    return n;
}

bool hf_files_are_there(const char *folder, const hf_model *m)
{
    const file_names n = names_of(m);
    return hf_has_file(folder, n.single) || hf_has_file(folder, n.index);
}

weft_status hf_files_open(const char *folder, const hf_model *m, weft_folder **out, weft_error *err)
{
    char path[HF_PATH];
    const file_names n = names_of(m);
    const char *const singles[] = {n.single};
    if (hf_has_file(folder, n.index))
        return open_indexed(folder, hf_path(path, folder, n.index), out, err);
    if (hf_has_file(folder, n.single))
        return weft_folder_open_files(weft_io_system(), folder, singles, 1, out, err);
    if (hf_has_file(folder, "pytorch_model.bin") ||
        hf_has_file(folder, "pytorch_model.bin.index.json"))
        return hf_refuse(err, folder,
                         "holds pytorch_model.bin, which is a program as much as data and is not "
                         "read; save the model as safetensors "
                         "(Transformers: model.save_pretrained(FOLDER))");
    weft_status s = hf_refuse_metas(folder, err);
    return s ? s : hf_refuse(err, folder, "has neither %s nor %s", n.single, n.index);
}

bool hf_files_have_block(const char *folder, const hf_model *m, int64_t block)
{
    weft_folder *files = NULL;
    weft_error err = {0};
    /* who reads them says what is wrong */
    bool has = hf_files_open(folder, m, &files, &err) != WEFT_OK;
    for (const weft_hf_tensor *row = m->form->tensors; hf_is_row(row) && !has; row++)
        if (row->name && strstr(row->name, "{l}") && hf_is_of_layer(m, row, block)) {
            char name[HF_NAME];
            hf_name(name, hf_file_of(row), block, 0);
            has = weft_folder_find(files, name) != NULL;
        }
    weft_error_release(&err);
    weft_folder_destroy(files);
    return has;
}
