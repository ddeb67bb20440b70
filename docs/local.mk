# SPDX-License-Identifier: Apache-2.0
nobase_dist_doc_DATA += \
	docs/architecture.md \
	docs/checkpoints.md \
	docs/clusters.md \
	docs/float8.md \
	docs/float8.svg \
	docs/generate.md \
	docs/gpu.md \
	docs/hf.md \
	docs/ini.md \
	docs/ablations.md \
	docs/oracle.md \
	docs/packaging.md \
	docs/pipeline.svg \
	docs/pipelines.md \
	docs/plan.md \
	docs/tokenizers.md \
	docs/verified.md \
	docs/overlap.md \
	docs/tune.md \
	docs/vetting.md \
	docs/where.md \
	docs/writing-plugins.md

# Pages for man and the table of ops, made by the program that was built from its own tables: after
# everything else, and not where it cannot run.
EXTRA_DIST += docs/make-pages docs/make-completion docs/make-sbom
man1dir = $(mandir)/man1
man5dir = $(mandir)/man5
man7dir = $(mandir)/man7
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
if NATIVE
all-local: pages/stamp
pages/stamp: weft$(EXEEXT) $(plugin_LTLIBRARIES) docs/make-pages docs/make-completion
	$(AM_V_GEN)rm -rf pages && $(MKDIR_P) pages && \
	    $(SHELL) $(srcdir)/docs/make-pages ./weft$(EXEEXT) pages && \
	    $(SHELL) $(srcdir)/docs/make-completion ./weft$(EXEEXT) pages && touch $@
install-data-local: pages/stamp
	$(MKDIR_P) '$(DESTDIR)$(man1dir)' '$(DESTDIR)$(man5dir)' '$(DESTDIR)$(man7dir)' \
	    '$(DESTDIR)$(docdir)/docs' \
	    '$(DESTDIR)$(bashcompletiondir)' '$(DESTDIR)$(zshcompletiondir)'
	$(INSTALL_DATA) pages/*.1 '$(DESTDIR)$(man1dir)'
	$(INSTALL_DATA) pages/*.5 '$(DESTDIR)$(man5dir)'
	$(INSTALL_DATA) pages/*.7 '$(DESTDIR)$(man7dir)'
	$(INSTALL_DATA) pages/ops.md '$(DESTDIR)$(docdir)/docs'
	$(INSTALL_DATA) pages/weft.bash '$(DESTDIR)$(bashcompletiondir)/weft'
	$(INSTALL_DATA) pages/weft.zsh '$(DESTDIR)$(zshcompletiondir)/_weft'
uninstall-local:
	cd pages && for page in *.1; do rm -f '$(DESTDIR)$(man1dir)/'$$page; done
	cd pages && for page in *.7; do rm -f '$(DESTDIR)$(man7dir)/'$$page; done
	rm -f '$(DESTDIR)$(docdir)/docs/ops.md' '$(DESTDIR)$(man5dir)/weft.ini.5' \
	    '$(DESTDIR)$(bashcompletiondir)/weft' '$(DESTDIR)$(zshcompletiondir)/_weft'
endif

# What a build is made of, for programs that look for that.
.PHONY: sbom
sbom: weft-sbom.spdx.json
dist_doc_DATA = SECURITY.md
nodist_doc_DATA = weft-sbom.spdx.json
CLEANFILES += weft-sbom.spdx.json
weft-sbom.spdx.json: config.status cli/commit.c docs/make-sbom
	$(AM_V_GEN)$(SHELL) $(srcdir)/docs/make-sbom '$(VERSION)' \
	    "`sed -n 's/^const char weft_commit.*"\(.*\)";/\1/p' cli/commit.c`" \
	    $(SBOM) >$@.new && mv $@.new $@
clean-local:
	rm -rf pages
