# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/prometheus/libprometheus.la
plugins_prometheus_libprometheus_la_SOURCES = plugins/prometheus/prometheus.c
plugins_prometheus_libprometheus_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_prometheus_prometheus_la_SOURCES =
plugins_prometheus_prometheus_la_LIBADD = plugins/prometheus/libprometheus.la core/libweft.la $(LIBM)
if BUILTIN_PROMETHEUS
noinst_LTLIBRARIES += plugins/prometheus/prometheus.la
plugins_prometheus_prometheus_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/prometheus/prometheus.la
plugins_prometheus_prometheus_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif

check_PROGRAMS += plugins/prometheus/test/test_prometheus
plugins_prometheus_test_test_prometheus_LDADD = plugins/prometheus/libprometheus.la $(TEST_LIBS)

nobase_dist_doc_DATA += plugins/prometheus/README.md
