# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/ac/libac.la
plugins_ac_libac_la_SOURCES = \
	plugins/ac/ac.c \
	plugins/ac/budget.c \
	plugins/ac/budget.h \
	plugins/ac/choice.c \
	plugins/ac/front.c \
	plugins/ac/late.c \
	plugins/ac/layers.c \
	plugins/ac/share.c \
	plugins/ac/tries.c \
	plugins/ac/ac.h

EXTRA_LTLIBRARIES += plugins/ac/ac.la
plugins_ac_ac_la_SOURCES =
plugins_ac_ac_la_LIBADD = plugins/ac/libac.la $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/ac/README.md

check_PROGRAMS += plugins/ac/test/test_ac_front
plugins_ac_test_test_ac_front_LDADD = plugins/ac/libac.la $(TEST_LIBS)
