# SPDX-License-Identifier: Apache-2.0
EXTRA_LTLIBRARIES += plugins/hostmem/hostmem.la
plugins_hostmem_hostmem_la_SOURCES = plugins/hostmem/hostmem.c
plugins_hostmem_hostmem_la_LIBADD = $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/hostmem/README.md
