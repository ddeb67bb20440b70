# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/tp/libtp.la
plugins_tp_libtp_la_SOURCES = \
	plugins/tp/repeat_kv.c \
	plugins/tp/tp.c \
	\
	plugins/tp/tp.h

EXTRA_LTLIBRARIES += plugins/tp/tp.la
plugins_tp_tp_la_SOURCES =
plugins_tp_tp_la_LIBADD = plugins/tp/libtp.la $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/tp/README.md
