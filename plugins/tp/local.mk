# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/tp/libtp.la
plugins_tp_libtp_la_SOURCES = \
	plugins/tp/repeat_kv.c \
	plugins/tp/tp.c \
	plugins/tp/wide.c \
	plugins/tp/tp.h
plugins_tp_libtp_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_tp_tp_la_SOURCES =
plugins_tp_tp_la_LIBADD = plugins/tp/libtp.la core/libweft.la $(LIBM)
if BUILTIN_TP
noinst_LTLIBRARIES += plugins/tp/tp.la
plugins_tp_tp_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/tp/tp.la
plugins_tp_tp_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
nobase_dist_doc_DATA += plugins/tp/README.md
