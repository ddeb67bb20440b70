/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the tensorboard plugin: records of an event file. */
#ifndef WEFT_TENSORBOARD_H
#define WEFT_TENSORBOARD_H

#include <weft/plugin.h>

typedef struct tensorboard_scalar {
    const char *tag;
    double value;
} tensorboard_scalar;

typedef enum tensorboard_type {
    TENSORBOARD_TEXT,
    TENSORBOARD_BOOL,
    TENSORBOARD_NUMBER
} tensorboard_type;

/* A setting that tells runs apart: "adamw.lr". */
typedef struct tensorboard_setting {
    const char *name, *text;
    tensorboard_type type;
    double value; /* of a number; of a bool 0 or 1 */
} tensorboard_setting;

/* The settings of a config.ini, as weft train leaves it in the run folder: those that somebody set,
 * but where the run is. Texts are in the pool. False: out of memory. */
bool tensorboard_read_settings(const char *ini, weft_pool *pool, tensorboard_setting **list,
                               int *n);

/* CRC-32C (Castagnoli), and as the record format wants it: rotated, and a constant added. */
uint32_t tensorboard_crc(const void *data, size_t n);
uint32_t tensorboard_masked_crc(const void *data, size_t n);

/* Append one record, an event; wall_s: seconds since 1970. */
void tensorboard_add_version(weft_text *out, double wall_s);
/* From this step on what earlier files have is forgotten. */
void tensorboard_add_start(weft_text *out, double wall_s, int64_t step);
/* Values that are not finite are left out; nothing is appended if none is left. */
void tensorboard_add_scalars(weft_text *out, double wall_s, int64_t step,
                             const tensorboard_scalar *list, int n);
/* A text for the page "Text", which takes it as Markdown. */
void tensorboard_add_text(weft_text *out, double wall_s, const char *tag, const weft_text *text);
/* For the page "HParams": a run begins with these, and ends, well or not. */
void tensorboard_add_hparams(weft_text *out, double wall_s, const tensorboard_setting *list, int n);
void tensorboard_add_end(weft_text *out, double wall_s, bool well);

#endif
