/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the tensorboard plugin: records of an event file. */
#ifndef WEFT_TENSORBOARD_H
#define WEFT_TENSORBOARD_H

#include <weft/plugin.h>

typedef struct tensorboard_scalar {
    const char *tag;
    double value;
} tensorboard_scalar;

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

#endif
