# SPDX-License-Identifier: Apache-2.0
# The core's code, rooms in the order of dependence. It links without anything of lib; a program
# that does so says how it vets (host/vetting.h).
noinst_LTLIBRARIES += core/libcore.la
core_libcore_la_SOURCES = \
	core/base/array.c \
	core/base/blame.c \
	core/base/clock.c \
	core/base/dtype.c \
	core/base/error.c \
	core/base/files.c \
	core/base/log.c \
	core/base/memory.c \
	core/base/pool.c \
	core/base/random.c \
	core/base/text.c \
	core/base/units.c \
	core/base/array.h \
	core/base/blame.h \
	core/base/files.h \
	core/settings/check.c \
	core/settings/core_params.c \
	core/settings/ini.c \
	core/settings/list.c \
	core/settings/nearest.c \
	core/settings/params.c \
	core/settings/settings.c \
	core/settings/unknown.c \
	core/settings/value.c \
	core/settings/ini.h \
	core/settings/values.h \
	core/settings/settings.h \
	core/host/descriptor.c \
	core/host/enter.c \
	core/host/loader.c \
	core/host/module.c \
	core/host/capabilities.c \
	core/host/search.c \
	core/host/services.c \
	core/host/set.c \
	core/host/wrap.c \
	core/host/enter.h \
	core/host/host.h \
	core/host/plugins.h \
	core/host/vetting.h \
	core/host/wrap.h \
	core/compile/mesh/layout.c \
	core/compile/mesh/mesh.c \
	core/compile/mesh/axes.c \
	core/compile/mesh/steps.c \
	core/compile/mesh/axes.h \
	core/compile/graph/attrs.c \
	core/compile/graph/build.c \
	core/compile/graph/inputs.c \
	core/compile/graph/grad.c \
	core/compile/graph/graph.c \
	core/compile/graph/infer.c \
	core/compile/graph/loss.c \
	core/compile/graph/map.c \
	core/compile/graph/marks.c \
	core/compile/graph/node.c \
	core/compile/graph/ops.c \
	core/compile/graph/optimize.c \
	core/compile/graph/chunk_order.c \
	core/compile/graph/rule.c \
	core/compile/graph/state.c \
	core/compile/graph/tensor.c \
	core/compile/graph/verify.c \
	core/compile/graph/grad.h \
	core/compile/graph/graph.h \
	core/compile/graph/map.h \
	core/compile/graph/rule.h \
	core/compile/place/storage.c \
	core/compile/place/move.c \
	core/compile/place/every.c \
	core/compile/place/parts.c \
	core/compile/place/place.c \
	core/compile/place/stages.c \
	core/compile/place/table.c \
	core/compile/autodiff/autodiff.c \
	core/compile/autodiff/autodiff_function.c \
	core/compile/autodiff/autodiff_sum.c \
	core/compile/autodiff/autodiff.h \
	core/compile/schedule/tasks.c \
	core/compile/schedule/proof.c \
	core/compile/schedule/schedule.h \
	core/compile/program/same_memory.c \
	core/compile/program/buffers.c \
	core/compile/program/prologue.c \
	core/compile/program/exchange.c \
	core/compile/program/sent.c \
	core/compile/program/flops.c \
	core/compile/program/fuse.c \
	core/compile/program/group.c \
	core/compile/program/kernels.c \
	core/compile/program/lower.c \
	core/compile/program/variants.c \
	core/compile/program/waits.c \
	core/compile/program/pack.c \
	core/compile/program/liveness.c \
	core/compile/program/slots.c \
	core/compile/program/states.c \
	core/compile/program/walk.c \
	core/compile/program/workspace.c \
	core/compile/program/compiler.h \
	core/compile/program/lower.h \
	core/compile/program/waits.h \
	core/compile/program/pack.h \
	core/compile/program/walk.h \
	core/compile/driver/device.c \
	core/compile/driver/footprint.c \
	core/compile/driver/passes.c \
	core/compile/driver/plan.c \
	core/compile/driver/calls.c \
	core/compile/driver/state_view.c \
	core/compile/driver/review.c \
	core/compile/driver/schedule.c \
	core/compile/driver/plan.h \
	core/execute/access.c \
	core/execute/collective.c \
	core/execute/control.c \
	core/execute/control_local.c \
	core/execute/data.c \
	core/execute/evaluate.c \
	core/execute/execute.c \
	core/execute/far.c \
	core/execute/groups.c \
	core/execute/init.c \
	core/execute/instruction.c \
	core/execute/keeper.c \
	core/execute/loop.c \
	core/execute/observe.c \
	core/execute/run.c \
	core/execute/scalars.c \
	core/execute/host_kernel.c \
	core/execute/streams.c \
	core/execute/run_tasks.c \
	core/execute/times.c \
	core/execute/transfers.c \
	core/execute/waiting.c \
	core/execute/watch.c \
	core/execute/collective.h \
	core/execute/control.h \
	core/execute/control_kind.h \
	core/execute/run.h \
	core/execute/streams.h \
	core/execute/watch.h
core_libcore_la_CPPFLAGS = $(AM_CPPFLAGS) $(INIH_CFLAGS) -DWEFT_PLUGIN_DIR='"$(plugindir)"'
core_libcore_la_LIBADD = $(INIH_LIBS) $(LTDL_LIBS) $(LIBM)

# libweft is that and lib, showing what headers declare: the public ones to plugins, those that
# rooms offer each other to the program. Three rooms have a header of their own.
lib_LTLIBRARIES += core/libweft.la
core_libweft_la_SOURCES =
core_libweft_la_LIBADD = lib/libinner.la
# Plugins load on equal ABI numbers only; the library's own number is the minor one.
core_libweft_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(ABI_MINOR):0:0 -no-undefined \
	$(NO_UNDEFINED) -Wl,--version-script=core/libweft.map
EXTRA_core_libweft_la_DEPENDENCIES = core/libweft.map
private_headers = $(filter-out core/host/host.h core/settings/values.h lib/io/internal.h,\
	$(filter %.h,$(core_libcore_la_SOURCES) $(lib_libkit_la_SOURCES) \
	$(lib_libshared_la_SOURCES)))
core/libweft.map: core/make-map core/local.mk lib/local.mk $(weftinclude_HEADERS) $(private_headers)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && cd $(srcdir) && \
	    $(SHELL) core/make-map $(ABI) $(PACKAGE_VERSION) $(weftinclude_HEADERS) -- $(private_headers) \
	    >'$(abs_builddir)/$@.new' && mv '$(abs_builddir)/$@.new' '$(abs_builddir)/$@'
CLEANFILES += core/libweft.map

weftincludedir = $(includedir)/weft
weftinclude_HEADERS = \
	include/weft/base.h \
	include/weft/blocks.h \
	include/weft/device.h \
	include/weft/execute.h \
	include/weft/files.h \
	include/weft/graph.h \
	include/weft/hf.h \
	include/weft/mesh.h \
	include/weft/marks.h \
	include/weft/op.h \
	include/weft/options.h \
	include/weft/pairs.h \
	include/weft/params.h \
	include/weft/pass.h \
	include/weft/plugin.h \
	include/weft/random.h \
	include/weft/review.h \
	include/weft/rope.h \
	include/weft/service.h \
	include/weft/store.h \
	include/weft/weft.h

pkgconfig_DATA += core/weft.pc
# Not by configure, which would also replace @words@ here: `make install prefix=DIR` installs
# elsewhere.
core/weft.pc: core/weft.pc.in installdirs.stamp Makefile
	$(AM_V_GEN)sed -e 's|[@]prefix[@]|$(prefix)|' -e 's|[@]libdir[@]|$(libdir)|' \
	    -e 's|[@]includedir[@]|$(includedir)|' -e 's|[@]ABI[@]|$(ABI)|' \
	    -e 's|[@]PACKAGE_VERSION[@]|$(PACKAGE_VERSION)|' $(srcdir)/core/weft.pc.in >$@
CLEANFILES += core/weft.pc
EXTRA_DIST += core/weft.pc.in
noinst_DATA = core/weft-uninstalled.pc
EXTRA_DIST += core/make-map \
	core/base/README.md \
	core/compile/autodiff/README.md \
	core/compile/driver/README.md \
	core/compile/graph/README.md \
	core/compile/mesh/README.md \
	core/compile/place/README.md \
	core/compile/program/README.md \
	core/compile/schedule/README.md \
	core/execute/README.md \
	core/host/README.md \
	core/settings/README.md
