# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/through_host/libthrough_host.la
plugins_through_host_libthrough_host_la_SOURCES = plugins/through_host/through_host.c
plugins_through_host_libthrough_host_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_through_host_through_host_la_SOURCES =
plugins_through_host_through_host_la_LIBADD = plugins/through_host/libthrough_host.la core/libweft.la $(LIBM)
if BUILTIN_THROUGH_HOST
noinst_LTLIBRARIES += plugins/through_host/through_host.la
plugins_through_host_through_host_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/through_host/through_host.la
plugins_through_host_through_host_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
nobase_dist_doc_DATA += plugins/through_host/README.md
