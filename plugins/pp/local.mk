# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/pp/libpp.la
plugins_pp_libpp_la_SOURCES = \
	plugins/pp/pp.c \
	plugins/pp/pp.h \
	plugins/pp/schedule.c \
	plugins/pp/split.c
plugins_pp_libpp_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_pp_pp_la_SOURCES =
plugins_pp_pp_la_LIBADD = plugins/pp/libpp.la core/libweft.la $(LIBM)
if BUILTIN_PP
noinst_LTLIBRARIES += plugins/pp/pp.la
plugins_pp_pp_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/pp/pp.la
plugins_pp_pp_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
nobase_dist_doc_DATA += plugins/pp/README.md
