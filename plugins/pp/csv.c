/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of torch.distributed.pipelining: a row a rank, a cell a task or none. Commas, quotes and
 * ends of lines are those of Python's csv; a cell is
 *
 *     <stage> ( F | I | B | W ) <micro-batch>
 *     <stage> ( UNSHARD | RESHARD | SEND_F | RECV_F | ... ) [<micro-batch>]
 *     "(" <cell> { ";" <cell> } ")" OVERLAP_F_B
 *
 * PyTorch takes what only begins so; here the whole cell must be one. */
#include "pp.h"

#include <string.h>

typedef struct reader {
    pp_lists *lists;
    const char *at;
    const char *line_begin;
    int line, cell_line, column; /* of the cell: from 1 on */
    int rank;
    weft_text cell;
    weft_error *err;
} reader;

/* Lists have no commas but in comments, whatever is wrong with the first cell. */
bool pp_is_table(const char *text)
{
    while (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\n')
        text++;
    return *text == '"' || *text == '(' ||
           (*text != '#' && strncmp(text, "rank", 4) != 0 &&
            memchr(text, ',', strcspn(text, "\r\n#")));
}

static weft_status wrong(const reader *r, const char *cell, size_t n, const char *what)
{
    const weft_where at = {r->lists->name, r->cell_line};
    return weft_fail(r->err, WEFT_ERR_INPUT, at, "column %d: '%.*s' %s", r->column,
                     n < 40 ? (int)n : 40, cell, what);
}

/* ---- a cell ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

static void strip(const char **cell, size_t *n)
{
    while (*n && is_blank(**cell)) {
        ++*cell;
        --*n;
    }
    while (*n && is_blank((*cell)[*n - 1]))
        --*n;
}

/* What ranks send and gather, which follows from the plan here. */
static bool is_left_out(const char *word, size_t n)
{
    static const char *const words[] = {
        "UNSHARD", "RESHARD", "REDUCE_GRAD", "SEND_F",      "RECV_F",
        "SEND_B",  "RECV_B",  "WAIT_SEND_F", "WAIT_SEND_B", "WAIT_REDUCE_GRAD"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == n && memcmp(words[i], word, n) == 0)
            return true;
    return false;
}

static weft_status read_one(reader *r, const char *cell, size_t n)
{
    static const char form[] = "is no task; a task is a stage, one of F, B, I and W, and a "
                               "micro-batch, as 0F3, or (0F3;7B1)OVERLAP_F_B";
    const char *at = cell, *end = cell + n;
    int64_t stage, micro = -1;
    if (!pp_read_number(&at, end, &stage))
        return wrong(r, cell, n, form);
    const char *word = at;
    while (at < end && ((*at >= 'A' && *at <= 'Z') || *at == '_'))
        at++;
    const size_t letters = (size_t)(at - word);
    const bool numbered = at < end && pp_read_number(&at, end, &micro);
    if (at != end)
        return wrong(r, cell, n, form);
    if (is_left_out(word, letters)) {
        r->lists->left_out++;
        return WEFT_OK;
    }
    if (letters != 1 || !strchr("FBIW", *word))
        return wrong(r, cell, n, form);
    if (!numbered)
        return wrong(r, cell, n, "has no micro-batch; write it behind the letter, as 0F3");
    const pp_item item = {.rank = r->rank,
                          .stage = (int)stage,
                          .line = r->cell_line,
                          .micro = micro,
                          .letter = *word};
    return pp_lists_add(r->lists, item, r->err);
}

/* Several that one kernel of PyTorch's runs at once are one after the other here. */
static weft_status read_overlap(reader *r, const char *cell, size_t n)
{
    static const char kind[] = "OVERLAP_F_B";
    const char *close = memchr(cell, ')', n);
    if (!close || (size_t)(cell + n - close - 1) != sizeof kind - 1 ||
        memcmp(close + 1, kind, sizeof kind - 1) != 0)
        return wrong(r, cell, n, "is no pair; write (0F3;7B1)OVERLAP_F_B");
    weft_status s = WEFT_OK;
    r->lists->overlapped++;
    for (const char *at = cell + 1; at <= close && !s;) {
        const char *stop = memchr(at, ';', (size_t)(close - at));
        const char *part = at;
        size_t length = (size_t)((stop ? stop : close) - at);
        at = (stop ? stop : close) + 1;
        strip(&part, &length);
        s = length ? read_one(r, part, length)
                   : wrong(r, cell, n, "has nothing between its brackets or semicolons");
    }
    return s;
}

static weft_status read_cell(reader *r)
{
    const char *cell = weft_text_get(&r->cell);
    size_t n = r->cell.size;
    strip(&cell, &n);
    if (n == 0) /* it waits */
        return WEFT_OK;
    return *cell == '(' ? read_overlap(r, cell, n) : read_one(r, cell, n);
}

/* ---- the table ---- */

/* The text of the cell at hand, without its quotes. */
static weft_status take_cell(reader *r)
{
    bool quoted = *r->at == '"';
    weft_text_clear(&r->cell);
    r->column = (int)(r->at - r->line_begin) + 1;
    r->cell_line = r->line;
    r->at += quoted;
    for (; *r->at; r->at++) {
        if (quoted && *r->at == '"') {
            if (r->at[1] != '"') {
                quoted = false;
                continue;
            }
            r->at++;
        } else if (!quoted && (*r->at == ',' || *r->at == '\n' || *r->at == '\r'))
            break;
        if (*r->at == '\n') {
            r->line++;
            r->line_begin = r->at + 1;
        }
        weft_text_add_bytes(&r->cell, r->at, 1);
    }
    return quoted ? wrong(r, "\"", 1, "begins a cell that does not end") : WEFT_OK;
}

/* Behind the line's end. */
static void end_line(reader *r)
{
    r->at += r->at[0] == '\r' && r->at[1] == '\n' ? 2 : *r->at != '\0';
    r->line++;
    r->line_begin = r->at;
}

/* Blank lines at the end are no ranks. */
static bool is_over(const char *at)
{
    while (is_blank(*at))
        at++;
    return !*at;
}

weft_status pp_table_read(pp_lists *lists, const char *text, weft_error *err)
{
    reader r = {.lists = lists, .at = text, .line_begin = text, .line = 1, .err = err};
    weft_status s = WEFT_OK;
    for (; !s && !is_over(r.at); lists->ranks = ++r.rank) {
        for (bool more = true; more && !s;) {
            s = take_cell(&r);
            s = s ? s : read_cell(&r);
            more = *r.at == ',';
            r.at += more;
        }
        if (!s)
            end_line(&r);
    }
    if (r.cell.out_of_memory)
        s = weft_fail_memory(err);
    weft_text_release(&r.cell);
    return s;
}
