# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/hf/libhf.la
plugins_hf_libhf_la_SOURCES = \
	plugins/hf/boxes.c \
	plugins/hf/checkpoint.c \
	plugins/hf/config.c \
	plugins/hf/config_form.c \
	plugins/hf/config_write.c \
	plugins/hf/convert.c \
	plugins/hf/files.c \
	plugins/hf/hf.c \
	plugins/hf/json.c \
	plugins/hf/load.c \
	plugins/hf/map.c \
	plugins/hf/model.c \
	plugins/hf/place.c \
	plugins/hf/settings.c \
	plugins/hf/settings_read.c \
	plugins/hf/source.c \
	plugins/hf/table.c \
	plugins/hf/tokens.c \
	plugins/hf/write.c \
	plugins/hf/hf.h
plugins_hf_libhf_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)

EXTRA_LTLIBRARIES += plugins/hf/hf.la
plugins_hf_hf_la_SOURCES =
plugins_hf_hf_la_LIBADD = plugins/hf/libhf.la $(JANSSON_LIBS) $(PLUGIN_LIBS)

check_PROGRAMS += \
	plugins/hf/test/test_hf \
	plugins/hf/test/test_hf_config \
	plugins/hf/test/test_hf_place
plugins_hf_test_test_hf_SOURCES = plugins/hf/test/test_hf.c plugins/hf/test/folders.h
plugins_hf_test_test_hf_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
plugins_hf_test_test_hf_LDADD = plugins/hf/libhf.la $(MODEL_LIBS)
plugins_hf_test_test_hf_config_SOURCES = \
	plugins/hf/test/test_hf_config.c \
	plugins/hf/test/folders.h
plugins_hf_test_test_hf_config_CPPFLAGS = $(plugins_hf_test_test_hf_CPPFLAGS)
plugins_hf_test_test_hf_config_LDADD = $(plugins_hf_test_test_hf_LDADD)
plugins_hf_test_test_hf_place_CPPFLAGS = $(plugins_hf_test_test_hf_CPPFLAGS) \
	-I$(top_srcdir)/plugins/hf
plugins_hf_test_test_hf_place_LDADD = $(plugins_hf_test_test_hf_LDADD)

nobase_dist_doc_DATA += plugins/hf/README.md
