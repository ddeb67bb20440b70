/* SPDX-License-Identifier: Apache-2.0 */
/* A study: a text file with a variant a line. */
#ifndef WEFT_TOOLS_ABLATE_STUDY_H
#define WEFT_TOOLS_ABLATE_STUDY_H

#include "cli.h"

typedef struct ablate_variant {
    const char *name;
    int line;
    int n_words;
    const char **words; /* as they are given to weft train; the name is none */
    weft_cli_edit *edits;
    int n_edits;
    int64_t ranks; /* -n; 0: not given */
    bool wrong;    /* told already: it cannot be planned */
} ablate_variant;

typedef struct ablate_study {
    const char *file;
    weft_pool pool;
    ablate_variant *variants;
    int n;
} ablate_study;

/* Every wrong line is an error of its own, and the others are there. Release in every case. */
weft_status ablate_study_read(ablate_study *study, const char *file, weft_error *err);
/* What ablate sets itself for every cell, and no edit may: "train.seed", "weft.dir"; NULL. */
const char *ablate_own_setting(const weft_cli_edit *edit);
void ablate_study_release(ablate_study *study);

#endif
