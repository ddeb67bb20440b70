/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of share/gpus, in the command. */
#ifndef WEFT_LIB_FORECAST_PROFILES_H
#define WEFT_LIB_FORECAST_PROFILES_H

#include <stddef.h>

typedef struct weft_own_profile {
    const char *name, *text;
} weft_own_profile;
extern const weft_own_profile weft_own_profiles[]; /* ended by {NULL} */

#endif
