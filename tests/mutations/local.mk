# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/mutations/mutate.py \
	tests/mutations/core.list tests/mutations/cpu-cuda.list tests/mutations/experts.list \
	tests/mutations/gpu.list tests/mutations/plugins.list \
	tests/mutations/text.list
nobase_dist_doc_DATA += tests/mutations/README.md

# What tests need beside themselves.
.PHONY: check-data
check-data: all $(check_DATA)

# One small mistake after the other, in a copy of the tree; by night, see tests/mutations/README.md.
# NAMES='fsdp*,ring*': some; NAMED=yes: only the tests that they name; RESUME=yes: goes on.
.PHONY: check-mutations
check-mutations:
	@command -v python3 >/dev/null || \
	    { echo "check-mutations: there is no python3; apt-get install python3" >&2; exit 1; }
	python3 '$(abs_top_srcdir)'/tests/mutations/mutate.py run '$(abs_top_srcdir)' '$(abs_builddir)' \
	    $(if $(NAMES),'$(NAMES)') \
	    $(if $(NAMED),--named) $(if $(RESUME),--resume) --configure=--with-cuda='$(with_cuda)' \
	    --configure=--with-cuda-archs='$(with_cuda_archs)' \
	    --configure=CC='$(CC)' --configure=CXX='$(CXX)'
