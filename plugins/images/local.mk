# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/images/libimages.la
plugins_images_libimages_la_SOURCES = \
	plugins/images/flow.c \
	plugins/images/images.c \
	plugins/images/prompts.c \
	plugins/images/images.h

EXTRA_LTLIBRARIES += plugins/images/images.la
plugins_images_images_la_SOURCES =
plugins_images_images_la_LIBADD = plugins/images/libimages.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/images/README.md

check_PROGRAMS += plugins/images/test/test_images_golden
plugins_images_test_test_images_golden_LDADD = plugins/images/libimages.la $(MODEL_LIBS)
plugins_images_test_test_images_golden_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/lib
