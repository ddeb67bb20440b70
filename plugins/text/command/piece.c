/* SPDX-License-Identifier: Apache-2.0 */
/* One task: pieces of text, and what they become. */
#include "../tokenizer/utf8.h"
#include "command.h"

#include <jansson.h>
#include <string.h>

enum { KEEP_BYTES = 1 << 22 };

weft_status tokenize_task_add(tokenize_task *task, const char *text, size_t n, weft_error *err)
{
    if (n > task->capacity - task->n) {
        size_t capacity = task->capacity ? task->capacity : 1 << 16;
        while (capacity - task->n < n)
            capacity *= 2;
        char *grown = weft_realloc(task->text, capacity);
        if (!grown)
            return weft_fail_memory(err);
        task->text = grown;
        task->capacity = capacity;
    }
    if (n)
        memcpy(task->text + task->n, text, n);
    task->n += n;
    return WEFT_OK;
}

weft_status tokenize_task_end_piece(tokenize_task *task, tokenize_piece piece, weft_error *err)
{
    if (task->n_pieces == task->pieces_capacity) {
        size_t capacity = task->pieces_capacity ? 2 * task->pieces_capacity : 64;
        tokenize_piece *pieces = weft_realloc(task->pieces, capacity * sizeof *pieces);
        if (!pieces)
            return weft_fail_memory(err);
        task->pieces = pieces;
        task->pieces_capacity = capacity;
    }
    piece.end = task->n;
    task->pieces[task->n_pieces++] = piece;
    return WEFT_OK;
}

void tokenize_task_clear(tokenize_task *task)
{
    if (task->capacity > KEEP_BYTES) {
        weft_free(task->text);
        task->text = NULL;
        task->capacity = 0;
    }
    if (task->out.capacity > 4 * (size_t)KEEP_BYTES)
        weft_text_release(&task->out);
    weft_text_clear(&task->out);
    weft_error_clear(&task->err);
    task->n = task->n_pieces = 0;
    task->status = WEFT_OK;
    task->done = false;
}

void tokenize_task_release(tokenize_task *task)
{
    weft_free(task->text);
    weft_free(task->pieces);
    weft_text_release(&task->out);
    weft_free(task->n_ids);
    weft_free(task->n_bytes);
    weft_error_release(&task->err);
    *task = (tokenize_task){0};
}

static weft_status reserve_results(tokenize_task *task, weft_error *err)
{
    if (task->n_pieces <= task->n_capacity)
        return WEFT_OK;
    weft_free(task->n_ids);
    weft_free(task->n_bytes);
    task->n_capacity = 0;
    task->n_ids = weft_alloc(task->pieces_capacity * sizeof *task->n_ids);
    task->n_bytes = weft_alloc(task->pieces_capacity * sizeof *task->n_bytes);
    if (!task->n_ids || !task->n_bytes)
        return weft_fail_memory(err);
    task->n_capacity = task->pieces_capacity;
    return WEFT_OK;
}

/* Valid text goes on to the job. */
static weft_status run_text(tokenize_worker *worker, tokenize_task *task, size_t i, const char *s,
                            size_t n)
{
    task->n_bytes[i] = (int64_t)n;
    task->n_ids[i] = 0;
    return worker->job->piece(worker, task, i, s, n, &task->err);
}

static weft_where where(const tokenize_worker *worker, const tokenize_piece *piece, int more_lines)
{
    return (weft_where){worker->job->files->list[piece->file].path, piece->line + more_lines};
}

/* Makes *s valid, or fails with the place. *own: what to release. */
static weft_status make_valid(tokenize_worker *worker, tokenize_task *task,
                              const tokenize_piece *piece, const char **s, size_t *n,
                              weft_text *own)
{
    size_t valid = text_utf8_valid(*s, *n);
    if (valid == *n)
        return WEFT_OK;
    if (worker->job->options->replace) {
        text_utf8_repair(*s, *n, own);
        *s = own->data;
        *n = own->size;
        return own->out_of_memory ? weft_fail_memory(&task->err) : WEFT_OK;
    }
    int line = 0;
    size_t start = 0;
    for (size_t i = 0; i < valid; i++)
        if ((*s)[i] == '\n') {
            line++;
            start = i + 1;
        }
    return weft_fail(
        &task->err, WEFT_ERR_INPUT, where(worker, piece, line),
        "not UTF-8 at byte %zu of the line; convert it, or give --invalid-utf8 replace",
        valid - start + 1);
}

static weft_status fail_json(tokenize_worker *worker, tokenize_task *task,
                             const tokenize_piece *piece, json_t *root, const json_error_t *problem)
{
    const char *field = worker->job->options->field;
    weft_where at = where(worker, piece, 0);
    if (!root)
        return json_error_code(problem) == json_error_out_of_memory
                   ? weft_fail_memory(&task->err)
                   : weft_fail(&task->err, WEFT_ERR_INPUT, at, "not JSON: %s (column %d)",
                               problem->text, problem->column);
    if (!json_is_object(root))
        return weft_fail(&task->err, WEFT_ERR_INPUT, at,
                         "the line is not an object; it should be one with a field \"%s\"", field);
    if (json_object_get(root, field))
        return weft_fail(&task->err, WEFT_ERR_INPUT, at, "field \"%s\" is not a string", field);
    void *first = json_object_iter(root);
    return weft_fail(
        &task->err, WEFT_ERR_INPUT, at, "no field \"%s\"%s%.40s%s; choose with --field", field,
        first ? " (there is \"" : "", first ? json_object_iter_key(first) : "", first ? "\")" : "");
}

static weft_status run_json(tokenize_worker *worker, tokenize_task *task, size_t i, const char *s,
                            size_t n)
{
    const tokenize_piece *piece = &task->pieces[i];
    json_error_t problem;
    json_t *root =
        json_loadb(s, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY, &problem);
    json_t *value = json_object_get(root, worker->job->options->field);
    weft_status status = json_is_string(value) ? run_text(worker, task, i, json_string_value(value),
                                                          json_string_length(value))
                                               : fail_json(worker, task, piece, root, &problem);
    json_decref(root);
    return status;
}

static weft_status run_piece(tokenize_worker *worker, tokenize_task *task, size_t i)
{
    const tokenize_piece *piece = &task->pieces[i];
    size_t start = i ? task->pieces[i - 1].end : 0, n = piece->end - start;
    const char *s = task->text + start;
    bool jsonl = worker->job->files->list[piece->file].jsonl;
    weft_text own = {0};
    weft_status status = make_valid(worker, task, piece, &s, &n, &own);
    if (!status)
        status = (jsonl ? run_json : run_text)(worker, task, i, s, n);
    weft_text_release(&own);
    return status;
}

void tokenize_task_run(tokenize_worker *worker, tokenize_task *task)
{
    task->status = reserve_results(task, &task->err);
    for (size_t i = 0; i < task->n_pieces && (!task->status || task->status == WEFT_ERR_INPUT);
         i++) {
        weft_status now = run_piece(worker, task, i);
        task->status = task->status ? task->status : now;
    }
    if (!task->status && task->out.out_of_memory)
        task->status = weft_fail_memory(&task->err);
}
