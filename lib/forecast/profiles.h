/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of share/gpus, in the command. */
#ifndef WEFT_LIB_FORECAST_PROFILES_H
#define WEFT_LIB_FORECAST_PROFILES_H

#include <stddef.h>
#include <weft/device.h>

typedef struct weft_own_profile {
    const char *name, *text;
} weft_own_profile;
extern const weft_own_profile weft_own_profiles[]; /* ended by {NULL} */

/* Multiplies what a number of a profile stands for: "bf16", "f32", "product", "product8",
 * "attention", "attention_edge", "k_half", "memory_reached", "launch", "link_reached",
 * "net_reached", "call", "net_call", "hop", "half_bytes", "enqueue" or "step". false: it is none
 * of these. */
bool weft_rates_scale(weft_device_rates *rates, const char *number, double factor);
/* Appends the section [gpu] of a file that has these rates. */
void weft_rates_print(const weft_device_rates *rates, weft_text *text);

#endif
