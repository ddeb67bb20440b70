# SPDX-License-Identifier: Apache-2.0
nobase_dist_doc_DATA += \
	examples/405b-plan.ini \
	examples/70b-plan.ini \
	examples/8b-plan.ini \
	examples/axis/Makefile \
	examples/axis/README.md \
	examples/axis/vp.c \
	examples/demo.ini \
	examples/gpt2-small.ini \
	examples/llama-125m.ini \
	examples/plugin/Makefile \
	examples/plugin/README.md \
	examples/plugin/relu2.c \
	examples/plugin/tinylm.c \
	examples/plugin/tinylm.h \
	examples/plugin/tinylm.ini
