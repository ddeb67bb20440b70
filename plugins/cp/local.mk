# SPDX-License-Identifier: Apache-2.0
EXTRA_LTLIBRARIES += plugins/cp/cp.la
plugins_cp_cp_la_SOURCES = \
	plugins/cp/cp.c \
	plugins/cp/cp.h \
	plugins/cp/ring.c
plugins_cp_cp_la_LIBADD = $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/cp/README.md
