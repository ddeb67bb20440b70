# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/dump/libdump.la
plugins_dump_libdump_la_SOURCES = \
	plugins/dump/dump.c \
	plugins/dump/files.c \
	plugins/dump/joint.c \
	plugins/dump/dump.h

EXTRA_LTLIBRARIES += plugins/dump/dump.la
plugins_dump_dump_la_SOURCES =
plugins_dump_dump_la_LIBADD = plugins/dump/libdump.la $(PLUGIN_LIBS)

check_PROGRAMS += plugins/dump/test/test_dump
plugins_dump_test_test_dump_LDADD = plugins/dump/libdump.la $(TEST_LIBS)

check_PROGRAMS += plugins/dump/test/test_marks
plugins_dump_test_test_marks_LDADD = plugins/dump/libdump.la $(TEST_LIBS)

nobase_dist_doc_DATA += plugins/dump/README.md
