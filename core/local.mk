# SPDX-License-Identifier: Apache-2.0
# The core's code, folders in the order of dependence. Tests of its inner parts link this.
noinst_LTLIBRARIES += core/libcore.la
core_libcore_la_SOURCES = \
	core/base/atomic_file.c \
	core/base/blame.c \
	core/base/boxes.c \
	core/base/clock.c \
	core/base/columns.c \
	core/base/dtype.c \
	core/base/error.c \
	core/base/files.c \
	core/base/journal.c \
	core/base/log.c \
	core/base/memory.c \
	core/base/open_file.c \
	core/base/pairs.c \
	core/base/pool.c \
	core/base/random.c \
	core/base/safetensors.c \
	core/base/text.c \
	core/base/atomic_file.h \
	core/base/columns.h \
	core/store/box.c \
	core/store/fetch.c \
	core/store/folder.c \
	core/store/header.c \
	core/store/io.c \
	core/store/manifest.c \
	core/store/merge.c \
	core/store/read.c \
	core/store/shard.c \
	core/store/shard_header.c \
	core/store/sums.c \
	core/store/tree.c \
	core/store/types.c \
	core/store/internal.h \
	core/store/shard.h \
	core/settings/beside.c \
	core/settings/check.c \
	core/settings/core_params.c \
	core/settings/ini.c \
	core/settings/listed.c \
	core/settings/nearest.c \
	core/settings/options.c \
	core/settings/params.c \
	core/settings/print.c \
	core/settings/settings.c \
	core/settings/unknown.c \
	core/settings/utf8.c \
	core/settings/value.c \
	core/settings/ini.h \
	core/settings/internal.h \
	core/settings/settings.h \
	core/plugin/arrange.c \
	core/plugin/capability.c \
	core/plugin/crash.c \
	core/plugin/describe.c \
	core/plugin/describe_man.c \
	core/plugin/descriptor.c \
	core/plugin/elf.c \
	core/plugin/enter.c \
	core/plugin/image.c \
	core/plugin/forward_data.c \
	core/plugin/forward_device.c \
	core/plugin/forward_state.c \
	core/plugin/forward_transport.c \
	core/plugin/known.c \
	core/plugin/libraries.c \
	core/plugin/loader.c \
	core/plugin/module.c \
	core/plugin/names.c \
	core/plugin/order.c \
	core/plugin/search.c \
	core/plugin/services.c \
	core/plugin/set.c \
	core/plugin/sha256.c \
	core/plugin/signature.c \
	core/plugin/sort.c \
	core/plugin/uninstalled.c \
	core/plugin/vetted.c \
	core/plugin/vetted_check.c \
	core/plugin/vocabulary.c \
	core/plugin/wrap.c \
	core/plugin/crash.h \
	core/plugin/elf.h \
	core/plugin/enter.h \
	core/plugin/image.h \
	core/plugin/internal.h \
	core/plugin/order.h \
	core/plugin/plugins.h \
	core/plugin/sha256.h \
	core/plugin/vetted.h \
	core/plugin/wrap.h \
	core/mesh/layout.c \
	core/mesh/mesh.c \
	core/mesh/plan.c \
	core/mesh/steps.c \
	core/mesh/plan.h \
	core/graph/attrs.c \
	core/graph/autodiff.c \
	core/graph/autodiff_function.c \
	core/graph/autodiff_node.c \
	core/graph/autodiff_reach.c \
	core/graph/autodiff_sum.c \
	core/graph/build.c \
	core/graph/cache.c \
	core/graph/grad.c \
	core/graph/graph.c \
	core/graph/head.c \
	core/graph/infer.c \
	core/graph/insert.c \
	core/graph/line.c \
	core/graph/loss.c \
	core/graph/map.c \
	core/graph/marks.c \
	core/graph/move.c \
	core/graph/node.c \
	core/graph/optimize.c \
	core/graph/order.c \
	core/graph/parse.c \
	core/graph/parse_node.c \
	core/graph/gather.c \
	core/graph/parts.c \
	core/graph/stages.c \
	core/graph/place.c \
	core/graph/print.c \
	core/graph/query.c \
	core/graph/reader.c \
	core/graph/remove.c \
	core/graph/ring.c \
	core/graph/rule.c \
	core/graph/state.c \
	core/graph/surgery.c \
	core/graph/table.c \
	core/graph/user_rules.c \
	core/graph/verify.c \
	core/graph/autodiff.h \
	core/graph/internal.h \
	core/graph/watch.h \
	core/graph/grad.h \
	core/graph/map.h \
	core/graph/print.h \
	core/graph/reader.h \
	core/graph/rule.h \
	core/graph/ops/activation.c \
	core/graph/ops/add.c \
	core/graph/ops/attention.c \
	core/graph/ops/cache.c \
	core/graph/ops/chunk.c \
	core/graph/ops/embedding.c \
	core/graph/ops/linear.c \
	core/graph/ops/loss.c \
	core/graph/ops/norm.c \
	core/graph/ops/rope.c \
	core/graph/ops/scalar.c \
	core/graph/ops/source.c \
	core/graph/ops/table.c \
	core/graph/ops/tensor.c \
	core/graph/ops/ops.h \
	core/schedule/builtin.c \
	core/schedule/circles.c \
	core/schedule/costs.c \
	core/schedule/simulate.c \
	core/schedule/svg.c \
	core/schedule/tasks.c \
	core/schedule/text.c \
	core/schedule/timeline.c \
	core/schedule/verify.c \
	core/schedule/schedule.h \
	core/schedule/timeline.h \
	core/schedule/verify.h \
	core/lower/alike.c \
	core/lower/boundaries.c \
	core/lower/buffers.c \
	core/lower/check.c \
	core/lower/costs.c \
	core/lower/course.c \
	core/lower/course.h \
	core/lower/device.c \
	core/lower/early.c \
	core/lower/flops.c \
	core/lower/exchange.c \
	core/lower/exchange_boxes.c \
	core/lower/fuse.c \
	core/lower/forecast.c \
	core/lower/group.c \
	core/lower/held.c \
	core/lower/kernels.c \
	core/lower/libraries.c \
	core/lower/lower.c \
	core/lower/memory.c \
	core/lower/order.c \
	core/lower/pack.c \
	core/lower/passes.c \
	core/lower/pipeline.c \
	core/lower/plan.c \
	core/lower/repeats.c \
	core/lower/report.c \
	core/lower/reach.c \
	core/lower/room.c \
	core/lower/roofline.c \
	core/lower/roofline.h \
	core/lower/schedule.c \
	core/lower/seen.c \
	core/lower/sent.c \
	core/lower/slots.c \
	core/lower/staging.c \
	core/lower/states.c \
	core/lower/state_view.c \
	core/lower/tasks.c \
	core/lower/waits.c \
	core/lower/workspace.c \
	core/lower/compile.h \
	core/lower/exchange.h \
	core/lower/exchange_boxes.h \
	core/lower/lower.h \
	core/lower/order.h \
	core/lower/pack.h \
	core/lower/plan.h \
	core/run/captured.c \
	core/run/collective.c \
	core/run/control.c \
	core/run/control_local.c \
	core/run/control_tcp.c \
	core/run/decoder.c \
	core/run/diagnose.c \
	core/run/digest.c \
	core/run/evaluate.c \
	core/run/execute.c \
	core/run/generate.c \
	core/run/finite.c \
	core/run/groups.c \
	core/run/guard.c \
	core/run/handshake.c \
	core/run/host_transport.c \
	core/run/init.c \
	core/run/inputs.c \
	core/run/instruction.c \
	core/run/link.c \
	core/run/loader.c \
	core/run/loop.c \
	core/run/observe.c \
	core/run/places.c \
	core/run/replicas.c \
	core/run/rendezvous.c \
	core/run/rendezvous_host.c \
	core/run/run.c \
	core/run/samples.c \
	core/run/socket.c \
	core/run/store.c \
	core/run/scalars.c \
	core/run/staged.c \
	core/run/streams.c \
	core/run/streams.h \
	core/run/tasks.c \
	core/run/times.c \
	core/run/timing.c \
	core/run/token.c \
	core/run/transfers.c \
	core/run/waiting.c \
	core/run/watch.c \
	core/run/weights.c \
	core/run/collective.h \
	core/run/control.h \
	core/run/control_kind.h \
	core/run/decoder.h \
	core/run/digest.h \
	core/run/generate.h \
	core/run/handshake.h \
	core/run/link.h \
	core/run/rendezvous.h \
	core/run/run.h \
	core/run/socket.h \
	core/run/token.h \
	core/run/watch.h
core_libcore_la_CPPFLAGS = $(AM_CPPFLAGS) $(INIH_CFLAGS) $(JANSSON_CFLAGS) $(SODIUM_CFLAGS) $(XXHASH_CFLAGS) -DWEFT_PLUGIN_DIR='"$(plugindir)"' -DWEFT_KNOWN_PLUGINS='"$(pkgdatadir)/plugins.known"' -DWEFT_SYSTEM_KEY='"$(sysconfdir)/weft/plugins.key"' -DWEFT_SYSTEM_LOCK='"$(sysconfdir)/weft/plugins.lock"'
core_libcore_la_LIBADD = $(INIH_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(XXHASH_LIBS) $(LTDL_LIBS) $(LIBM)

# libweft is that, showing what headers declare: the public ones to plugins, those that folders of
# the core offer each other to the program. Three folders have a header of their own.
lib_LTLIBRARIES += core/libweft.la
core_libweft_la_SOURCES =
core_libweft_la_LIBADD = core/libcore.la
# Plugins load on equal ABI numbers only; the library's own number is the minor one.
core_libweft_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(ABI_MINOR):0:0 -no-undefined $(NO_UNDEFINED) -Wl,--version-script=core/libweft.map
EXTRA_core_libweft_la_DEPENDENCIES = core/libweft.map
private_headers = $(filter-out core/plugin/internal.h core/settings/internal.h core/store/internal.h,$(filter %.h,$(core_libcore_la_SOURCES)))
core/libweft.map: core/make-map core/local.mk $(weftinclude_HEADERS) $(private_headers)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && cd $(srcdir) && \
	    $(SHELL) core/make-map $(ABI) $(PACKAGE_VERSION) $(weftinclude_HEADERS) -- $(private_headers) \
	    >'$(abs_builddir)/$@.new' && mv '$(abs_builddir)/$@.new' '$(abs_builddir)/$@'
CLEANFILES += core/libweft.map

weftincludedir = $(includedir)/weft
weftinclude_HEADERS = \
	core/weft/base.h \
	core/weft/device.h \
	core/weft/files.h \
	core/weft/graph.h \
	core/weft/mesh.h \
	core/weft/marks.h \
	core/weft/op.h \
	core/weft/options.h \
	core/weft/pairs.h \
	core/weft/params.h \
	core/weft/pass.h \
	core/weft/plugin.h \
	core/weft/random.h \
	core/weft/service.h \
	core/weft/store.h \
	core/weft/weft.h

pkgconfig_DATA += core/weft.pc
# Not by configure, which would also replace @words@ here: `make install prefix=DIR` installs elsewhere.
core/weft.pc: core/weft.pc.in installdirs.stamp Makefile
	$(AM_V_GEN)sed -e 's|[@]prefix[@]|$(prefix)|' -e 's|[@]libdir[@]|$(libdir)|' -e 's|[@]includedir[@]|$(includedir)|' \
	    -e 's|[@]ABI[@]|$(ABI)|' -e 's|[@]PACKAGE_VERSION[@]|$(PACKAGE_VERSION)|' $(srcdir)/core/weft.pc.in >$@
CLEANFILES += core/weft.pc
EXTRA_DIST += core/weft.pc.in
noinst_DATA = core/weft-uninstalled.pc
EXTRA_DIST += core/make-map core/base/README.md core/graph/README.md core/graph/ops/README.md core/lower/README.md core/mesh/README.md \
	core/plugin/README.md core/run/README.md core/schedule/README.md core/settings/README.md core/store/README.md
