# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/ac/libac.la
plugins_ac_libac_la_SOURCES = \
	plugins/ac/ac.c
plugins_ac_libac_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_ac_ac_la_SOURCES =
plugins_ac_ac_la_LIBADD = plugins/ac/libac.la core/libweft.la $(LIBM)
if BUILTIN_AC
noinst_LTLIBRARIES += plugins/ac/ac.la
plugins_ac_ac_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/ac/ac.la
plugins_ac_ac_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
nobase_dist_doc_DATA += plugins/ac/README.md
