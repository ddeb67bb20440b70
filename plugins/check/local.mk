# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/check/libcheck.la
plugins_check_libcheck_la_SOURCES = \
	plugins/check/check.c \
	plugins/check/memory.c \
	plugins/check/nan.c \
	plugins/check/diagnose.c \
	plugins/check/replicas.c \
	plugins/check/check.h
plugins_check_libcheck_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_check_check_la_SOURCES =
plugins_check_check_la_LIBADD = plugins/check/libcheck.la core/libweft.la $(LIBM)
if BUILTIN_CHECK
noinst_LTLIBRARIES += plugins/check/check.la
plugins_check_check_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/check/check.la
plugins_check_check_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
nobase_dist_doc_DATA += plugins/check/README.md
