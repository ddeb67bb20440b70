# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/disk/libdisk.la
plugins_disk_libdisk_la_SOURCES = \
	plugins/disk/command.c \
	plugins/disk/disk.c \
	plugins/disk/disk.h \
	plugins/disk/file.c \
	plugins/disk/queue.c

EXTRA_LTLIBRARIES += plugins/disk/disk.la
plugins_disk_disk_la_SOURCES =
plugins_disk_disk_la_LIBADD = plugins/disk/libdisk.la $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/disk/README.md

check_PROGRAMS += plugins/disk/test/test_disk
plugins_disk_test_test_disk_LDADD = plugins/disk/libdisk.la $(TEST_LIBS)
