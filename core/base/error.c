/* SPDX-License-Identifier: Apache-2.0 */
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

static bool reserve_item(weft_error *err)
{
    if (err->n_items < err->capacity)
        return true;
    int capacity = err->capacity ? 2 * err->capacity : 8;
    weft_error_item *items = weft_realloc(err->items, (size_t)capacity * sizeof *items);
    if (!items)
        return false;
    err->items = items;
    err->capacity = capacity;
    return true;
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
    if (!message || text.out_of_memory || !text.data || !reserve_item(err)) {
        err->out_of_memory = true;
        weft_text_release(&text);
    } else {
        err->items[err->n_items++] = (weft_error_item){status, text.data};
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
