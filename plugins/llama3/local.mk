# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/llama3/libllama3.la
plugins_llama3_libllama3_la_SOURCES = \
	plugins/llama3/llama3.c

EXTRA_LTLIBRARIES += plugins/llama3/llama3.la
plugins_llama3_llama3_la_SOURCES =
plugins_llama3_llama3_la_LIBADD = plugins/llama3/libllama3.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/llama3/README.md
