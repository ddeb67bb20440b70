# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/moe/libmoe.la
plugins_moe_libmoe_la_SOURCES = \
	plugins/moe/balance.c \
	plugins/moe/cpu.c \
	plugins/moe/grouped.c \
	plugins/moe/moe.c \
	plugins/moe/route.c \
	plugins/moe/slots.c \
	plugins/moe/table.c \
	plugins/moe/moe.h
plugins_moe_libmoe_la_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(VECTOR_CFLAGS)

EXTRA_LTLIBRARIES += plugins/moe/moe.la
plugins_moe_moe_la_SOURCES =
plugins_moe_moe_la_LIBADD = plugins/moe/libmoe.la $(PLUGIN_LIBS)
plugins_moe_moe_la_LDFLAGS = $(AM_LDFLAGS) $(OPENMP_CFLAGS)

nobase_dist_doc_DATA += plugins/moe/README.md
# What bench/peer asks Transformers.
EXTRA_DIST += bench/torch_first_loss.py

check_PROGRAMS += plugins/moe/test/test_balance
plugins_moe_test_test_balance_LDADD = plugins/moe/libmoe.la $(LIBM) $(TEST_LIBS)
plugins_moe_test_test_balance_LDFLAGS = $(AM_LDFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/moe/test/test_slots
plugins_moe_test_test_slots_LDADD = plugins/moe/libmoe.la $(TEST_LIBS)
plugins_moe_test_test_slots_LDFLAGS = $(AM_LDFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/moe/test/test_grouped
plugins_moe_test_test_grouped_SOURCES = plugins/moe/test/test_grouped.c
plugins_moe_test_test_grouped_LDADD = plugins/moe/libmoe.la plugins/cpu/libcpu.la $(DNNL_LIBS) \
	$(LIBM) $(TEST_LIBS)
plugins_moe_test_test_grouped_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/cpu
plugins_moe_test_test_grouped_LDFLAGS = $(AM_LDFLAGS) $(OPENMP_CFLAGS)
