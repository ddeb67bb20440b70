# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/deepseek3/libdeepseek3.la
plugins_deepseek3_libdeepseek3_la_SOURCES = \
	plugins/deepseek3/deepseek3.c

EXTRA_LTLIBRARIES += plugins/deepseek3/deepseek3.la
plugins_deepseek3_deepseek3_la_SOURCES =
plugins_deepseek3_deepseek3_la_LIBADD = plugins/deepseek3/libdeepseek3.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/deepseek3/README.md
