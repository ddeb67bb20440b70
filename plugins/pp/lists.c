/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tasks that a file says. What is wrong with single words is told here; whether they are a
 * schedule is for the core to prove. */
#include "pp.h"

#include <string.h>

enum { MOST = 1 << 24 };

bool pp_read_number(const char **at, const char *end, int64_t *number)
{
    const char *begin = *at;
    int64_t n = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        n = 10 * n + (**at - '0');
        if (n > MOST)
            return false;
    }
    *number = n;
    return *at > begin;
}

weft_status pp_lists_add(pp_lists *l, pp_item item, weft_error *err)
{
    if (l->n == l->capacity) {
        size_t more = 2 * l->capacity + 256;
        pp_item *fresh = weft_realloc(l->items, more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        l->items = fresh;
        l->capacity = more;
    }
    l->items[l->n++] = item;
    if (item.letter) {
        l->stages = item.stage >= l->stages ? item.stage + 1 : l->stages;
        l->micro_batches = item.micro >= l->micro_batches ? item.micro + 1 : l->micro_batches;
    }
    return WEFT_OK;
}

/* ---- text ---- */

typedef struct reader {
    pp_lists *lists;
    const char *at;
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

static weft_status wrong(const reader *r, const char *word, size_t n, const char *what)
{
    const weft_where at = {r->lists->name, r->line};
    return weft_fail(r->err, WEFT_ERR_INPUT, at, "'%.*s' %s", n < 40 ? (int)n : 40, word, what);
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
    if (!pp_read_number(&at, word + n, &rank) || at + 1 != word + n || *at != ':')
        return wrong(r, word, n, "is not the number of a rank; write 'rank 0:'");
    r->rank = (int)rank;
    r->lists->ranks = r->rank >= r->lists->ranks ? r->rank + 1 : r->lists->ranks;
    return WEFT_OK;
}

static bool read_task(const char *word, size_t n, pp_item *item)
{
    static const struct {
        const char *name;
        weft_part part;
    } whole[] = {
        {"begin", WEFT_PART_BEGIN}, {"step_end", WEFT_PART_STEP_END}, {"update", WEFT_PART_UPDATE}};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (strlen(whole[i].name) == n && memcmp(word, whole[i].name, n) == 0) {
            *item = (pp_item){.part = whole[i].part, .micro = -1};
            return true;
        }
    const char *at = word, *end = word + n;
    int64_t stage, micro;
    if (!pp_read_number(&at, end, &stage) || at == end || !strchr("FBIW", *at))
        return false;
    const char letter = *at++;
    if (!pp_read_number(&at, end, &micro) || at != end)
        return false;
    *item = (pp_item){.stage = (int)stage, .micro = micro, .letter = letter};
    return true;
}

static weft_status read_text(pp_lists *lists, const char *text, weft_error *err)
{
    reader r = {.lists = lists, .at = text, .line = 1, .rank = -1, .err = err};
    const char *word;
    size_t n;
    weft_status s = WEFT_OK;
    while (!s && next_word(&r, &word, &n)) {
        pp_item item;
        if (n == 4 && memcmp(word, "rank", 4) == 0)
            s = read_rank(&r);
        else if (!read_task(word, n, &item))
            s = wrong(&r, word, n,
                      "is not a task; a task is begin, step_end, update, or stage, one of F, B, I "
                      "and W, and micro-batch, as 0F3");
        else if (r.rank < 0)
            s = wrong(&r, word, n, "stands before any rank; begin with 'rank 0:'");
        else {
            item.rank = r.rank;
            item.line = r.line;
            s = pp_lists_add(lists, item, err);
        }
    }
    if (!s && lists->stages == 0)
        s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){lists->name, 0},
                      "the file has no task of a stage; it has a line for each rank, as 'rank 0: "
                      "0F0 0B0', as `weft plan --schedule` prints them");
    return s;
}

/* ---- what they say together ---- */

/* Where totals of a stage are not summed micro-batch after micro-batch, they are not one rank's to
 * the bit. */
static void find_order(pp_lists *l, int64_t *last)
{
    l->out_of_order = -1;
    for (int s = 0; s < l->stages; s++)
        last[s] = -1;
    for (size_t i = 0; i < l->n; i++) {
        const pp_item *item = &l->items[i];
        const bool sums = item->letter == 'W' || item->letter == 'B';
        if (!sums)
            continue;
        if (item->micro < last[item->stage] && l->out_of_order < 0)
            l->out_of_order = item->stage;
        last[item->stage] = item->micro;
    }
}

/* An I has its W: none of a stage is told here, one that is missing by the proof. */
static weft_status check_halves(const pp_lists *l, const bool *has_weights, weft_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        const pp_item *item = &l->items[i];
        if (item->letter == 'I' && !has_weights[item->stage])
            return weft_fail(
                err, WEFT_ERR_INPUT, (weft_where){l->name, item->line},
                "%dI%lld has no %dW%lld: the gradients of weights are missing; a whole "
                "backward is %dB%lld",
                item->stage, (long long)item->micro, item->stage, (long long)item->micro,
                item->stage, (long long)item->micro);
    }
    return WEFT_OK;
}

weft_status pp_lists_sum_up(pp_lists *l, weft_error *err)
{
    const size_t n = (size_t)l->stages + 1;
    int64_t *last = weft_alloc_zero(n, sizeof *last);
    bool *has_weights = weft_alloc_zero(n, sizeof *has_weights);
    l->split = weft_alloc_zero(n, sizeof *l->split);
    l->rank_of = weft_alloc_zero(n, sizeof *l->rank_of);
    weft_status status =
        last && has_weights && l->split && l->rank_of ? WEFT_OK : weft_fail_memory(err);
    for (size_t s = 0; s < n && !status; s++)
        l->rank_of[s] = -1;
    for (size_t i = 0; i < l->n && !status; i++) {
        const pp_item *item = &l->items[i];
        if (!item->letter)
            continue;
        has_weights[item->stage] |= item->letter == 'W' || item->letter == 'B';
        l->split[item->stage] = l->split[item->stage] || item->letter == 'I' || item->letter == 'W';
        if (l->rank_of[item->stage] < 0)
            l->rank_of[item->stage] = item->rank;
    }
    status = status ? status : check_halves(l, has_weights, err);
    if (!status)
        find_order(l, last);
    weft_free(last);
    weft_free(has_weights);
    return status;
}

weft_status pp_lists_read(const char *name, const char *text, size_t size, pp_lists *l,
                          weft_error *err)
{
    *l = (pp_lists){.name = weft_strdup(name), .out_of_order = -1};
    if (!l->name)
        return weft_fail_memory(err);
    if (strlen(text) != size)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){l->name, 0}, "the file is not text");
    l->table = pp_is_table(text);
    weft_status s = l->table ? pp_table_read(l, text, err) : read_text(l, text, err);
    return s ? s : pp_lists_sum_up(l, err);
}

void pp_lists_release(pp_lists *l)
{
    weft_free(l->name);
    weft_free(l->items);
    weft_free(l->split);
    weft_free(l->rank_of);
    *l = (pp_lists){0};
}

weft_status pp_lists_fill(const pp_lists *l, weft_tasks *tasks, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (size_t i = 0; i < l->n && !s; i++) {
        const pp_item *item = &l->items[i];
        const weft_part part = !item->letter         ? item->part
                               : item->letter == 'F' ? WEFT_PART_F
                               : item->letter == 'W' ? WEFT_PART_W
                                                     : WEFT_PART_B;
        weft_tasks_set_where(tasks, (weft_where){l->name, item->line});
        s = weft_tasks_add(tasks, item->rank, part, item->stage, item->micro, err);
        if (!s && item->letter == 'B' && l->split && l->split[item->stage])
            s = weft_tasks_add(tasks, item->rank, WEFT_PART_W, item->stage, item->micro, err);
    }
    weft_tasks_set_where(tasks, WEFT_NOWHERE);
    return s;
}
