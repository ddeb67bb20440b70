/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of plugins whose kernels are the cuda plugin's, for the machines of its trials. */
#ifndef WEFT_CUDA_MACHINE_H
#define WEFT_CUDA_MACHINE_H

#include <weft/weft.h>

extern const weft_op *const adamw_ops[], *const tp_ops[];
extern const weft_op f8_op_amax, f8_op_scale, f8_op_quantise, f8_op_history, f8_op_linear,
    f8_op_linear_part, f8_op_linear_rows, f8_op_linear_dx, f8_op_linear_dw;

static const weft_op *const f8_ops[] = {
    &f8_op_amax,        &f8_op_scale,       &f8_op_quantise,  &f8_op_history,   &f8_op_linear,
    &f8_op_linear_part, &f8_op_linear_rows, &f8_op_linear_dx, &f8_op_linear_dw, NULL};

static const weft_op *const *const machine_ops[] = {adamw_ops, tp_ops, f8_ops, NULL};

#endif
