/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the images plugin. */
#ifndef IMAGES_H
#define IMAGES_H

#include <weft/weft.h>

enum { IMAGES_BY_MODEL, IMAGES_UNSHIFTED, IMAGES_BY_PLACES };
enum { IMAGES_NOISE_DRAWN, IMAGES_NOISE_OF_FILE };

/* What the model is made for; rows 0: that is not known yet. */
typedef struct images_model {
    int64_t rows, columns, channels, text, t5, clip;
    bool guided; /* it is told a guidance */
} images_model;

typedef struct images {
    const weft_host *host;
    /* settings */
    const char *prompts_path, *empty_path, *file;
    int64_t every, steps, batch;
    double guidance, cfg, base_shift, max_shift;
    int shift, noise;
    /* made of them */
    uint64_t seed;
    weft_folder *prompts, *empty; /* NULL: not open */
    int64_t *chosen, n;           /* which prompts, one for each picture */
    images_model model;
} images;

/* Of a batch: with cfg each picture has a second one, of the empty text. */
static inline int64_t images_rows(const images *m)
{
    return m->batch * (m->cfg == 1 ? 1 : 2);
}

/* ---- prompts.c: embeddings of texts, from files ---- */

/* Of `samples`; 0: all there are. */
int64_t images_samples(const images *m);
/* Opens the files; all that is wrong with them. */
weft_status images_open_prompts(images *m, weft_error *err);
void images_close_prompts(images *m);
/* Are the files' sizes the model's? Once both are known. */
weft_status images_check_sizes(const images *m, weft_error *err);
/* Of picture k, [tokens width] and [width]: its text's, or the empty one's. */
weft_status images_read_prompt(const images *m, int64_t k, bool empty, double *t5, double *clip,
                               weft_error *err);
/* Of picture k, [places packed]: drawn by the seed and k, or the prompts' file's. */
weft_status images_read_noise(const images *m, int64_t k, double *to, weft_error *err);

/* ---- flow.c ---- */

/* Do steps lie nearer to the noise? */
bool images_shifts(const images *m);
/* How much noise there is before step i of `steps`: 1 before the first, 0 behind the last. */
double images_noise_before(const images *m, int64_t i);
/* The pictures [n channels height width], in to's dtype; of size 0: this rank keeps none. All ranks
 * together. */
weft_status images_make(const images *m, const weft_run_view *run, const weft_tensor *to,
                        weft_error *err);

/* ---- places of the sequence: 2 x 2 points with all their channels, row by row ---- */

static inline int64_t images_points(const images_model *m)
{
    return 4 * m->rows * m->columns * m->channels;
}

/* Where number i of [places packed] is in [channels height width]. */
int64_t images_point(const images_model *m, int64_t i);

#endif
