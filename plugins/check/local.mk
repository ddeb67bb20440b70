# SPDX-License-Identifier: Apache-2.0
EXTRA_LTLIBRARIES += plugins/check/check.la
plugins_check_check_la_SOURCES = \
	plugins/check/check.c \
	plugins/check/memory.c \
	plugins/check/nan.c \
	plugins/check/replicas.c \
	plugins/check/check.h
plugins_check_check_la_LIBADD = $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/check/README.md
