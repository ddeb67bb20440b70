# SPDX-License-Identifier: Apache-2.0
EXTRA_LTLIBRARIES += plugins/join/join.la
plugins_join_join_la_SOURCES = plugins/join/join.c
plugins_join_join_la_LIBADD = $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/join/README.md
