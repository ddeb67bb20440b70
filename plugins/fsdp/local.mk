# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/fsdp/libfsdp.la
plugins_fsdp_libfsdp_la_SOURCES = \
	plugins/fsdp/fsdp.c

EXTRA_LTLIBRARIES += plugins/fsdp/fsdp.la
plugins_fsdp_fsdp_la_SOURCES =
plugins_fsdp_fsdp_la_LIBADD = plugins/fsdp/libfsdp.la $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/fsdp/README.md
