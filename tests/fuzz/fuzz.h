/* SPDX-License-Identifier: Apache-2.0 */
/* What drivers of parsers share: texts that are fine, changed at random and parsed, for a bounded
 * time. The same round always gives the same bytes:
 *
 *   fuzz_x            WEFT_FUZZ_SECONDS (1) seconds; TAP
 *   fuzz_x ROUND      that round alone; its bytes go to fuzz_x.input
 *
 * A crash says in which round it was. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <weft/base.h>

typedef struct fuzz_target {
    const char *name;         /* of the program */
    const char *const *seeds; /* NULL-ended: texts to begin with; the first is accepted */
    const char *const *words; /* NULL-ended: what is put in */
    /* Parses n bytes, and a NUL behind them. Aborts where what came of it cannot be right. */
    weft_status (*parse)(const char *data, size_t n);
} fuzz_target;

int fuzz_main(const fuzz_target *target, int argc, char **argv);
/* Aborts unless there is an error where the status says so. */
void fuzz_check(weft_status status, const weft_error *err);
/* A folder of this process's own, in memory where that can be; removed at the end. */
const char *fuzz_folder(void);

#endif
