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
	docs/oracle.md \
	docs/packaging.md \
	docs/pipelines.md \
	docs/plan.md \
	docs/tokenizers.md \
	docs/vetting.md \
	docs/writing-plugins.md

# Pages for man and the table of ops, made by the program that was built from its own tables: after
# everything else, and not where it cannot run.
EXTRA_DIST += docs/make-pages
man1dir = $(mandir)/man1
man7dir = $(mandir)/man7
if NATIVE
all-local: pages/stamp
pages/stamp: weft$(EXEEXT) $(plugin_LTLIBRARIES) docs/make-pages
	$(AM_V_GEN)rm -rf pages && $(MKDIR_P) pages && \
	    $(SHELL) $(srcdir)/docs/make-pages ./weft$(EXEEXT) pages && touch $@
install-data-local: pages/stamp
	$(MKDIR_P) '$(DESTDIR)$(man1dir)' '$(DESTDIR)$(man7dir)' '$(DESTDIR)$(docdir)/docs'
	$(INSTALL_DATA) pages/*.1 '$(DESTDIR)$(man1dir)'
	$(INSTALL_DATA) pages/*.7 '$(DESTDIR)$(man7dir)'
	$(INSTALL_DATA) pages/ops.md '$(DESTDIR)$(docdir)/docs'
uninstall-local:
	cd pages && for page in *.1; do rm -f '$(DESTDIR)$(man1dir)/'$$page; done
	cd pages && for page in *.7; do rm -f '$(DESTDIR)$(man7dir)/'$$page; done
	rm -f '$(DESTDIR)$(docdir)/docs/ops.md'
endif
clean-local:
	rm -rf pages
