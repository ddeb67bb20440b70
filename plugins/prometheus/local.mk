# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/prometheus/libprometheus.la
plugins_prometheus_libprometheus_la_SOURCES = plugins/prometheus/prometheus.c

EXTRA_LTLIBRARIES += plugins/prometheus/prometheus.la
plugins_prometheus_prometheus_la_SOURCES =
plugins_prometheus_prometheus_la_LIBADD = plugins/prometheus/libprometheus.la $(PLUGIN_LIBS)

check_PROGRAMS += plugins/prometheus/test/test_prometheus
plugins_prometheus_test_test_prometheus_LDADD = plugins/prometheus/libprometheus.la $(TEST_LIBS)

nobase_dist_doc_DATA += plugins/prometheus/README.md
