# SPDX-License-Identifier: Apache-2.0
# A kit that proves and measures weft on a machine with a GPU, CUDA and Python: docs/gpu.md.
EXTRA_DIST += tests/gpu/check-gpu tests/gpu/checks.py tests/gpu/kit.py tests/gpu/references.py \
	tests/gpu/stage
.PHONY: gpu-kit gpu-bundle check-gpu bench-gpu
gpu-kit: all $(gpu_trials)
	@bash '$(abs_top_srcdir)'/tests/gpu/stage '$(abs_top_srcdir)' . weft-gpu
gpu-bundle: gpu-kit
	@tar -czf weft-gpu.tar.gz weft-gpu && du -m weft-gpu.tar.gz | \
	    { read -r size name && echo "$$name: $$size MiB" && [ $$size -le 64 ]; }
# On this machine, if it has a GPU; GPU_FLAGS: options of the program.
check-gpu: gpu-kit
	@weft-gpu/check-gpu $(GPU_FLAGS)
bench-gpu: gpu-kit
	@weft-gpu/bench-gpu $(GPU_FLAGS)
clean-local: clean-gpu-kit
.PHONY: clean-gpu-kit
clean-gpu-kit:
	rm -rf weft-gpu weft-gpu.tar.gz
