/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank and step the calling thread is at, beside whose code it is in (weft_blame). */
#ifndef WEFT_BASE_BLAME_H
#define WEFT_BASE_BLAME_H

#include <weft/base.h>

/* Negative (as at first): not known. */
void weft_blame_set_rank(int rank);
void weft_blame_set_step(int64_t step);
int weft_blame_rank(void);
int64_t weft_blame_step(void);
/* The step that any thread has set last; 0: none yet. For signal handlers, as the two above. */
int64_t weft_blame_latest_step(void);

#endif
