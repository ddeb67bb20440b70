# SPDX-License-Identifier: Apache-2.0
nobase_dist_doc_DATA += plugins/nccl/README.md
EXTRA_DIST += plugins/nccl/test/api_matches.c
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
plugins_nccl_nccl_la_CPPFLAGS = $(AM_CPPFLAGS)
plugins_nccl_nccl_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_nccl_nccl_la_LIBADD = core/libweft.la $(LIBM)
if BUILTIN_NCCL
noinst_LTLIBRARIES += plugins/nccl/nccl.la
plugins_nccl_nccl_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/nccl/nccl.la
plugins_nccl_nccl_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif

check_PROGRAMS += plugins/nccl/test/test_exact
plugins_nccl_test_test_exact_SOURCES = plugins/nccl/test/test_exact.c plugins/nccl/collective.c
plugins_nccl_test_test_exact_LDADD = lib/libinner.la $(CMOCKA_LIBS) $(LIBM)
plugins_nccl_test_test_exact_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/nccl
