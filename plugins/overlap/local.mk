# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/overlap/liboverlap.la
plugins_overlap_liboverlap_la_SOURCES = \
	plugins/overlap/auto.c \
	plugins/overlap/cut.c \
	plugins/overlap/order.c \
	plugins/overlap/overlap.c \
	plugins/overlap/overlap.h

EXTRA_LTLIBRARIES += plugins/overlap/overlap.la
plugins_overlap_overlap_la_SOURCES =
plugins_overlap_overlap_la_LIBADD = plugins/overlap/liboverlap.la $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/overlap/README.md
