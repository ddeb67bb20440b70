/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the muon plugin. */
#ifndef MUON_H
#define MUON_H

#include <weft/weft.h>

extern const weft_op *const muon_ops[];

#endif
