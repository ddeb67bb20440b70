# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/cp/libcp.la
plugins_cp_libcp_la_SOURCES = \
	plugins/cp/cost.c \
	plugins/cp/cp.c \
	plugins/cp/cp.h \
	plugins/cp/order.c \
	plugins/cp/ring.c
plugins_cp_libcp_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_cp_cp_la_SOURCES =
plugins_cp_cp_la_LIBADD = plugins/cp/libcp.la core/libweft.la $(LIBM)
if BUILTIN_CP
noinst_LTLIBRARIES += plugins/cp/cp.la
plugins_cp_cp_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/cp/cp.la
plugins_cp_cp_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
nobase_dist_doc_DATA += plugins/cp/README.md
