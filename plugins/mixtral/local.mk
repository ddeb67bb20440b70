# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/mixtral/libmixtral.la
plugins_mixtral_libmixtral_la_SOURCES = \
	plugins/mixtral/mixtral.c

EXTRA_LTLIBRARIES += plugins/mixtral/mixtral.la
plugins_mixtral_mixtral_la_SOURCES =
plugins_mixtral_mixtral_la_LIBADD = plugins/mixtral/libmixtral.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/mixtral/README.md
