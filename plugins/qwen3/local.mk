# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/qwen3/libqwen3.la
plugins_qwen3_libqwen3_la_SOURCES = \
	plugins/qwen3/qwen3.c

EXTRA_LTLIBRARIES += plugins/qwen3/qwen3.la
plugins_qwen3_qwen3_la_SOURCES =
plugins_qwen3_qwen3_la_LIBADD = plugins/qwen3/libqwen3.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/qwen3/README.md
