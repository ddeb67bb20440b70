# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/profile/libprofile.la
plugins_profile_libprofile_la_SOURCES = \
	plugins/profile/merge.c \
	plugins/profile/profile.c \
	plugins/profile/rates.c \
	plugins/profile/record.c \
	plugins/profile/table.c \
	plugins/profile/trace.c \
	plugins/profile/profile.h
plugins_profile_libprofile_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)

EXTRA_LTLIBRARIES += plugins/profile/profile.la
plugins_profile_profile_la_SOURCES =
plugins_profile_profile_la_LIBADD = plugins/profile/libprofile.la $(JANSSON_LIBS) $(PLUGIN_LIBS)

check_PROGRAMS += plugins/profile/test/test_profile
plugins_profile_test_test_profile_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
plugins_profile_test_test_profile_LDADD = plugins/profile/libprofile.la $(TEST_LIBS) $(JANSSON_LIBS)

nobase_dist_doc_DATA += plugins/profile/README.md
