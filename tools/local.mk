# SPDX-License-Identifier: Apache-2.0
# Subcommands of weft that have a room of their own; linked into it like those of cli/.
weft_SOURCES += \
	tools/ablate/ablate.c \
	tools/ablate/cells.c \
	tools/ablate/plan.c \
	tools/ablate/results.c \
	tools/ablate/stats.c \
	tools/ablate/study.c \
	tools/ablate/tables.c \
	tools/ablate/ablate.h \
	tools/ablate/stats.h \
	tools/ablate/study.h \
	tools/compare/compare.c \
	tools/conform/child.c \
	tools/conform/commands.c \
	tools/conform/conform.c \
	tools/conform/gradient.c \
	tools/conform/kernels.c \
	tools/conform/lengths.c \
	tools/conform/memory.c \
	tools/conform/modes.c \
	tools/conform/ops.c \
	tools/conform/order.c \
	tools/conform/own.c \
	tools/conform/plan.c \
	tools/conform/program.c \
	tools/conform/resume.c \
	tools/conform/runs.c \
	tools/conform/shards.c \
	tools/conform/states.c \
	tools/conform/texts.c \
	tools/conform/trial.c \
	tools/conform/use.c \
	tools/conform/values.c \
	tools/conform/conform.h \
	tools/conform/trial.h \
	tools/generate/axes.c \
	tools/generate/generate.c \
	tools/generate/options.c \
	tools/generate/source.c \
	tools/generate/texts.c \
	tools/generate/weights.c \
	tools/generate/generate.h \
	tools/oracle/bound_f8.c \
	tools/oracle/compare.c \
	tools/oracle/feed.c \
	tools/oracle/oracle.c \
	tools/oracle/part.c \
	tools/oracle/record.c \
	tools/oracle/rounding_f8.c \
	tools/oracle/outputs.c \
	tools/oracle/settings.c \
	tools/oracle/trace.c \
	tools/oracle/values.c \
	tools/oracle/oracle.h \
	tools/oracle/rounding_f8.h \
	tools/vet/libraries.c \
	tools/vet/set.c \
	tools/vet/vet.c \
	tools/vet/vet.h
EXTRA_DIST += tools/ablate/README.md tools/compare/README.md tools/conform/README.md \
	tools/generate/README.md \
	tools/oracle/README.md \
	tools/vet/README.md
