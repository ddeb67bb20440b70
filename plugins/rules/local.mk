# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/rules/librules.la
plugins_rules_librules_la_SOURCES = \
	plugins/rules/rules.c \
	plugins/rules/find.c \
	plugins/rules/unused.c \
	plugins/rules/rules.h
plugins_rules_librules_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_rules_rules_la_SOURCES =
plugins_rules_rules_la_LIBADD = plugins/rules/librules.la core/libweft.la $(LIBM)
if BUILTIN_RULES
noinst_LTLIBRARIES += plugins/rules/rules.la
plugins_rules_rules_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/rules/rules.la
plugins_rules_rules_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
nobase_dist_doc_DATA += plugins/rules/README.md
