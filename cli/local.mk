# SPDX-License-Identifier: Apache-2.0
# The weft command, one file per subcommand.
noinst_PROGRAMS += weft
bin_PROGRAMS += cli/weft
weft_SOURCES = \
	cli/about.c \
	cli/about.h \
	cli/command.c \
	cli/config.c \
	cli/conform.c \
	cli/conform_child.c \
	cli/conform_commands.c \
	cli/conform_gradient.c \
	cli/conform_kernels.c \
	cli/conform_lengths.c \
	cli/conform_memory.c \
	cli/conform_modes.c \
	cli/conform_ops.c \
	cli/conform_order.c \
	cli/conform_own.c \
	cli/conform_plan.c \
	cli/conform_program.c \
	cli/conform_resume.c \
	cli/conform_runs.c \
	cli/conform_shards.c \
	cli/conform_states.c \
	cli/conform_texts.c \
	cli/conform_trial.c \
	cli/conform_use.c \
	cli/conform_values.c \
	cli/exit.c \
	cli/farewell.c \
	cli/folder.c \
	cli/folder.h \
	cli/generate.c \
	cli/generate_axes.c \
	cli/generate_options.c \
	cli/generate_source.c \
	cli/generate_texts.c \
	cli/generate_weights.c \
	cli/inspect.c \
	cli/job.c \
	cli/join.c \
	cli/launch.c \
	cli/launcher.c \
	cli/leftover.c \
	cli/lock.c \
	cli/log.c \
	cli/main.c \
	cli/new_plugin.c \
	cli/ops.c \
	cli/options.c \
	cli/oracle.c \
	cli/oracle_bound.c \
	cli/oracle_compare.c \
	cli/oracle_fed.c \
	cli/oracle_part.c \
	cli/oracle_record.c \
	cli/oracle_rounding.c \
	cli/oracle_rounding.h \
	cli/oracle_said.c \
	cli/oracle_settings.c \
	cli/oracle_trace.c \
	cli/oracle_values.c \
	cli/page.c \
	cli/page.h \
	cli/page_plan.c \
	cli/plan.c \
	cli/plan_ranks.c \
	cli/plan_ranks.h \
	cli/plan_timeline.c \
	cli/plan_timeline.h \
	cli/plan_trace.c \
	cli/plan_trace.h \
	cli/plugins.c \
	cli/probe.c \
	cli/processors.c \
	cli/ranks.c \
	cli/record.c \
	cli/record.h \
	cli/report.c \
	cli/session.c \
	cli/shared.c \
	cli/stop.c \
	cli/status.c \
	cli/train.c \
	cli/vet.c \
	cli/vet_libraries.c \
	cli/vet_set.c \
	cli/cli.h \
	cli/conform.h \
	cli/conform_trial.h \
	cli/generate.h \
	cli/job.h \
	cli/lock.h \
	cli/ops.h \
	cli/oracle.h \
	cli/probe.h \
	cli/processors.h \
	cli/shared.h \
	cli/stop.h \
	cli/ranks.h \
	cli/session.h \
	cli/templates.h \
	cli/vet.h
weft_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
weft_CPPFLAGS = $(AM_CPPFLAGS) -DWEFT_FEATURES='"$(FEATURES)"'
weft_LDADD = core/libweft.la $(JANSSON_LIBS) $(LIBM)
# Uninstalled it finds its library without LD_LIBRARY_PATH, which a lock of plugins refuses: it knows
# where that lies. What is installed is linked once more, and knows nothing of it.
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
	cli/templates/makefile.in \
	cli/templates/makefile_gradient.in \
	cli/templates/observer.c.in \
	cli/templates/op.c.in \
	cli/templates/optimizer.c.in \
	cli/templates/pass.c.in \
	cli/templates/readme.md.in \
	cli/templates/report.html.in \
	cli/templates/test.sh.in \
	cli/templates/test_gradient.c.in
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
	@$(MKDIR_P) $(@D) && commit=$$(cd '$(srcdir)' && if [ -e .git ]; then $(DESCRIBE); else cat .commit; fi 2>/dev/null || echo unknown) && \
	    printf 'extern const char weft_commit[];\nconst char weft_commit[] = "%s";\n' "$$commit" >$@.new && \
	    if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
CLEANFILES += cli/commit.c
EXTRA_DIST += $(templates)
