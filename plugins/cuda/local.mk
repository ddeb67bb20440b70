# SPDX-License-Identifier: Apache-2.0
cuda_kernels = adamw attention attention_any attention_dx elementwise embedding loss move norm quantise rope rows scalar sum
cuda_kernel_headers = \
	plugins/cuda/kernels/args.h \
	plugins/cuda/kernels/attention.h \
	plugins/cuda/kernels/kernel.h \
	plugins/cuda/kernels/list.h \
	plugins/cuda/kernels/nvcc/target.h
EXTRA_DIST += $(cuda_kernels:%=plugins/cuda/kernels/%.cu) $(cuda_kernel_headers)
