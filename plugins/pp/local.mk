# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/pp/libpp.la
plugins_pp_libpp_la_SOURCES = \
	plugins/pp/auto.c \
	plugins/pp/choose.c \
	plugins/pp/csv.c \
	plugins/pp/greedy.c \
	plugins/pp/length.c \
	plugins/pp/lists.c \
	plugins/pp/pp.c \
	plugins/pp/pp.h \
	plugins/pp/schedule.c \
	plugins/pp/search.h \
	plugins/pp/schedules.c \
	plugins/pp/split.c

EXTRA_LTLIBRARIES += plugins/pp/pp.la
plugins_pp_pp_la_SOURCES =
plugins_pp_pp_la_LIBADD = plugins/pp/libpp.la $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/pp/README.md

dist_check_SCRIPTS += tests/scripts/check-auto
check_PROGRAMS += tests/unit/lib/test_best
tests_unit_lib_test_best_LDADD = plugins/pp/libpp.la $(TEST_LIBS)

# Tests of schedules, wherever they are.
pipeline_lists = tests/lib/pipeline_lists.c tests/lib/pipeline_lists.h
tests_unit_compile_test_schedule_SOURCES = tests/unit/compile/test_schedule.c \
	tests/lib/pipeline_sim.c tests/lib/pipeline_sim.h $(pipeline_lists)
tests_unit_compile_test_schedule_LDADD = plugins/pp/libpp.la $(TEST_LIBS)
tests_unit_compile_test_schedule_local_SOURCES = tests/unit/compile/test_schedule_local.c \
	$(pipeline_lists)
tests_unit_compile_test_schedule_local_LDADD = plugins/local/liblocal.la plugins/pp/libpp.la \
	$(TEST_LIBS)
tests_unit_lib_test_timeline_SOURCES = tests/unit/lib/test_timeline.c tests/lib/pipeline_sim.c \
	tests/lib/pipeline_sim.h $(pipeline_lists)
tests_unit_lib_test_timeline_LDADD = plugins/pp/libpp.la $(TEST_LIBS)
