# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/llama3/libllama3.la
plugins_llama3_libllama3_la_SOURCES = \
	plugins/llama3/llama3.c
plugins_llama3_libllama3_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_llama3_llama3_la_SOURCES =
plugins_llama3_llama3_la_LIBADD = plugins/llama3/libllama3.la core/libweft.la $(LIBM)
if BUILTIN_LLAMA3
noinst_LTLIBRARIES += plugins/llama3/llama3.la
plugins_llama3_llama3_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/llama3/llama3.la
plugins_llama3_llama3_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif

nobase_dist_doc_DATA += plugins/llama3/README.md
