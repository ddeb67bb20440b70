/* SPDX-License-Identifier: Apache-2.0 */
/* The locks that hold together, and libraries under them. */
#ifndef WEFT_LIB_VET_LOCKS_H
#define WEFT_LIB_VET_LOCKS_H

#include "host/vetting.h"
#include "vet/vetted.h"

struct weft_locks {
    weft_vetted *of[2]; /* the system's, the run's; NULL: none */
};

weft_status weft_locks_check_mapped(const weft_locks *locks, weft_error *err);

/* ---- libraries.c: as weft_vetting says ---- */

weft_status weft_libraries_open(const weft_locks *locks, const char *file, const char *of,
                                weft_where where, weft_error *err);
weft_status weft_libraries_find(const weft_locks *locks, const char *of, const char *name,
                                const char **path, weft_error *err);

#endif
