# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/bf16/libbf16.la
plugins_bf16_libbf16_la_SOURCES = \
	plugins/bf16/bf16.c

EXTRA_LTLIBRARIES += plugins/bf16/bf16.la
plugins_bf16_bf16_la_SOURCES =
plugins_bf16_bf16_la_LIBADD = plugins/bf16/libbf16.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/bf16/README.md
