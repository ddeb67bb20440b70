# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/ckpt/libckpt.la
plugins_ckpt_libckpt_la_SOURCES = \
	plugins/ckpt/agree.c \
	plugins/ckpt/buffer.c \
	plugins/ckpt/ckpt.c \
	plugins/ckpt/command.c \
	plugins/ckpt/commit.c \
	plugins/ckpt/compare.c \
	plugins/ckpt/identity.c \
	plugins/ckpt/load.c \
	plugins/ckpt/manifest.c \
	plugins/ckpt/names.c \
	plugins/ckpt/parts.c \
	plugins/ckpt/read.c \
	plugins/ckpt/save.c \
	plugins/ckpt/verify.c \
	plugins/ckpt/writer.c \
	plugins/ckpt/ckpt.h
plugins_ckpt_libckpt_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
plugins_ckpt_libckpt_la_LIBADD = $(JANSSON_LIBS)

EXTRA_LTLIBRARIES += plugins/ckpt/ckpt.la
plugins_ckpt_ckpt_la_SOURCES =
plugins_ckpt_ckpt_la_LIBADD = plugins/ckpt/libckpt.la $(PLUGIN_LIBS)

check_PROGRAMS += plugins/ckpt/test/test_ckpt plugins/ckpt/test/test_faults
plugins_ckpt_test_test_ckpt_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
plugins_ckpt_test_test_ckpt_LDADD = plugins/ckpt/libckpt.la $(TEST_LIBS) $(JANSSON_LIBS)

plugins_ckpt_test_test_faults_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
plugins_ckpt_test_test_faults_LDADD = plugins/ckpt/libckpt.la $(TEST_LIBS) $(JANSSON_LIBS)

nobase_dist_doc_DATA += plugins/ckpt/README.md
