# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/float8/libfloat8.la
plugins_float8_libfloat8_la_SOURCES = \
	plugins/float8/backward.c \
	plugins/float8/build.c \
	plugins/float8/cpu.c \
	plugins/float8/cpu_products.c \
	plugins/float8/float8.c \
	plugins/float8/history.c \
	plugins/float8/joined.c \
	plugins/float8/loops_avx2.c \
	plugins/float8/loops_avx512.c \
	plugins/float8/loops_generic.c \
	plugins/float8/ops.c \
	plugins/float8/pass.c \
	plugins/float8/products.c \
	plugins/float8/cpu.h \
	plugins/float8/float8.h \
	plugins/float8/loops.h
plugins_float8_libfloat8_la_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(VECTOR_CFLAGS) \
	-ffp-contract=fast

EXTRA_LTLIBRARIES += plugins/float8/float8.la
plugins_float8_float8_la_SOURCES =
plugins_float8_float8_la_LIBADD = plugins/float8/libfloat8.la $(PLUGIN_LIBS)
plugins_float8_float8_la_LDFLAGS = $(AM_LDFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/float8/test/test_float8
plugins_float8_test_test_float8_LDADD = plugins/float8/libfloat8.la $(MODEL_LIBS)
plugins_float8_test_test_float8_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/lib
plugins_float8_test_test_float8_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/float8/test/test_float8_loops
plugins_float8_test_test_float8_loops_LDADD = plugins/float8/libfloat8.la $(MODEL_LIBS)
plugins_float8_test_test_float8_loops_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

nobase_dist_doc_DATA += plugins/float8/README.md
