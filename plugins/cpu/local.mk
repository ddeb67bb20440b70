# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/cpu/libcpu.la
plugins_cpu_libcpu_la_SOURCES = \
	plugins/cpu/attention_size.c \
	plugins/cpu/hardware.c \
	plugins/cpu/isa_amx.c \
	plugins/cpu/isa_avx2.c \
	plugins/cpu/isa_avx512.c \
	plugins/cpu/isa_avx512bf16.c \
	plugins/cpu/isa_generic.c \
	plugins/cpu/kernels.c \
	plugins/cpu/newton_schulz.c \
	plugins/cpu/peak.c \
	plugins/cpu/plugin.c \
	plugins/cpu/product.c \
	plugins/cpu/product_each.c \
	plugins/cpu/product_grouped.c \
	plugins/cpu/sliced.c \
	plugins/cpu/sumsq.c \
	plugins/cpu/team.c \
	plugins/cpu/tiles.c \
	plugins/cpu/attention.h \
	plugins/cpu/attention_dx.h \
	plugins/cpu/attention_merge.h \
	plugins/cpu/cells_bf16.h \
	plugins/cpu/cells_f32.h \
	plugins/cpu/cpu.h \
	plugins/cpu/decode.h \
	plugins/cpu/elementwise.h \
	plugins/cpu/gemm.h \
	plugins/cpu/gemm_amx.h \
	plugins/cpu/heads.h \
	plugins/cpu/isa.h \
	plugins/cpu/isa_kernels.h \
	plugins/cpu/loss.h \
	plugins/cpu/narrow.h \
	plugins/cpu/matmul.h \
	plugins/cpu/norm.h \
	plugins/cpu/norm_joined.h \
	plugins/cpu/rope.h \
	plugins/cpu/rows.h \
	plugins/cpu/sliced.h \
	plugins/cpu/tile.h \
	plugins/cpu/tile_amx.h \
	plugins/cpu/tile_vectors.h \
	plugins/cpu/tiles.h
if ONEDNN
plugins_cpu_libcpu_la_SOURCES += plugins/cpu/onednn.c
else
plugins_cpu_libcpu_la_SOURCES += plugins/cpu/own_matmul.c
endif
plugins_cpu_libcpu_la_CPPFLAGS = $(AM_CPPFLAGS) $(DNNL_CPPFLAGS)
plugins_cpu_libcpu_la_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(VECTOR_CFLAGS) -ffp-contract=fast

EXTRA_LTLIBRARIES += plugins/cpu/cpu.la
plugins_cpu_cpu_la_SOURCES =
plugins_cpu_cpu_la_LIBADD = plugins/cpu/libcpu.la $(DNNL_LIBS) $(PLUGIN_LIBS)
plugins_cpu_cpu_la_LDFLAGS = $(AM_LDFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/cpu/test/test_cpu_attention
plugins_cpu_test_test_cpu_attention_SOURCES = plugins/cpu/test/test_cpu_attention.c \
	$(trial_attention) plugins/cpu/test/machine.c
plugins_cpu_test_test_cpu_attention_LDADD = plugins/cpu/libcpu.la plugins/float8/libfloat8.la \
	$(DNNL_LIBS) $(LIBM) $(TEST_LIBS)
plugins_cpu_test_test_cpu_attention_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/cpu \
	-I$(top_srcdir)/tests/lib
plugins_cpu_test_test_cpu_attention_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/cpu/test/test_cpu_device
plugins_cpu_test_test_cpu_device_SOURCES = plugins/cpu/test/test_cpu_device.c
plugins_cpu_test_test_cpu_device_LDADD = plugins/cpu/libcpu.la $(DNNL_LIBS) $(LIBM) $(TEST_LIBS)
plugins_cpu_test_test_cpu_device_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/cpu
plugins_cpu_test_test_cpu_device_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/cpu/test/test_cpu_kernels
plugins_cpu_test_test_cpu_kernels_SOURCES = plugins/cpu/test/test_cpu_kernels.c $(trial_ops) \
	plugins/cpu/test/machine.c
plugins_cpu_test_test_cpu_kernels_LDADD = plugins/cpu/libcpu.la plugins/float8/libfloat8.la \
	$(DNNL_LIBS) $(LIBM) $(TEST_LIBS)
plugins_cpu_test_test_cpu_kernels_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/cpu \
	-I$(top_srcdir)/tests/lib
plugins_cpu_test_test_cpu_kernels_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/cpu/test/test_cpu_products
plugins_cpu_test_test_cpu_products_SOURCES = plugins/cpu/test/test_cpu_products.c \
	$(trial_products) plugins/cpu/test/machine.c
plugins_cpu_test_test_cpu_products_LDADD = plugins/cpu/libcpu.la plugins/float8/libfloat8.la \
	$(DNNL_LIBS) $(LIBM) $(TEST_LIBS)
plugins_cpu_test_test_cpu_products_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/cpu \
	-I$(top_srcdir)/tests/lib
plugins_cpu_test_test_cpu_products_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/cpu/test/test_cpu_sumsq
# Looks at what libweft does not export.
plugins_cpu_test_test_cpu_sumsq_LDADD = plugins/cpu/libcpu.la tests/lib/libstandard.la \
	lib/libinner.la $(DNNL_LIBS) $(CMOCKA_LIBS) $(LIBM)
plugins_cpu_test_test_cpu_sumsq_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/cpu
plugins_cpu_test_test_cpu_sumsq_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

nobase_dist_doc_DATA += plugins/cpu/README.md
