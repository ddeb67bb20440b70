# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/flux/libflux.la
plugins_flux_libflux_la_SOURCES = \
	plugins/flux/flux.c \
	plugins/flux/graph.c \
	plugins/flux/hf.c \
	plugins/flux/flux.h

EXTRA_LTLIBRARIES += plugins/flux/flux.la
plugins_flux_flux_la_SOURCES =
plugins_flux_flux_la_LIBADD = plugins/flux/libflux.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/flux/README.md

check_PROGRAMS += plugins/flux/test/test_flux_golden
plugins_flux_test_test_flux_golden_LDADD = $(MODEL_LIBS)
plugins_flux_test_test_flux_golden_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/lib
