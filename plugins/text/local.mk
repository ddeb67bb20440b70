# SPDX-License-Identifier: Apache-2.0
TEXT_CFLAGS = $(JANSSON_CFLAGS) $(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS) $(XXHASH_CFLAGS) $(ZLIB_CFLAGS) \
	$(ZSTD_CFLAGS)
TEXT_LIBS = $(JANSSON_LIBS) $(PCRE2_LIBS) $(UTF8PROC_LIBS) $(XXHASH_LIBS) $(ZLIB_LIBS) $(ZSTD_LIBS)

noinst_LTLIBRARIES += plugins/text/libtext.la
plugins_text_libtext_la_SOURCES = \
	plugins/text/tokenizer/added.c \
	plugins/text/tokenizer/bpe.c \
	plugins/text/tokenizer/config.c \
	plugins/text/tokenizer/cut.c \
	plugins/text/tokenizer/decode.c \
	plugins/text/tokenizer/encode.c \
	plugins/text/tokenizer/json.c \
	plugins/text/tokenizer/load.c \
	plugins/text/tokenizer/load_added.c \
	plugins/text/tokenizer/load_decoders.c \
	plugins/text/tokenizer/load_model.c \
	plugins/text/tokenizer/load_steps.c \
	plugins/text/tokenizer/map.c \
	plugins/text/tokenizer/normalize.c \
	plugins/text/tokenizer/open.c \
	plugins/text/tokenizer/parts.c \
	plugins/text/tokenizer/pattern.c \
	plugins/text/tokenizer/ranks.c \
	plugins/text/tokenizer/scan.c \
	plugins/text/tokenizer/split.c \
	plugins/text/tokenizer/text_tokenizer.c \
	plugins/text/tokenizer/tiktoken.c \
	plugins/text/tokenizer/translate.c \
	plugins/text/tokenizer/unicode.c \
	plugins/text/tokenizer/utf8.c \
	plugins/text/tokenizer/config.h \
	plugins/text/tokenizer/engine.h \
	plugins/text/tokenizer/json.h \
	plugins/text/tokenizer/tiktoken.h \
	plugins/text/tokenizer/text_tokenizer.h \
	plugins/text/tokenizer/tokenizer.h \
	plugins/text/tokenizer/translate.h \
	plugins/text/tokenizer/unicode_tables.h \
	plugins/text/tokenizer/utf8.h \
	plugins/text/training/bpe.c \
	plugins/text/training/count.c \
	plugins/text/training/pairs.c \
	plugins/text/training/tokens.c \
	plugins/text/training/write.c \
	plugins/text/training/train.h \
	plugins/text/data/bin.c \
	plugins/text/data/bin_scan.c \
	plugins/text/data/blocks.c \
	plugins/text/data/build.c \
	plugins/text/data/cache.c \
	plugins/text/data/describe.c \
	plugins/text/data/encode.c \
	plugins/text/data/files.c \
	plugins/text/data/identity.c \
	plugins/text/data/input.c \
	plugins/text/data/job.c \
	plugins/text/data/jsonl.c \
	plugins/text/data/mix.c \
	plugins/text/data/plain.c \
	plugins/text/data/progress.c \
	plugins/text/data/samples.c \
	plugins/text/data/source.c \
	plugins/text/data/token_file.c \
	plugins/text/data/workers.c \
	plugins/text/data/writer.c \
	plugins/text/data/build.h \
	plugins/text/data/data.h \
	plugins/text/command/command.c \
	plugins/text/command/decode.c \
	plugins/text/command/encode.c \
	plugins/text/command/files.c \
	plugins/text/command/info.c \
	plugins/text/command/options.c \
	plugins/text/command/output.c \
	plugins/text/command/piece.c \
	plugins/text/command/read.c \
	plugins/text/command/train.c \
	plugins/text/command/work.c \
	plugins/text/command/command.h \
	plugins/text/service.c \
	plugins/text/text.c \
	plugins/text/text.h
plugins_text_libtext_la_CFLAGS = $(AM_CFLAGS) $(TEXT_CFLAGS)

EXTRA_LTLIBRARIES += plugins/text/text.la
plugins_text_text_la_SOURCES =
plugins_text_text_la_LIBADD = plugins/text/libtext.la $(TEXT_LIBS) $(PLUGIN_LIBS)

check_PROGRAMS += \
	plugins/text/test/fuzz_text \
	plugins/text/test/fuzz_tokenizer \
	plugins/text/test/test_text \
	plugins/text/test/test_text_bin \
	plugins/text/test/test_text_cache \
	plugins/text/test/test_text_identity \
	plugins/text/test/test_text_input \
	plugins/text/test/test_text_many \
	plugins/text/test/test_text_mix \
	plugins/text/test/test_tokenizer \
	plugins/text/test/test_tokenizer_cut \
	plugins/text/test/test_tokenizer_file \
	plugins/text/test/test_tokenizer_run \
	plugins/text/test/test_train \
	plugins/text/test/test_train_command \
	plugins/text/test/test_train_cut \
	plugins/text/test/test_train_ranks

TEXT_TEST_LIBS = plugins/text/libtext.la $(TEXT_LIBS) $(TEST_LIBS)
plugins_text_test_fuzz_text_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_fuzz_tokenizer_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_text_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_text_bin_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_text_cache_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_text_identity_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_text_input_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_text_many_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_text_mix_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_tokenizer_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_tokenizer_cut_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_tokenizer_file_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_tokenizer_run_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_train_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_train_command_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_train_cut_LDADD = $(TEXT_TEST_LIBS)
plugins_text_test_test_train_ranks_LDADD = $(TEXT_TEST_LIBS)
# These look inside the plugin.
plugins_text_test_test_train_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/text
plugins_text_test_test_train_command_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/text
plugins_text_test_test_train_cut_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/text
plugins_text_test_test_train_ranks_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/text

EXTRA_DIST += \
	plugins/text/test/corpus \
	plugins/text/test/corpus_tokenizer \
	plugins/text/test/golden \
	plugins/text/test/make_golden.py \
	plugins/text/test/text_run.h \
	plugins/text/test/train_reference.h \
	plugins/text/tokenizer/make_unicode.py

nobase_dist_doc_DATA += plugins/text/README.md
