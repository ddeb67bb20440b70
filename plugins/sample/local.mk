# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/sample/libsample.la
plugins_sample_libsample_la_SOURCES = \
	plugins/sample/choose.c \
	plugins/sample/sample.c \
	plugins/sample/sample.h

EXTRA_LTLIBRARIES += plugins/sample/sample.la
plugins_sample_sample_la_SOURCES =
plugins_sample_sample_la_LIBADD = plugins/sample/libsample.la $(PLUGIN_LIBS)

check_PROGRAMS += plugins/sample/test/test_sample
plugins_sample_test_test_sample_LDADD = plugins/sample/libsample.la $(TEST_LIBS)

nobase_dist_doc_DATA += plugins/sample/README.md
