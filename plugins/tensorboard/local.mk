# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/tensorboard/libtensorboard.la
plugins_tensorboard_libtensorboard_la_SOURCES = \
	plugins/tensorboard/event.c \
	plugins/tensorboard/tensorboard.c \
	plugins/tensorboard/tensorboard.h
plugins_tensorboard_libtensorboard_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_tensorboard_tensorboard_la_SOURCES =
plugins_tensorboard_tensorboard_la_LIBADD = plugins/tensorboard/libtensorboard.la core/libweft.la $(LIBM)
if BUILTIN_TENSORBOARD
noinst_LTLIBRARIES += plugins/tensorboard/tensorboard.la
plugins_tensorboard_tensorboard_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/tensorboard/tensorboard.la
plugins_tensorboard_tensorboard_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif

check_PROGRAMS += plugins/tensorboard/test/test_tensorboard
plugins_tensorboard_test_test_tensorboard_LDADD = plugins/tensorboard/libtensorboard.la $(TEST_LIBS)

nobase_dist_doc_DATA += plugins/tensorboard/README.md
