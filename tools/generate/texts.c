/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts in, continuations out. */
#include "generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <weft/files.h>

/* ---- in ---- */

static weft_status add_ids(generate_texts *t, const int32_t *ids, size_t n, weft_error *err)
{
    int number = t->n;
    if (n == 0)
        return weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "prompt %d is empty, and the tokenizer has no mark for the beginning of a text",
            number + 1);
    weft_continuation *more = weft_realloc(t->list, (size_t)(t->n + 1) * sizeof *more);
    if (!more)
        return weft_fail_memory(err);
    t->list = more;
    return weft_continuation_init(&t->list[t->n++], number, ids, n, err);
}

static weft_status add_prompt(generate_texts *t, const char *text, size_t size, weft_error *err)
{
    size_t capacity = 16, n = 0;
    int32_t *ids = weft_alloc(capacity * sizeof *ids);
    if (!ids)
        return weft_fail_memory(err);
    const weft_run_tokenizer *by = &t->tokenizer;
    int bos = by->table->bos(by->self);
    if (bos >= 0)
        ids[n++] = bos;
    weft_status s = by->table->encode(by->self, text, size, &ids, &n, &capacity, err);
    s = s ? s : add_ids(t, ids, n, err);
    weft_free(ids);
    return s;
}

/* "1 2 3", or with commas. */
static weft_status add_numbers(generate_texts *t, const char *text, weft_error *err)
{
    size_t n = 0, most = strlen(text) / 2 + 1;
    int32_t *ids = weft_alloc(most * sizeof *ids);
    weft_status s = ids ? WEFT_OK : weft_fail_memory(err);
    for (const char *p = text + strspn(text, " ,"); *p && !s; p += strspn(p, " ,")) {
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        if (end == p || errno || id < 0 || id > INT32_MAX || !strchr(" ,", *end))
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "--ids: '%.20s' is not an id; write numbers, as \"1 2 3\"", p);
        else
            ids[n++] = (int32_t)id;
        p = end;
    }
    s = s ? s : add_ids(t, ids, n, err);
    weft_free(ids);
    return s;
}

/* A line is a prompt; empty ones are none. */
static weft_status add_file(generate_texts *t, const char *path, weft_error *err)
{
    char *data;
    size_t size;
    weft_status s = weft_read_file(path, &data, &size, err);
    if (s)
        return s;
    int before = t->n;
    for (char *line = data; line < data + size && !s;) {
        size_t n = strcspn(line, "\n");
        if (n > 0)
            s = t->tokenizer.table ? add_prompt(t, line, n, err)
                                   : (line[n] = '\0', add_numbers(t, line, err));
        line += n + 1;
    }
    if (!s && t->n == before)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s holds no prompt; a line is one", path);
    weft_free(data);
    return s;
}

weft_status generate_texts_init(generate_texts *t, const generate_wishes *w,
                                const weft_run_tokenizer *tokenizer, weft_error *err)
{
    weft_status s = WEFT_OK;
    *t = (generate_texts){.tokenizer = *tokenizer};
    for (int i = 0; i < w->prompts.n && !s; i++)
        s = add_prompt(t, w->prompts.list[i].text, strlen(w->prompts.list[i].text), err);
    for (int i = 0; i < w->ids.n && !s; i++)
        s = add_numbers(t, w->ids.list[i].text, err);
    if (!s && w->prompts_file)
        s = add_file(t, w->prompts_file, err);
    if (!s && t->n == 0)
        s = add_prompt(t, "", 0, err);
    return s;
}

void generate_texts_release(generate_texts *t)
{
    for (int i = 0; i < t->n; i++)
        weft_continuation_release(&t->list[i]);
    weft_free(t->list);
    memset(t, 0, sizeof *t);
}

/* ---- out ---- */

static weft_status write_out(const char *data, size_t n, weft_error *err)
{
    errno = 0;
    if (weft_cli_write(data, n) && fflush(stdout) == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot write to standard output: %s",
                     strerror(errno));
}

static weft_status whole_text(const generate_texts *t, const weft_continuation *c, weft_text *text,
                              weft_error *err)
{
    weft_text after = {0};
    weft_status s = WEFT_OK;
    if (t->tokenizer.table) {
        s = weft_continuation_decode(c, &t->tokenizer, text, &after, err);
        weft_text_add_bytes(text, weft_text_get(&after), after.size);
    } else { /* ids: what was added alone */
        for (size_t i = c->n_prompt; i < c->n; i++)
            weft_text_print(text, "%s%d", i > c->n_prompt ? " " : "", (int)c->ids[i]);
    }
    text->out_of_memory = text->out_of_memory || after.out_of_memory;
    weft_text_release(&after);
    return s;
}

/* Without the characters at the end that may be the beginning of others: U+FFFD stands for bytes
 * that more are needed for. */
static size_t whole_characters(const char *text, size_t n)
{
    while (n >= 3 && memcmp(text + n - 3, "\xef\xbf\xbd", 3) == 0)
        n -= 3;
    return n;
}

weft_status generate_print_more(const generate_texts *t, const weft_continuation *c,
                                size_t *printed, weft_error *err)
{
    weft_text text = {0};
    weft_status s = whole_text(t, c, &text, err);
    if (!s && c->ending)
        weft_text_add(&text, "\n");
    if (!s && text.out_of_memory)
        s = weft_fail_memory(err);
    const char *all = weft_text_get(&text);
    size_t end = c->ending ? text.size : whole_characters(all, text.size), from = *printed;
    while (from < end &&
           ((unsigned char)all[from] & 0xc0) == 0x80) /* what was printed reads otherwise now */
        from++;
    if (!s && end > from) {
        s = write_out(all + from, end - from, err);
        *printed = end;
    }
    weft_text_release(&text);
    return s;
}

static void add_array(weft_text *json, const char *key, const int32_t *ids, size_t n)
{
    weft_text_print(json, "\"%s\": [", key);
    for (size_t i = 0; i < n; i++)
        weft_text_print(json, "%s%d", i ? ", " : "", (int)ids[i]);
    weft_text_add(json, "], ");
}

static void add_string(weft_text *json, const char *key, const weft_text *text)
{
    weft_text_print(json, "\"%s\": ", key);
    weft_text_add_json_bytes(json, weft_text_get(text), text->size);
    weft_text_add(json, ", ");
}

weft_status generate_print_json(const generate_texts *t, const weft_continuation *c,
                                weft_error *err)
{
    weft_text json = {0}, before = {0}, after = {0};
    weft_status s = WEFT_OK;
    weft_text_print(&json, "{\"number\": %d, ", c->number);
    if (t->tokenizer.table) {
        s = weft_continuation_decode(c, &t->tokenizer, &before, &after, err);
        add_string(&json, "prompt", &before);
        add_string(&json, "text", &after);
    }
    add_array(&json, "prompt_ids", c->ids, c->n_prompt);
    add_array(&json, "ids", c->ids + c->n_prompt, c->n - c->n_prompt);
    weft_text_print(&json, "\"end\": \"%s\"}\n", weft_ending_name(c->ending));
    if (!s && json.out_of_memory)
        s = weft_fail_memory(err);
    s = s ? s : write_out(weft_text_get(&json), json.size, err);
    weft_text_release(&json);
    weft_text_release(&before);
    weft_text_release(&after);
    return s;
}
