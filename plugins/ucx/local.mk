# SPDX-License-Identifier: Apache-2.0
# Built only where configure finds UCX.
nobase_dist_doc_DATA += plugins/ucx/README.md
EXTRA_LTLIBRARIES += plugins/ucx/ucx.la
plugins_ucx_ucx_la_SOURCES = \
	plugins/ucx/ucx.c \
	plugins/ucx/transfer.c \
	plugins/ucx/wait.c \
	plugins/ucx/ucx.h
plugins_ucx_ucx_la_CPPFLAGS = $(AM_CPPFLAGS) $(UCX_CFLAGS)
plugins_ucx_ucx_la_LIBADD = $(UCX_LIBS) $(PLUGIN_LIBS)
