/* SPDX-License-Identifier: Apache-2.0 */
/* Several runs on one page for a browser that needs nothing else. */
#ifndef WEFT_CLI_STUDY_PAGE_H
#define WEFT_CLI_STUDY_PAGE_H

#include "cli.h"

#include <jansson.h>

/* {"title", "facts", "runs": [], "paired": [], "tables": []}; the lists are filled by the
 * functions below. NULL: out of memory. */
json_t *weft_page_create(const char *title, const char *facts);
/* A run's curves: loss, validation, rate, norm. Runs of one group have one colour. */
void weft_page_add_run(json_t *page, const char *name, const char *group, const json_t *lines);
/* A table: heads is an array of texts, rows an array of arrays of texts; takes both. */
void weft_page_add_table(json_t *page, const char *title, json_t *heads, json_t *rows);
/* A band over steps: the difference of `group` from the baseline; takes the three arrays. */
void weft_page_add_band(json_t *page, const char *group, json_t *steps, json_t *mean, json_t *low,
                        json_t *high);
/* Takes the page. */
weft_status weft_page_write(json_t *page, const char *path, weft_error *err);

#endif
