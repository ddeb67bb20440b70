# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/metrics/libmetrics.la
plugins_metrics_libmetrics_la_SOURCES = \
	plugins/metrics/hash.c \
	plugins/metrics/lines.c \
	plugins/metrics/metrics.c \
	plugins/metrics/resume.c \
	plugins/metrics/window.c \
	plugins/metrics/metrics.h

EXTRA_LTLIBRARIES += plugins/metrics/metrics.la
plugins_metrics_metrics_la_SOURCES =
plugins_metrics_metrics_la_LIBADD = plugins/metrics/libmetrics.la $(PLUGIN_LIBS)

check_PROGRAMS += plugins/metrics/test/test_metrics
plugins_metrics_test_test_metrics_LDADD = plugins/metrics/libmetrics.la $(TEST_LIBS)

nobase_dist_doc_DATA += plugins/metrics/README.md
