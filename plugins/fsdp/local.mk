# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/fsdp/libfsdp.la
plugins_fsdp_libfsdp_la_SOURCES = \
	plugins/fsdp/fsdp.c
plugins_fsdp_libfsdp_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_fsdp_fsdp_la_SOURCES =
plugins_fsdp_fsdp_la_LIBADD = plugins/fsdp/libfsdp.la core/libweft.la $(LIBM)
if BUILTIN_FSDP
noinst_LTLIBRARIES += plugins/fsdp/fsdp.la
plugins_fsdp_fsdp_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/fsdp/fsdp.la
plugins_fsdp_fsdp_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
nobase_dist_doc_DATA += plugins/fsdp/README.md
