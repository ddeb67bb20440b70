# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/text/libtext.la
plugins_text_libtext_la_SOURCES = \
	plugins/text/build.c \
	plugins/text/cache.c \
	plugins/text/files.c \
	plugins/text/identity.c \
	plugins/text/jsonl.c \
	plugins/text/plain.c \
	plugins/text/samples.c \
	plugins/text/text.c \
	plugins/text/token_file.c \
	plugins/text/tokenizer.c \
	plugins/text/utf8.c \
	plugins/text/writer.c \
	plugins/text/text.h
plugins_text_libtext_la_CFLAGS = $(PLUGIN_CFLAGS) $(JANSSON_CFLAGS)

plugins_text_text_la_SOURCES =
plugins_text_text_la_LIBADD = plugins/text/libtext.la core/libweft.la $(JANSSON_LIBS)
if BUILTIN_TEXT
noinst_LTLIBRARIES += plugins/text/text.la
plugins_text_text_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/text/text.la
plugins_text_text_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif

check_PROGRAMS += plugins/text/test/test_text
plugins_text_test_test_text_LDADD = plugins/text/libtext.la $(JANSSON_LIBS) $(TEST_LIBS)

check_PROGRAMS += plugins/text/test/test_text_cache
plugins_text_test_test_text_cache_LDADD = plugins/text/libtext.la $(JANSSON_LIBS) $(TEST_LIBS)

check_PROGRAMS += plugins/text/test/test_text_input
plugins_text_test_test_text_input_LDADD = plugins/text/libtext.la $(JANSSON_LIBS) $(TEST_LIBS)

EXTRA_DIST += plugins/text/test/text_run.h plugins/text/README.md
