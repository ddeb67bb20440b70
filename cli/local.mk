# SPDX-License-Identifier: Apache-2.0
# The weft command: what its subcommands share, and those that are small. tools/ has the others.
noinst_PROGRAMS += weft
bin_PROGRAMS += cli/weft
weft_SOURCES = \
	cli/about.c \
	cli/command.c \
	cli/config.c \
	cli/plugin_exit.c \
	cli/folder.c \
	cli/inspect.c \
	cli/inspect_check.c \
	cli/inspect_check.h \
	cli/lock.c \
	cli/log.c \
	cli/main.c \
	cli/new_plugin.c \
	cli/ops.c \
	cli/options.c \
	cli/report.c \
	cli/report_plan.c \
	cli/plan.c \
	cli/plan_changed.c \
	cli/plan_ranks.c \
	cli/plan_timeline.c \
	cli/plan_trace.c \
	cli/plugins.c \
	cli/probe.c \
	cli/processors.c \
	cli/record.c \
	cli/room.c \
	cli/output.c \
	cli/process.c \
	cli/session.c \
	cli/shared.c \
	cli/status.c \
	cli/train.c \
	cli/about.h \
	cli/cli.h \
	cli/folder.h \
	cli/lock.h \
	cli/ops.h \
	cli/report.h \
	cli/plan_changed.h \
	cli/plan_ranks.h \
	cli/plan_timeline.h \
	cli/plan_trace.h \
	cli/probe.h \
	cli/process.h \
	cli/processors.h \
	cli/room.h \
	cli/record.h \
	cli/session.h \
	cli/shared.h \
	cli/templates.h \
	cli/launch/farewell.c \
	cli/launch/job.c \
	cli/launch/join.c \
	cli/launch/launch.c \
	cli/launch/launcher.c \
	cli/launch/leftover.c \
	cli/launch/ranks.c \
	cli/launch/stop.c \
	cli/study/csv.c \
	cli/study/differ.c \
	cli/study/page.c \
	cli/study/plan.c \
	cli/study/steps.c \
	cli/study/subject.c \
	cli/launch/job.h \
	cli/launch/ranks.h \
	cli/launch/stop.h \
	cli/study/csv.h \
	cli/study/differ.h \
	cli/study/page.h \
	cli/study/plan.h \
	cli/study/steps.h \
	cli/study/subject.h
weft_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
weft_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/cli -DWEFT_FEATURES='"$(FEATURES)"'
weft_LDADD = core/libweft.la $(JANSSON_LIBS) $(LIBM)
# Uninstalled it finds its library without LD_LIBRARY_PATH, which a lock of plugins refuses: it
# knows where that lies. What is installed is linked once more, and knows nothing of it.
weft_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath,'$$ORIGIN/../core/.libs' $(BUILTIN_PLUGIN_FLAGS)
cli_weft_SOURCES =
cli_weft_LDADD = $(weft_OBJECTS) $(weft_LDADD)
cli_weft_DEPENDENCIES = $(weft_OBJECTS) $(weft_DEPENDENCIES)
cli_weft_LDFLAGS = $(AM_LDFLAGS) $(BUILTIN_PLUGIN_FLAGS)
if BUILTIN_PLUGINS
weft_SOURCES += cli/builtin.c
weft_LDADD += $(LTDL_LIBS)
# libtool does not see that -dlpreopen needs the plugins.
EXTRA_weft_DEPENDENCIES = $(noinst_LTLIBRARIES)
EXTRA_cli_weft_DEPENDENCIES = $(noinst_LTLIBRARIES)
endif

# Files of `weft new-plugin`, and the page of `weft report`, as C strings.
templates = \
	cli/templates/axis.c.in \
	cli/templates/command.c.in \
	cli/templates/makefile.in \
	cli/templates/makefile_gradient.in \
	cli/templates/observer.c.in \
	cli/templates/op.c.in \
	cli/templates/optimizer.c.in \
	cli/templates/pass.c.in \
	cli/templates/readme.md.in \
	cli/templates/report.html.in \
	cli/templates/study.html.in \
	cli/templates/test.sh.in \
	cli/templates/test_gradient.c.in \
	cli/templates/model.c.in \
	cli/templates/data.c.in \
	cli/templates/wrap.c.in
nodist_weft_SOURCES = cli/template_texts.c
cli/template_texts.c: $(templates) cli/local.mk
	$(AM_V_GEN)$(MKDIR_P) $(@D) && for file in $(filter %.in,$^); do \
	    name=weft_template_`basename $$file .in | tr . _`; \
	    echo "extern const char $$name[];"; \
	    echo "const char $$name[] ="; \
	    sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $$file && echo ';' || exit 1; \
	done >$@.new && mv $@.new $@
CLEANFILES += cli/template_texts.c

# Which commit this is: of the checkout, or the one that a tarball was made of.
nodist_weft_SOURCES += cli/commit.c
cli/commit.c: FORCE
	@$(MKDIR_P) $(@D) && commit=$$(cd '$(srcdir)' && \
	        if [ -e .git ]; then $(DESCRIBE); else cat .commit; fi 2>/dev/null || echo unknown) && \
	    printf 'extern const char weft_commit[];\nconst char weft_commit[] = "%s";\n' \
	        "$$commit" >$@.new && \
	    if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
CLEANFILES += cli/commit.c
EXTRA_DIST += $(templates) cli/README.md cli/launch/README.md cli/study/README.md

check_PROGRAMS += tests/unit/cli/test_room
tests_unit_cli_test_room_SOURCES = tests/unit/cli/test_room.c cli/room.c cli/processors.c
tests_unit_cli_test_room_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) -I$(top_srcdir)/cli
tests_unit_cli_test_room_LDADD = $(TEST_LIBS)
