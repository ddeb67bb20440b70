/* SPDX-License-Identifier: Apache-2.0 */
/* weft tune --calibrate: what one's own machines reach, by runs that were made there. */
#ifndef WEFT_TUNE_CALIBRATE_H
#define WEFT_TUNE_CALIBRATE_H

#include "cli.h"

/* dirs: run folders; of each its config.ini is planned again, and its metrics.jsonl says what took
 * how long. Appends how far off predictions were, and are by the numbers that fit best; `write`: a
 * file that gets these, or NULL. */
weft_status tune_calibrate(const char *const *dirs, int n, weft_trust trust, const char *write,
                           weft_text *text, weft_error *err);

#endif
