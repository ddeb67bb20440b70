# SPDX-License-Identifier: Apache-2.0
# The weft command, one file per subcommand.
bin_PROGRAMS += weft
weft_SOURCES = \
	cli/config.c \
	cli/inspect.c \
	cli/job.c \
	cli/join.c \
	cli/launch.c \
	cli/log.c \
	cli/main.c \
	cli/options.c \
	cli/oracle.c \
	cli/oracle_compare.c \
	cli/oracle_record.c \
	cli/oracle_trace.c \
	cli/oracle_values.c \
	cli/plan.c \
	cli/plugins.c \
	cli/ranks.c \
	cli/report.c \
	cli/session.c \
	cli/train.c \
	cli/cli.h \
	cli/job.h \
	cli/oracle.h \
	cli/ranks.h \
	cli/session.h
weft_CFLAGS = $(AM_CFLAGS)
weft_LDADD = core/libweft.la $(LIBM)
weft_LDFLAGS = $(AM_LDFLAGS) $(BUILTIN_PLUGIN_FLAGS)
if BUILTIN_PLUGINS
weft_SOURCES += cli/builtin.c
weft_LDADD += $(LTDL_LIBS)
# libtool does not see that -dlpreopen needs the plugins.
EXTRA_weft_DEPENDENCIES = $(noinst_LTLIBRARIES)
endif
