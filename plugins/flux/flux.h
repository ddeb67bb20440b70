/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLUX_H
#define FLUX_H

#include <weft/weft.h>

typedef struct flux {
    const weft_host *host;
    int64_t dim, heads, doubles, singles, t5, clip, text, image, image_width, channels, levels;
    int law, noise;
    double mean, std, guidance_scale, theta;
    bool guidance;
    /* made of these */
    int64_t rows, columns, places, axis[3], seed;
} flux;

enum { FLUX_UNIFORM, FLUX_LOGIT_NORMAL, FLUX_TIME_OF_DATA };
enum { FLUX_NOISE_DRAWN, FLUX_NOISE_OF_DATA };

void flux_build(void *self, weft_graph *g);
extern const weft_hf_model flux_hf;
extern const weft_param flux_params[];
/* Of a head's width, as 16, 56 and 56 of 128. */
void flux_derive_axes(int64_t head, int64_t axis[3]);

#endif
