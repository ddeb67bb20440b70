/* SPDX-License-Identifier: Apache-2.0 */
#include "study/csv.h"

#include <math.h>
#include <string.h>

void weft_csv_add(weft_text *text, const char *cell)
{
    if (!strpbrk(cell, ",\"\r\n")) {
        weft_text_add(text, cell);
        return;
    }
    weft_text_add(text, "\"");
    for (; *cell; cell++)
        weft_text_add_bytes(text, *cell == '"' ? "\"\"" : cell, *cell == '"' ? 2 : 1);
    weft_text_add(text, "\"");
}

void weft_csv_add_real(weft_text *text, double x)
{
    if (isfinite(x))
        weft_text_print(text, "%.17g", x);
}
