/* SPDX-License-Identifier: Apache-2.0 */
/* weft tune --measure: by short runs on this machine. */
#ifndef WEFT_TUNE_MEASURE_H
#define WEFT_TUNE_MEASURE_H

#include "tune.h"

typedef struct tune_measure {
    const weft_cli_options *options; /* ranks: 0: any that share the processors evenly */
    const weft_option_values *fixed;
    double room;            /* bytes a rank; 0: any */
    double from_s, limit_s; /* as of tune_search */
    int64_t top;
    const char *write; /* NULL: nothing is written */
} tune_measure;

/* Appends the table, the fastest first. */
weft_status tune_measure_run(const tune_measure *how, weft_text *text, weft_error *err);

#endif
