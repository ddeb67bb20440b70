/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tasks as text, and back. */
#include "kit/task_lists.h"

#include <string.h>

enum { WIDTH = 100 };

void weft_tasks_print(const weft_tasks *t, weft_text *text)
{
    for (int r = 0; r < t->ranks; r++) {
        size_t line = text->size;
        weft_text_print(text, "rank %d:", r);
        for (int i = 0; i < t->of[r].n; i++) {
            size_t before = text->size;
            weft_text_add(text, " ");
            weft_task_print(&t->of[r].list[i], text);
            if (text->size - line <= WIDTH || text->out_of_memory)
                continue;
            text->size = before; /* it begins the next line */
            weft_text_print(text, "\n   ");
            line = text->size - 3;
            weft_text_add(text, " ");
            weft_task_print(&t->of[r].list[i], text);
        }
        weft_text_add(text, "\n");
    }
}

/* ---- reading ---- */

typedef struct reader {
    weft_tasks *t;
    const char *name, *at;
    int line, rank; /* rank: whose tasks these are; -1: nobody has said it */
    weft_error *err;
} reader;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The next word, without what lies before it; false at the end. */
static bool next_word(reader *r, const char **word, size_t *n)
{
    while (is_blank(*r->at) || *r->at == '#') {
        if (*r->at == '#')
            r->at += strcspn(r->at, "\n");
        else
            r->line += *r->at++ == '\n';
    }
    *word = r->at;
    while (*r->at && !is_blank(*r->at) && *r->at != '#')
        r->at++;
    *n = (size_t)(r->at - *word);
    return *n > 0;
}

static weft_status wrong(reader *r, const char *word, size_t n, const char *what)
{
    const weft_where at = {r->name, r->line};
    return weft_fail(r->err, WEFT_ERR_INPUT, at, "'%.*s' %s", n < 40 ? (int)n : 40, word, what);
}

/* Digits, as far as they go; false: none, or more than a task can have. */
static bool read_number(const char **at, const char *end, int64_t *number)
{
    const char *begin = *at;
    int64_t n = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        n = 10 * n + (**at - '0');
        if (n > WEFT_MAX_TASKS)
            return false;
    }
    *number = n;
    return *at > begin;
}

/* "rank" was read. */
static weft_status read_rank(reader *r)
{
    const char *word, *at;
    size_t n;
    int64_t rank;
    if (!next_word(r, &word, &n))
        return wrong(r, "rank", 4, "must be followed by a number and a colon, as 'rank 0:'");
    at = word;
    if (!read_number(&at, word + n, &rank) || at + 1 != word + n || *at != ':')
        return wrong(r, word, n, "is not the number of a rank; write 'rank 0:'");
    if (rank >= r->t->ranks)
        return wrong(r, word, n, "is a rank that the pipeline does not have");
    r->rank = (int)rank;
    return WEFT_OK;
}

static bool read_task(const char *word, size_t n, weft_task *task)
{
    static const struct {
        const char *name;
        weft_part part;
    } whole[] = {
        {"begin", WEFT_PART_BEGIN}, {"step_end", WEFT_PART_STEP_END}, {"update", WEFT_PART_UPDATE}};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (strlen(whole[i].name) == n && memcmp(word, whole[i].name, n) == 0) {
            *task = (weft_task){whole[i].part, 0, -1};
            return true;
        }
    const char *at = word, *end = word + n;
    int64_t stage, micro;
    if (!read_number(&at, end, &stage) || at == end || (*at != 'F' && *at != 'B'))
        return false;
    weft_part part = *at++ == 'F' ? WEFT_PART_F : WEFT_PART_B;
    if (!read_number(&at, end, &micro) || at != end)
        return false;
    *task = (weft_task){part, (int)stage, micro};
    return true;
}

weft_status weft_tasks_parse(weft_tasks *t, const char *name, const char *text, weft_error *err)
{
    reader r = {.t = t, .name = name, .at = text, .line = 1, .rank = -1, .err = err};
    const char *word;
    size_t n;
    weft_status s = WEFT_OK;
    while (!s && next_word(&r, &word, &n)) {
        weft_task task;
        if (n == 4 && memcmp(word, "rank", 4) == 0)
            s = read_rank(&r);
        else if (!read_task(word, n, &task))
            s = wrong(&r, word, n,
                      "is not a task; a task is begin, step_end, update, or stage, F or B, and "
                      "micro-batch, as 0F3");
        else if (r.rank < 0)
            s = wrong(&r, word, n, "stands before any rank; begin with 'rank 0:'");
        else
            s = weft_tasks_add(t, r.rank, task.part, task.stage, task.micro_batch, err);
    }
    return s;
}
