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
	examples/lora/Makefile \
	examples/lora/README.md \
	examples/lora/lora.c \
	examples/plugin/Makefile \
	examples/plugin/README.md \
	examples/plugin/relu2.c \
	examples/plugin/tinylm.c \
	examples/plugin/tinylm.h \
	examples/plugin/tinylm.ini \
	examples/qk_norm/Makefile \
	examples/qk_norm/README.md \
	examples/qk_norm/qk_norm.c \
	examples/softcap/Makefile \
	examples/softcap/README.md \
	examples/softcap/softcap.c \
	examples/squash/Makefile \
	examples/squash/README.md \
	examples/squash/squash.c \
	examples/ungated/Makefile \
	examples/ungated/README.md \
	examples/ungated/ungated.c \
	examples/z_loss/Makefile \
	examples/z_loss/README.md \
	examples/z_loss/z_loss.c
