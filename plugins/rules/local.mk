# SPDX-License-Identifier: Apache-2.0
EXTRA_LTLIBRARIES += plugins/rules/rules.la
plugins_rules_rules_la_SOURCES = \
	plugins/rules/rules.c \
	plugins/rules/find.c \
	plugins/rules/unused.c \
	plugins/rules/rules.h
plugins_rules_rules_la_LIBADD = $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/rules/README.md
