/* SPDX-License-Identifier: Apache-2.0 */
/* Do all ranks mean the same run? Asked once, before the first step. */
#ifndef WEFT_LIB_NET_DIGEST_H
#define WEFT_LIB_NET_DIGEST_H

#include "compile/driver/plan.h"
#include "execute/control.h"

/* Compares plugins with versions, settings that must be equal, the placed graphs and the
 * collectives of every program with rank 0's. The first difference is an error that names rank, key
 * and both values. Collective; with one rank (control NULL) nothing happens. */
weft_status weft_digest_check(const weft_plan *plan, weft_control *control, weft_error *err);

#endif
