# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/ac/libac.la
plugins_ac_libac_la_SOURCES = \
	plugins/ac/ac.c

EXTRA_LTLIBRARIES += plugins/ac/ac.la
plugins_ac_ac_la_SOURCES =
plugins_ac_ac_la_LIBADD = plugins/ac/libac.la $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/ac/README.md
