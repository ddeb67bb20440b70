# SPDX-License-Identifier: Apache-2.0
EXTRA_LTLIBRARIES += plugins/pp/pp.la
plugins_pp_pp_la_SOURCES = \
	plugins/pp/pp.c \
	plugins/pp/pp.h \
	plugins/pp/schedule.c \
	plugins/pp/split.c
plugins_pp_pp_la_LIBADD = $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/pp/README.md
