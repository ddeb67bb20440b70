# SPDX-License-Identifier: Apache-2.0
# Built only where configure finds UCX.
nobase_dist_doc_DATA += plugins/ucx/README.md
if HAVE_UCX
noinst_LTLIBRARIES += plugins/ucx/libweftucx.la
plugins_ucx_libweftucx_la_SOURCES = \
	plugins/ucx/ucx.c \
	plugins/ucx/transfer.c \
	plugins/ucx/wait.c \
	plugins/ucx/ucx.h
plugins_ucx_libweftucx_la_CPPFLAGS = $(AM_CPPFLAGS) $(UCX_CFLAGS)
plugins_ucx_libweftucx_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_ucx_ucx_la_SOURCES =
plugins_ucx_ucx_la_LIBADD = plugins/ucx/libweftucx.la core/libweft.la $(UCX_LIBS) $(LIBM)
if BUILTIN_UCX
noinst_LTLIBRARIES += plugins/ucx/ucx.la
plugins_ucx_ucx_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/ucx/ucx.la
plugins_ucx_ucx_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
endif
