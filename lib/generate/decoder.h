/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that write text, fed token by token: several texts at a time, one a row, all ending
 * at the same place. Shorter prompts are padded in front. Internal to weft. */
#ifndef WEFT_LIB_GENERATE_DECODER_H
#define WEFT_LIB_GENERATE_DECODER_H

#include "compile/driver/plan.h"

#include <weft/execute.h>

typedef struct weft_decoder {
    const weft_plan *plan;
    weft_run *run;
    int64_t step;         /* of the training: finished ones */
    weft_mode begun;      /* whose weights are in memory now; TRAIN: nobody's */
    weft_batch *batch[2]; /* inputs of the programs for many tokens, and of those for one; the
                             second NULL: no cache, everything is computed again */
    int64_t rows, places, vocab;
    int32_t *ids;     /* [rows places] */
    int64_t *padding; /* [rows]: places in front of the text */
    int64_t n, done;  /* places that are filled; of these, computed */
    float *logits;    /* [rows vocab]: behind the last place */
} weft_decoder;

/* Of the plan's graphs that write text; the run is the plan's, behind `step` steps. Release in
 * every case. */
weft_status weft_decoder_init(weft_decoder *d, const weft_plan *plan, weft_run *run, int64_t step,
                              weft_error *err);
void weft_decoder_release(weft_decoder *d);
/* New texts: ids of n[r] > 0 tokens for row r, r < rows (the rest repeats row 0). The longest fits
 * in the places. */
void weft_decoder_start(weft_decoder *d, const int32_t *const *ids, const size_t *n, int64_t rows);
/* One more token for every row, if there is a place left. */
bool weft_decoder_add(weft_decoder *d, const int32_t *ids);
/* Computes what is not yet computed; logits are those behind the last place. All ranks together. */
weft_status weft_decoder_run(weft_decoder *d, weft_error *err);

#endif
