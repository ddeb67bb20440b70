# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/local/liblocal.la
plugins_local_liblocal_la_SOURCES = \
	plugins/local/local.c \
	plugins/local/local.h \
	plugins/local/transfer.c
plugins_local_liblocal_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_local_local_la_SOURCES =
plugins_local_local_la_LIBADD = plugins/local/liblocal.la core/libweft.la $(LIBM)
if BUILTIN_LOCAL
noinst_LTLIBRARIES += plugins/local/local.la
plugins_local_local_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/local/local.la
plugins_local_local_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
nobase_dist_doc_DATA += plugins/local/README.md
