/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <weft/base.h>

void weft_error_release(weft_error *err)
{
    weft_error_clear(err);
    weft_free(err->items);
    *err = (weft_error){0};
}

void weft_error_clear(weft_error *err)
{
    for (int i = 0; i < err->n_items; i++)
        weft_free(err->items[i].text);
    err->n_items = 0;
    err->out_of_memory = false;
}

static void print_where(weft_text *text, weft_where at)
{
    if (!at.file)
        return;
    if (at.line > 0)
        weft_text_print(text, "%s:%d: ", at.file, at.line);
    else
        weft_text_print(text, "%s: ", at.file);
}

weft_status weft_vfail(weft_error *err, weft_status status, weft_where at, const char *format,
                       va_list args)
{
    if (!err)
        return status;
    char *message = weft_vformat(format, args);
    weft_text text = {0};
    print_where(&text, at);
    weft_text_add(&text, message);
    weft_error_item *item = NULL;
    if (message && !text.out_of_memory && text.data)
        item = weft_array_push(&err->items, &err->n_items, &err->capacity, sizeof *item);
    if (item) {
        *item = (weft_error_item){status, text.data};
    } else {
        err->out_of_memory = true;
        weft_text_release(&text);
    }
    weft_free(message);
    return status;
}

weft_status weft_fail(weft_error *err, weft_status status, weft_where at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_vfail(err, status, at, format, args);
    va_end(args);
    return status;
}

weft_status weft_fail_memory(weft_error *err)
{
    return weft_fail(err, WEFT_ERR_MEMORY, WEFT_NOWHERE, "out of memory");
}

void weft_error_move(weft_error *to, weft_error *from, weft_status status, weft_where at,
                     const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *words = from->n_items ? weft_vformat(format, args) : NULL;
    va_end(args);
    for (int i = 0; i < from->n_items && words; i++)
        weft_fail(to, status ? status : from->items[i].status, at, "%s%s", words,
                  from->items[i].text);
    if (from->out_of_memory || (from->n_items && !words))
        weft_fail_memory(to);
    weft_free(words);
    weft_error_release(from);
}

weft_status weft_error_status(const weft_error *err)
{
    if (err->n_items > 0)
        return err->items[0].status;
    return err->out_of_memory ? WEFT_ERR_MEMORY : WEFT_OK;
}

const char *weft_error_text(const weft_error *err)
{
    if (err->n_items > 0)
        return err->items[0].text;
    return err->out_of_memory ? "out of memory" : "";
}
