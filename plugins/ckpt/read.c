/* SPDX-License-Identifier: Apache-2.0 */
/* Filling this rank's state from a checkpoint's files, by several threads: while one waits for the
 * disk, another compares sums. */
#include "ckpt.h"

enum { MOST_THREADS = 8, WORTH_A_THREAD = 8 << 20 };

typedef struct reader {
    const weft_state_view *state;
    weft_folder *folder;
    const bool *skip;
    int from, to; /* of the state's tensors */
    bool made;
    pthread_t thread;
    weft_status status;
    weft_error err;
} reader;

static int64_t bytes_of(const weft_state_tensor *t)
{
    if (t->elsewhere)
        return 0;
    return weft_tensor_count(&t->tensor) * (int64_t)weft_dtype_size(t->tensor.dtype);
}

static weft_status read_box(void *folder, const weft_state_tensor *t, const int64_t *lo,
                            const int64_t *size, void *to, weft_error *err)
{
    return weft_folder_read(folder, t->name, lo, size, t->tensor.dtype, to, err);
}

static void *work(void *arg)
{
    reader *r = arg;
    weft_blame_set((weft_blame){.plugin = "ckpt", .hook = "load"});
    for (int i = r->from; i < r->to && !r->status; i++)
        if (!r->skip[i])
            r->status = weft_state_fill(r->state, i, read_box, r->folder, &r->err);
    return NULL;
}

/* Neighbours go to the same thread, as they share chunks of the file. */
static int divide(const weft_state_view *state, const bool *skip, int most, reader *list)
{
    int64_t all = 0, done = 0;
    for (int i = 0; i < state->n_tensors; i++)
        all += skip[i] ? 0 : bytes_of(&state->tensors[i]);
    if (most > all / WORTH_A_THREAD)
        most = all < WORTH_A_THREAD ? 1 : (int)(all / WORTH_A_THREAD);
    for (int i = 0; i < state->n_tensors; i++) {
        if (skip[i] || !bytes_of(&state->tensors[i]))
            continue;
        reader *r = &list[done * most / all];
        r->from = r->to ? r->from : i;
        r->to = i + 1;
        done += bytes_of(&state->tensors[i]);
    }
    return most;
}

weft_status ckpt_read(const weft_host *host, const weft_state_view *state, weft_folder *folder,
                      const bool *skip, weft_error *err)
{
    reader list[MOST_THREADS] = {0};
    int most = !state->any_thread             ? 1
               : host->threads < 2            ? 2
               : host->threads < MOST_THREADS ? host->threads
                                              : MOST_THREADS;
    int n = divide(state, skip, most, list);
    weft_status s = WEFT_OK;
    for (int i = 0; i < n; i++) {
        list[i].state = state;
        list[i].folder = folder;
        list[i].skip = skip;
        list[i].made = i + 1 < n && pthread_create(&list[i].thread, NULL, work, &list[i]) == 0;
        if (!list[i].made)
            work(&list[i]);
    }
    for (int i = 0; i < n; i++) {
        if (list[i].made)
            pthread_join(list[i].thread, NULL);
        if (!s)
            weft_error_move(err, &list[i].err, WEFT_OK, WEFT_NOWHERE, "%s", "");
        s = s ? s : list[i].status;
        weft_error_release(&list[i].err);
    }
    return s;
}
