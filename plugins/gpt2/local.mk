# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/gpt2/libgpt2.la
plugins_gpt2_libgpt2_la_SOURCES = \
	plugins/gpt2/gpt2.c
plugins_gpt2_libgpt2_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_gpt2_gpt2_la_SOURCES =
plugins_gpt2_gpt2_la_LIBADD = plugins/gpt2/libgpt2.la core/libweft.la $(LIBM)
if BUILTIN_GPT2
noinst_LTLIBRARIES += plugins/gpt2/gpt2.la
plugins_gpt2_gpt2_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/gpt2/gpt2.la
plugins_gpt2_gpt2_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif

nobase_dist_doc_DATA += plugins/gpt2/README.md
