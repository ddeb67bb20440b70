# SPDX-License-Identifier: Apache-2.0
# What the core, the command and plugins share, and the core does without.
noinst_LTLIBRARIES += lib/libkit.la lib/libshared.la lib/libinner.la
lib_libkit_la_SOURCES = \
	lib/kit/backward.c \
	lib/kit/boxes.c \
	lib/kit/builder.c \
	lib/kit/cache.c \
	lib/kit/control_groups.c \
	lib/kit/costs.c \
	lib/kit/f8_scale.c \
	lib/kit/far.c \
	lib/kit/gradients.c \
	lib/kit/head.c \
	lib/kit/host_room.c \
	lib/kit/join.c \
	lib/kit/kept.c \
	lib/kit/json.c \
	lib/kit/loss.c \
	lib/kit/pages.c \
	lib/kit/pairs.c \
	lib/kit/pattern.c \
	lib/kit/permute.c \
	lib/kit/ring.c \
	lib/kit/splits.c \
	lib/kit/sequence.c \
	lib/kit/sizes.c \
	lib/kit/stages.c \
	lib/kit/state.c \
	lib/kit/surgery.c \
	lib/kit/task_lists.c \
	lib/kit/updates.c \
	lib/kit/utc.c \
	lib/kit/views.c \
	lib/kit/vocabulary.c \
	lib/kit/weights.c \
	lib/kit/loss.h \
	lib/kit/pattern.h \
	lib/kit/shapes.h \
	lib/kit/task_lists.h
lib_libshared_la_SOURCES = \
	lib/console/built_in.c \
	lib/console/columns.c \
	lib/console/counts.c \
	lib/console/crash.c \
	lib/console/describe.c \
	lib/console/describe_man.c \
	lib/console/edits.c \
	lib/console/effective.c \
	lib/console/folders.c \
	lib/console/options.c \
	lib/console/pack.c \
	lib/console/built_in.h \
	lib/console/columns.h \
	lib/console/counts.h \
	lib/console/crash.h \
	lib/console/describe.h \
	lib/console/folders.h \
	lib/console/settings.h \
	lib/forecast/reproducer.c \
	lib/forecast/alike.c \
	lib/forecast/check.c \
	lib/forecast/costs.c \
	lib/forecast/course.c \
	lib/forecast/far.c \
	lib/forecast/forecast.c \
	lib/forecast/gathers.c \
	lib/forecast/graph.c \
	lib/forecast/identity.c \
	lib/forecast/libraries.c \
	lib/forecast/task_times.c \
	lib/forecast/pipeline.c \
	lib/forecast/profile.c \
	lib/forecast/reach.c \
	lib/forecast/repeats.c \
	lib/forecast/report.c \
	lib/forecast/roofline.c \
	lib/forecast/review.c \
	lib/forecast/room.c \
	lib/forecast/causal.c \
	lib/forecast/simulate.c \
	lib/forecast/stages.c \
	lib/forecast/svg.c \
	lib/forecast/timeline.c \
	lib/forecast/course.h lib/forecast/mix.h \
	lib/forecast/forecast.h \
	lib/forecast/profiles.h \
	lib/forecast/roofline.h \
	lib/forecast/timeline.h \
	lib/generate/decoder.c \
	lib/generate/generate.c \
	lib/generate/decoder.h \
	lib/generate/generate.h \
	lib/io/atomic_file.c \
	lib/io/box.c \
	lib/io/checkpoint.c \
	lib/io/fetch.c \
	lib/io/folder.c \
	lib/io/header.c \
	lib/io/io.c \
	lib/io/journal.c \
	lib/io/manifest.c \
	lib/io/merge.c \
	lib/io/open_file.c \
	lib/io/read.c \
	lib/io/safetensors.c \
	lib/io/shard.c \
	lib/io/shard_header.c \
	lib/io/sums.c \
	lib/io/tree.c \
	lib/io/types.c \
	lib/io/atomic_file.h \
	lib/io/internal.h \
	lib/io/shard.h \
	lib/net/agree.c \
	lib/net/control_tcp.c \
	lib/net/digest.c \
	lib/net/handshake.c \
	lib/net/link.c \
	lib/net/rendezvous.c \
	lib/net/rendezvous_host.c \
	lib/net/socket.c \
	lib/net/token.c \
	lib/net/agree.h lib/net/digest.h \
	lib/net/handshake.h \
	lib/net/link.h \
	lib/net/rendezvous.h \
	lib/net/socket.h \
	lib/net/token.h \
	lib/print/graph.c \
	lib/print/layout.c \
	lib/print/wraps.c \
	lib/print/graph.h \
	lib/print/wraps.h \
	lib/vet/elf.c \
	lib/vet/image.c \
	lib/vet/known.c \
	lib/vet/libraries.c \
	lib/vet/locks.c \
	lib/vet/sha256.c \
	lib/vet/signature.c \
	lib/vet/vetted.c \
	lib/vet/vetted_check.c \
	lib/vet/elf.h \
	lib/vet/image.h \
	lib/vet/known.h \
	lib/vet/locks.h \
	lib/vet/sha256.h \
	lib/vet/vetted.h
nodist_lib_libshared_la_SOURCES = lib/forecast/profiles.c
gpusdir = $(pkgdatadir)/gpus
gpus_DATA = \
	share/gpus/4090.ini \
	share/gpus/a100.ini \
	share/gpus/b200.ini \
	share/gpus/cpu-thread.ini \
	share/gpus/h100.ini \
	share/gpus/h100-500w.ini \
	share/gpus/h200.ini
lib/forecast/profiles.c: lib/forecast/make-profiles $(gpus_DATA)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && cd $(srcdir) && $(SHELL) lib/forecast/make-profiles $(gpus_DATA) \
	    >'$(abs_builddir)/$@.new' && mv '$(abs_builddir)/$@.new' '$(abs_builddir)/$@'
CLEANFILES += lib/forecast/profiles.c
lib_libshared_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(SODIUM_CFLAGS) $(XXHASH_CFLAGS) \
	-DWEFT_KNOWN_PLUGINS='"$(pkgdatadir)/plugins.known"' \
	-DWEFT_SYSTEM_KEY='"$(sysconfdir)/weft/plugins.key"' \
	-DWEFT_SYSTEM_LOCK='"$(sysconfdir)/weft/plugins.lock"'
lib_libshared_la_LIBADD = $(JANSSON_LIBS) $(SODIUM_LIBS) $(XXHASH_LIBS) $(LIBM)

# The core and these, for tests of their inner parts.
lib_libinner_la_SOURCES =
lib_libinner_la_LIBADD = core/libcore.la lib/libkit.la lib/libshared.la

EXTRA_DIST += $(gpus_DATA) lib/forecast/make-profiles \
	lib/console/README.md \
	lib/forecast/README.md \
	lib/generate/README.md \
	lib/io/README.md \
	lib/kit/README.md \
	lib/net/README.md \
	lib/print/README.md \
	lib/vet/README.md
