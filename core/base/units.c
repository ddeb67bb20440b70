/* SPDX-License-Identifier: Apache-2.0 */
/* Large numbers for people. */
#include <weft/base.h>

void weft_print_bytes(weft_text *text, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int u = 0;
    for (; bytes >= 1024 && u < 6; u++)
        bytes /= 1024;
    weft_text_print(text, u ? "%.2f %s" : "%.0f %s", bytes, units[u]);
}
