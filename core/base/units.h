/* SPDX-License-Identifier: Apache-2.0 */
/* Large numbers for people. */
#ifndef WEFT_BASE_UNITS_H
#define WEFT_BASE_UNITS_H

#include <weft/base.h>

/* "1.23 GiB", "4.5 MiB", "17 B". */
void weft_print_bytes(weft_text *text, double bytes);

#endif
