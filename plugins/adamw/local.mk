# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/adamw/libadamw.la
plugins_adamw_libadamw_la_SOURCES = \
	plugins/adamw/adamw.c \
	plugins/adamw/cpu.c \
	plugins/adamw/joint.c \
	plugins/adamw/ops.c \
	plugins/adamw/schedule.c \
	plugins/adamw/adamw.h
plugins_adamw_libadamw_la_CFLAGS = $(PLUGIN_CFLAGS) $(OPENMP_CFLAGS) $(VECTOR_CFLAGS)

plugins_adamw_adamw_la_SOURCES =
plugins_adamw_adamw_la_LIBADD = plugins/adamw/libadamw.la core/libweft.la $(LIBM)
if BUILTIN_ADAMW
noinst_LTLIBRARIES += plugins/adamw/adamw.la
plugins_adamw_adamw_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/adamw/adamw.la
plugins_adamw_adamw_la_LDFLAGS = $(PLUGIN_LDFLAGS) $(OPENMP_CFLAGS)
endif

check_PROGRAMS += plugins/adamw/test/test_joint
plugins_adamw_test_test_joint_LDADD = plugins/adamw/libadamw.la $(TEST_LIBS)
plugins_adamw_test_test_joint_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/adamw/test/test_schedule
plugins_adamw_test_test_schedule_LDADD = plugins/adamw/libadamw.la $(TEST_LIBS)
plugins_adamw_test_test_schedule_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

check_PROGRAMS += plugins/adamw/test/test_update
plugins_adamw_test_test_update_LDADD = plugins/adamw/libadamw.la $(TEST_LIBS)
plugins_adamw_test_test_update_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

nobase_dist_doc_DATA += plugins/adamw/README.md
