/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a step's values, and the files they go to. Memory is bounded by what one step has of
 * what is asked for. */
#include "dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/files.h>

static const char *const group_names[DUMP_GROUPS] = {"parameters", "gradients", "values"};

bool dump_is_chosen(const dump *self, int64_t step)
{
    for (int i = 0; i < self->n_steps; i++)
        if (self->steps[i] == step)
            return true;
    return false;
}

void dump_forget(dump *self)
{
    for (int i = 0; i < self->n_kept; i++) {
        weft_free(self->kept[i].name);
        weft_free(self->kept[i].shape.data);
    }
    self->n_kept = 0;
}

/* The slot of a name, so that a value that is made twice in a step is there once, as it was last;
 * NULL when out of memory. */
static dump_tensor *slot_for(dump *self, dump_group group, const char *name)
{
    for (int i = 0; i < self->n_kept; i++)
        if (self->kept[i].group == group && strcmp(self->kept[i].name, name) == 0)
            return &self->kept[i];
    if (self->n_kept == self->kept_capacity) {
        int capacity = self->kept_capacity ? 2 * self->kept_capacity : 64;
        dump_tensor *more = weft_realloc(self->kept, (size_t)capacity * sizeof *more);
        if (!more)
            return NULL;
        self->kept = more;
        self->kept_capacity = capacity;
    }
    char *copy = weft_strdup(name);
    if (!copy)
        return NULL;
    self->kept[self->n_kept] = (dump_tensor){.group = group, .name = copy};
    return &self->kept[self->n_kept++];
}

/* "x", of micro-batch 0 "x@0"; the second piece of what lies in several, "x@0#1". */
static char *name_of(const dump_target *target, const weft_run_view *run)
{
    char micro[24] = "", piece[16] = "";
    if (run->micro_batch >= 0)
        snprintf(micro, sizeof micro, "@%" PRId64, run->micro_batch);
    if (run->piece > 0)
        snprintf(piece, sizeof piece, "#%d", run->piece);
    return weft_format("%s%s%s", target->name, micro, piece);
}

static weft_status keep_one(dump *self, const dump_target *target, const weft_run_view *run,
                            weft_error *err)
{
    const weft_tensor *t = run->tensor;
    size_t bytes = (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
    char *name = name_of(target, run);
    void *data = weft_alloc(bytes);
    dump_tensor *slot = name && data ? slot_for(self, target->group, name) : NULL;
    weft_free(name);
    if (!slot) {
        weft_free(data);
        return weft_fail_memory(err);
    }
    if (bytes > 0)
        memcpy(data, t->data, bytes);
    weft_free(slot->shape.data);
    slot->shape = *t;
    slot->shape.data = data;
    return WEFT_OK;
}

weft_status dump_keep(dump *self, const weft_run_view *run, weft_error *err)
{
    if (!run->value || !run->tensor || !dump_is_chosen(self, run->step))
        return WEFT_OK;
    if (self->kept_step != run->step)
        dump_forget(self);
    self->kept_step = run->step;
    weft_status status = WEFT_OK;
    for (int i = 0; i < self->n_targets && status == WEFT_OK; i++) {
        const dump_target *target = &self->targets[i];
        if (target->id == run->value->id && strcmp(target->value, run->value->name) == 0)
            status = keep_one(self, target, run, err);
    }
    return status;
}

/* ---- files ---- */

static void add_list(weft_text *text, int n, const int64_t *x)
{
    for (int i = 0; i < n; i++)
        weft_text_print(text, "%s%" PRId64, i ? "," : "", x[i]);
}

/* "0,128 of 256,256": where this rank's part begins, and the size of the whole; NULL when out of
 * memory. */
static char *describe_part(weft_pool *pool, const weft_tensor *t)
{
    weft_text text = {0};
    add_list(&text, t->n_dims, t->lo);
    weft_text_add(&text, " of ");
    add_list(&text, t->n_dims, t->whole);
    char *part = text.out_of_memory ? NULL : weft_pool_strdup(pool, weft_text_get(&text));
    weft_text_release(&text);
    return part;
}

static bool is_part(const weft_tensor *t)
{
    return memcmp(t->size, t->whole, (size_t)t->n_dims * sizeof *t->size) != 0;
}

/* Step, rank, ranks, then "part:NAME" of each tensor that is cut: at most 8 + 2 * n entries. */
static bool build_metadata(weft_pool *pool, const weft_run_view *run, int64_t step, int n,
                           const dump_tensor *const *tensors, const char **metadata)
{
    int k = 0;
    metadata[k++] = "step";
    metadata[k++] = weft_pool_format(pool, "%" PRId64, step);
    metadata[k++] = "rank";
    metadata[k++] = weft_pool_format(pool, "%d", run->rank);
    metadata[k++] = "ranks";
    metadata[k++] = weft_pool_format(pool, "%d", run->ranks);
    for (int i = 0; i < n; i++) {
        if (!is_part(&tensors[i]->shape))
            continue;
        metadata[k++] = weft_pool_format(pool, "part:%s", tensors[i]->name);
        metadata[k++] = describe_part(pool, &tensors[i]->shape);
    }
    metadata[k] = NULL;
    for (int i = 0; i < k; i++)
        if (!metadata[i])
            return false;
    return true;
}

/* Files are the same in whatever order the values were made. */
static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const dump_tensor *const *)a)->name, (*(const dump_tensor *const *)b)->name);
}

static weft_status write_group(const dump *self, dump_group group, const char *dir,
                               const weft_run_view *run, weft_error *err)
{
    weft_pool pool = {0};
    size_t room = (size_t)self->n_kept;
    const dump_tensor **tensors = weft_pool_alloc(&pool, room * sizeof *tensors + 1);
    weft_safetensor *list = weft_pool_alloc(&pool, room * sizeof *list + 1);
    const char **metadata = weft_pool_alloc(&pool, (8 + 2 * room) * sizeof *metadata);
    char *path = run->ranks > 1
                     ? weft_pool_format(&pool, "%s/%s-rank-%d.safetensors", dir, group_names[group],
                                        run->rank)
                     : weft_pool_format(&pool, "%s/%s.safetensors", dir, group_names[group]);
    weft_status status = WEFT_OK;
    int n = 0;
    if (!tensors || !list || !metadata || !path) {
        status = weft_fail_memory(err);
        goto done;
    }
    for (int i = 0; i < self->n_kept; i++)
        if (self->kept[i].group == group)
            tensors[n++] = &self->kept[i];
    if (n == 0)
        goto done;
    qsort(tensors, (size_t)n, sizeof *tensors, compare_names);
    for (int i = 0; i < n; i++) {
        const dump_tensor *t = tensors[i];
        list[i] = (weft_safetensor){.name = t->name,
                                    .dtype = t->shape.dtype,
                                    .n_dims = t->shape.n_dims,
                                    .data = t->shape.data};
        memcpy(list[i].size, t->shape.size, sizeof list->size);
    }
    if (!build_metadata(&pool, run, self->kept_step, n, tensors, metadata))
        status = weft_fail_memory(err);
    else
        status = weft_write_safetensors(path, list, n, metadata, err);
done:
    weft_pool_release(&pool);
    return status;
}

weft_status dump_write(dump *self, const weft_run_view *run, weft_error *err)
{
    if (self->n_kept == 0)
        return WEFT_OK;
    char *dir = weft_format("%s/dump/step-%" PRId64, run->dir, self->kept_step);
    weft_status status = dir ? weft_make_dirs(dir, err) : weft_fail_memory(err);
    for (int group = 0; group < DUMP_GROUPS && status == WEFT_OK; group++)
        status = write_group(self, (dump_group)group, dir, run, err);
    weft_free(dir);
    dump_forget(self);
    return status;
}
