# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/costs/libcosts.la
plugins_costs_libcosts_la_SOURCES = plugins/costs/costs.c plugins/costs/costs.h

EXTRA_LTLIBRARIES += plugins/costs/costs.la
plugins_costs_costs_la_SOURCES = plugins/costs/plugin.c
plugins_costs_costs_la_LIBADD = plugins/costs/libcosts.la $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/costs/README.md

# Predictions held against published runs: by hand, make check-costs CSV=FILE of the columns of
# tests/costs/README.md.
EXTRA_PROGRAMS += tests/costs/predict # not a test: it reads what check-costs asks
check_DATA += tests/costs/predict$(EXEEXT)
dist_check_SCRIPTS += tests/scripts/check-costs
tests_costs_predict_SOURCES = tests/costs/predict.c
tests_costs_predict_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/cli
tests_costs_predict_LDADD = $(filter-out %-main.$(OBJEXT),$(weft_OBJECTS)) $(weft_LDADD)
tests_costs_predict_LDFLAGS = $(weft_LDFLAGS)
EXTRA_tests_costs_predict_DEPENDENCIES = $(weft_OBJECTS)
frameworksdir = $(pkgdatadir)/frameworks
frameworks_DATA = \
	share/frameworks/gpt-neox-like.ini \
	share/frameworks/llm-foundry.ini \
	share/frameworks/llmq.ini \
	share/frameworks/megatron-deepspeed.ini \
	share/frameworks/nanotron.ini \
	share/frameworks/torchtitan.ini
EXTRA_DIST += $(frameworks_DATA) tests/costs/README.md tests/costs/check_costs.py \
	tests/costs/invented.csv
.PHONY: check-costs
check-costs: all tests/costs/predict
	WEFT_TREE='$(abs_top_srcdir)' python3 '$(srcdir)/tests/costs/check_costs.py' --write --jobs 2 \
	    --predict tests/costs/predict '$(CSV)'
