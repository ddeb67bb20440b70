# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/tensorboard/libtensorboard.la
plugins_tensorboard_libtensorboard_la_SOURCES = \
	plugins/tensorboard/event.c \
	plugins/tensorboard/settings.c \
	plugins/tensorboard/tensorboard.c \
	plugins/tensorboard/tensorboard.h

EXTRA_LTLIBRARIES += plugins/tensorboard/tensorboard.la
plugins_tensorboard_tensorboard_la_SOURCES =
plugins_tensorboard_tensorboard_la_LIBADD = plugins/tensorboard/libtensorboard.la $(PLUGIN_LIBS)

check_PROGRAMS += plugins/tensorboard/test/test_tensorboard
plugins_tensorboard_test_test_tensorboard_LDADD = plugins/tensorboard/libtensorboard.la $(TEST_LIBS)

nobase_dist_doc_DATA += plugins/tensorboard/README.md
