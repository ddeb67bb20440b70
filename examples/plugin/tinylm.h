/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of this plugin share. */
#ifndef TINYLM_H
#define TINYLM_H

#include <weft/weft.h>

/* relu2.c */
extern const weft_op relu2_op, relu2_dx_op;
extern const weft_kernel relu2_kernels[]; /* ended by op == NULL */

#endif
