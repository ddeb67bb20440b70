# SPDX-License-Identifier: Apache-2.0
nobase_dist_doc_DATA += plugins/nccl/README.md
EXTRA_DIST += plugins/nccl/test/api_matches.c
EXTRA_LTLIBRARIES += plugins/nccl/nccl.la
plugins_nccl_nccl_la_SOURCES = \
	plugins/nccl/api.c \
	plugins/nccl/collective.c \
	plugins/nccl/memory.c \
	plugins/nccl/nccl.c \
	plugins/nccl/register.c \
	plugins/nccl/transfer.c \
	plugins/nccl/wait.c \
	plugins/nccl/windows.c \
	plugins/nccl/api.h \
	plugins/nccl/nccl.h
plugins_nccl_nccl_la_LIBADD = $(PLUGIN_LIBS)

check_PROGRAMS += plugins/nccl/test/test_exact
plugins_nccl_test_test_exact_SOURCES = plugins/nccl/test/test_exact.c plugins/nccl/collective.c
plugins_nccl_test_test_exact_LDADD = lib/libinner.la $(CMOCKA_LIBS) $(LIBM)
plugins_nccl_test_test_exact_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/nccl

check_PROGRAMS += plugins/nccl/test/test_windows
plugins_nccl_test_test_windows_SOURCES = plugins/nccl/test/test_windows.c plugins/nccl/windows.c
plugins_nccl_test_test_windows_LDADD = lib/libinner.la $(CMOCKA_LIBS) $(LIBM)
plugins_nccl_test_test_windows_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/nccl
