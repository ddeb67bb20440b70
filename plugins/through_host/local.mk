# SPDX-License-Identifier: Apache-2.0
EXTRA_LTLIBRARIES += plugins/through_host/through_host.la
plugins_through_host_through_host_la_SOURCES = plugins/through_host/through_host.c
plugins_through_host_through_host_la_LIBADD = $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/through_host/README.md
