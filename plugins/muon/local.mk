# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/muon/libmuon.la
plugins_muon_libmuon_la_SOURCES = \
	plugins/muon/cpu.c \
	plugins/muon/joint.c \
	plugins/muon/muon.c \
	plugins/muon/ops.c \
	plugins/muon/muon.h
plugins_muon_libmuon_la_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(VECTOR_CFLAGS)

EXTRA_LTLIBRARIES += plugins/muon/muon.la
plugins_muon_muon_la_SOURCES =
plugins_muon_muon_la_LIBADD = plugins/muon/libmuon.la $(PLUGIN_LIBS)
plugins_muon_muon_la_LDFLAGS = $(AM_LDFLAGS) $(OPENMP_CFLAGS)

nobase_dist_doc_DATA += plugins/muon/README.md
