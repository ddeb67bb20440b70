# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/flight/libflight.la
plugins_flight_libflight_la_SOURCES = \
	plugins/flight/analyse.c \
	plugins/flight/command.c \
	plugins/flight/flight.c \
	plugins/flight/read.c \
	plugins/flight/record.c \
	plugins/flight/report.c \
	plugins/flight/ring.c \
	plugins/flight/words.c \
	plugins/flight/wrap.c \
	plugins/flight/flight.h

EXTRA_LTLIBRARIES += plugins/flight/flight.la
plugins_flight_flight_la_SOURCES =
plugins_flight_flight_la_LIBADD = plugins/flight/libflight.la $(PLUGIN_LIBS)

check_PROGRAMS += plugins/flight/test/test_flight plugins/flight/test/test_flight_files
flight_ranks = plugins/flight/test/ranks.c plugins/flight/test/ranks.h
plugins_flight_test_test_flight_SOURCES = plugins/flight/test/test_flight.c $(flight_ranks)
plugins_flight_test_test_flight_LDADD = plugins/flight/libflight.la $(TEST_LIBS)
plugins_flight_test_test_flight_files_SOURCES = plugins/flight/test/test_flight_files.c \
	$(flight_ranks)
plugins_flight_test_test_flight_files_LDADD = plugins/flight/libflight.la $(TEST_LIBS)

nobase_dist_doc_DATA += plugins/flight/README.md
