# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/adamw/libadamw.la
plugins_adamw_libadamw_la_SOURCES = \
	plugins/adamw/adamw.c \
	plugins/adamw/cpu.c \
	plugins/adamw/joint.c \
	plugins/adamw/ops.c \
	plugins/adamw/schedule.c \
	plugins/adamw/adamw.h
plugins_adamw_libadamw_la_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(VECTOR_CFLAGS)

EXTRA_LTLIBRARIES += plugins/adamw/adamw.la
plugins_adamw_adamw_la_SOURCES =
plugins_adamw_adamw_la_LIBADD = plugins/adamw/libadamw.la $(PLUGIN_LIBS)
plugins_adamw_adamw_la_LDFLAGS = $(AM_LDFLAGS) $(OPENMP_CFLAGS)

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
