# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/bf16/libbf16.la
plugins_bf16_libbf16_la_SOURCES = \
	plugins/bf16/bf16.c
plugins_bf16_libbf16_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_bf16_bf16_la_SOURCES =
plugins_bf16_bf16_la_LIBADD = plugins/bf16/libbf16.la core/libweft.la $(LIBM)
if BUILTIN_BF16
noinst_LTLIBRARIES += plugins/bf16/bf16.la
plugins_bf16_bf16_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/bf16/bf16.la
plugins_bf16_bf16_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif

nobase_dist_doc_DATA += plugins/bf16/README.md
