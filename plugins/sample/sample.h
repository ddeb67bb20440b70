/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the sample plugin. */
#ifndef WEFT_SAMPLE_H
#define WEFT_SAMPLE_H

#include <weft/plugin.h>

/* How the next id is chosen from logits. */
typedef struct sample_how {
    double temperature; /* 0: the most likely */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
} sample_how;

typedef struct sample_candidate {
    float logit;
    int32_t id;
} sample_candidate;

/* The id that the uniform number u in (0, 1) falls on; -1 if no logit is finite. scratch: n
 * candidates. A function of its arguments alone. */
int32_t sample_choose(const sample_how *how, const float *logits, int64_t n, double u,
                      sample_candidate *scratch);

/* Appends text with runs of blanks, newlines and control characters as one blank each. */
void sample_add_flat(weft_text *to, const char *text);

#endif
