# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/local/liblocal.la
plugins_local_liblocal_la_SOURCES = \
	plugins/local/local.c \
	plugins/local/local.h \
	plugins/local/transfer.c

EXTRA_LTLIBRARIES += plugins/local/local.la
plugins_local_local_la_SOURCES =
plugins_local_local_la_LIBADD = plugins/local/liblocal.la $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/local/README.md
