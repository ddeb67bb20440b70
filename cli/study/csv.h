/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_CLI_STUDY_CSV_H
#define WEFT_CLI_STUDY_CSV_H

#include <weft/base.h>

/* Appends a cell, in quotes where it needs them (RFC 4180). */
void weft_csv_add(weft_text *text, const char *cell);
/* A number that reads back as it is; nothing of one that is not finite. */
void weft_csv_add_real(weft_text *text, double x);

#endif
