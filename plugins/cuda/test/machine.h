/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of plugins whose kernels are the cuda plugin's, for the machines of its trials. */
#ifndef WEFT_CUDA_MACHINE_H
#define WEFT_CUDA_MACHINE_H

#include <weft/weft.h>

extern const weft_op *const adamw_ops[], *const tp_ops[], *const f8_ops[], *const moe_ops[];

static const weft_op *const *const machine_ops[] = {adamw_ops, tp_ops, f8_ops, moe_ops, NULL};

#endif
