/* SPDX-License-Identifier: Apache-2.0 */
#include "console/columns.h"

#include <string.h>

void weft_columns_init(weft_columns *c, const char *sides)
{
    *c = (weft_columns){.n = (int)strlen(sides), .sides = sides};
}

void weft_columns_next(weft_columns *c)
{
    weft_text_add_bytes(&c->cells, "", 1);
}

void weft_columns_add(weft_columns *c, const char *cell)
{
    weft_text_add(&c->cells, cell);
    weft_columns_next(c);
}

/* Bytes that begin a character: names may be UTF-8. */
static int width_of(const char *cell)
{
    int n = 0;
    for (; *cell; cell++)
        n += ((unsigned char)*cell & 0xC0) != 0x80;
    return n;
}

static void pad(weft_text *text, int n)
{
    weft_text_print(text, "%*s", n > 0 ? n : 0, "");
}

static void print_cell(const weft_columns *c, int column, const char *cell, int width,
                       weft_text *text)
{
    int missing = width - width_of(cell);
    bool right = c->sides[column] == 'r', last = column == c->n - 1;
    if (right)
        pad(text, missing);
    weft_text_add(text, cell);
    if (!right && !last)
        pad(text, missing);
    weft_text_add(text, last ? "\n" : "  ");
}

void weft_columns_print(const weft_columns *c, weft_text *text)
{
    int widths[WEFT_MAX_COLUMNS] = {0}, n = 0;
    const char *cell = weft_text_get(&c->cells), *end = cell + c->cells.size;
    for (const char *at = cell; at < end; at += strlen(at) + 1, n++) {
        int width = width_of(at);
        if (width > widths[n % c->n])
            widths[n % c->n] = width;
    }
    text->out_of_memory = text->out_of_memory || c->cells.out_of_memory;
    n -= n % c->n;
    for (int i = 0; i < n; i++, cell += strlen(cell) + 1)
        print_cell(c, i % c->n, cell, widths[i % c->n], text);
}

void weft_columns_release(weft_columns *c)
{
    weft_text_release(&c->cells);
}
