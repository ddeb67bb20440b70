# SPDX-License-Identifier: Apache-2.0
EXTRA_LTLIBRARIES += plugins/offload/offload.la
plugins_offload_offload_la_SOURCES = plugins/offload/auto.c plugins/offload/offload.c \
	plugins/offload/offload.h
plugins_offload_offload_la_LIBADD = $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/offload/README.md
EXTRA_DIST += bench/offload
