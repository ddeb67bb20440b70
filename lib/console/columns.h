/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people: every column is as wide as its widest cell, with two spaces between columns,
 * so that none runs into the next whatever names and numbers stand there. */
#ifndef WEFT_LIB_CONSOLE_COLUMNS_H
#define WEFT_LIB_CONSOLE_COLUMNS_H

#include <weft/base.h>

enum { WEFT_MAX_COLUMNS = 16 };

typedef struct weft_columns {
    weft_text cells;   /* the cell under way is written at its end */
    int n;             /* columns; at most WEFT_MAX_COLUMNS */
    const char *sides; /* of each column 'l' or 'r': where its cells are set */
} weft_columns;

/* sides: one letter for each column. Release afterwards. */
void weft_columns_init(weft_columns *c, const char *sides);
/* Ends a cell; they come from left to right, row after row. */
void weft_columns_next(weft_columns *c);
/* A whole cell. */
void weft_columns_add(weft_columns *c, const char *cell);
/* All rows, whole ones only; no spaces at the end of a line. */
void weft_columns_print(const weft_columns *c, weft_text *text);
void weft_columns_release(weft_columns *c);

#endif
