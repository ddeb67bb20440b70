# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/ep/libep.la
plugins_ep_libep_la_SOURCES = \
	plugins/ep/ep.c

EXTRA_LTLIBRARIES += plugins/ep/ep.la
plugins_ep_ep_la_SOURCES =
plugins_ep_ep_la_LIBADD = plugins/ep/libep.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/ep/README.md
