# SPDX-License-Identifier: Apache-2.0
TEST_LIBS = tests/unit/libhelpers.la core/libweft.la $(CMOCKA_LIBS) $(LTDL_LIBS) $(LIBM)
LDADD = $(TEST_LIBS)

# A program test_x is made of test_x.c.
check_PROGRAMS += \
	tests/unit/test_base \
	tests/unit/test_files \
	tests/unit/test_ops \
	tests/unit/test_plugin_files \
	tests/unit/test_plugins \
	tests/unit/test_random \
	tests/unit/test_rule \
	tests/unit/test_settings \
	tests/unit/test_settings_files \
	tests/bad/ini/test_bad_ini

# What several tests share.
check_LTLIBRARIES += tests/unit/libhelpers.la
tests_unit_libhelpers_la_SOURCES = \
	tests/unit/opcheck.c \
	tests/unit/opcheck_shards.c \
	tests/unit/opcheck.h \
	tests/unit/plugin_run.h \
	tests/unit/settings_run.h

# Looks at what libweft does not export.
tests_unit_test_ops_LDADD = tests/unit/libhelpers.la core/libcore.la $(CMOCKA_LIBS) $(LIBM)

# Shared objects for the tests of the plugin loader, many of them wrong on purpose.
fixture_sources = \
	tests/fixtures/plugins/also_a.c \
	tests/fixtures/plugins/bad_default.c \
	tests/fixtures/plugins/bad_tables.c \
	tests/fixtures/plugins/cpu.c \
	tests/fixtures/plugins/crash_create.c \
	tests/fixtures/plugins/cycle_a.c \
	tests/fixtures/plugins/cycle_b.c \
	tests/fixtures/plugins/empty_metadata.c \
	tests/fixtures/plugins/fail_create.c \
	tests/fixtures/plugins/fail_open.c \
	tests/fixtures/plugins/good_a.c \
	tests/fixtures/plugins/good_b.c \
	tests/fixtures/plugins/mesh_late.c \
	tests/fixtures/plugins/no_symbol.c \
	tests/fixtures/plugins/other_name.c \
	tests/fixtures/plugins/refuser.c \
	tests/fixtures/plugins/second_device.c \
	tests/fixtures/plugins/stray_kernel.c \
	tests/fixtures/plugins/undefined_function.c \
	tests/fixtures/plugins/unmet.c \
	tests/fixtures/plugins/wrong_abi.c \
	tests/fixtures/plugins/wrong_magic.c \
	tests/fixtures/plugins/wrong_size.c
fixtures = $(fixture_sources:.c=.so)
check_DATA = $(fixtures)
$(fixtures): tests/fixtures/plugins/%.so: tests/fixtures/plugins/%.c tests/fixtures/plugins/fixture.h
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) -shared -fPIC -fvisibility=hidden $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -o $@ $<
CLEANFILES += $(fixtures)

dist_check_SCRIPTS += tests/scripts/check-bad-input tests/scripts/check-includes tests/scripts/check-parity tests/scripts/check-style
EXTRA_DIST += $(fixture_sources) tests/fixtures/plugins/fixture.h tests/bad

TESTS = $(check_PROGRAMS) $(dist_check_SCRIPTS)
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
AM_TESTS_ENVIRONMENT = \
	CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	WEFT_TREE='$(abs_top_srcdir)'; export WEFT_TREE; \
	WEFT='$(abs_top_builddir)/weft'; export WEFT; \
	WEFT_TEST_FIXTURES='$(abs_top_builddir)/tests/fixtures/plugins'; export WEFT_TEST_FIXTURES;

# Everything, however long it takes: all combinations instead of a sample.
.PHONY: check-long
check-long: all
	STRIDE=1 WEFT_LONG=1 $(MAKE) $(AM_MAKEFLAGS) check

# The programs once more, each under valgrind.
.PHONY: check-valgrind
check-valgrind: all
	@command -v valgrind >/dev/null || { echo "check-valgrind: there is no valgrind; apt-get install valgrind" >&2; exit 1; }
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(check_PROGRAMS)' \
	    LOG_COMPILER='$(LIBTOOL) --mode=execute valgrind --quiet --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=99'
