# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/gpt2/libgpt2.la
plugins_gpt2_libgpt2_la_SOURCES = \
	plugins/gpt2/gpt2.c

EXTRA_LTLIBRARIES += plugins/gpt2/gpt2.la
plugins_gpt2_gpt2_la_SOURCES =
plugins_gpt2_gpt2_la_LIBADD = plugins/gpt2/libgpt2.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/gpt2/README.md
