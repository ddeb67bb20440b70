# SPDX-License-Identifier: Apache-2.0
TEST_LIBS = tests/lib/libhelpers.la core/libweft.la $(CMOCKA_LIBS) $(LTDL_LIBS) $(LIBM)
LDADD = $(TEST_LIBS)
INNER_LIBS = lib/libinner.la $(CMOCKA_LIBS) $(LIBM)

# A program test_x is made of test_x.c.
check_PROGRAMS += \
	tests/unit/base/test_base \
	tests/unit/base/test_f8 \
	tests/unit/base/test_files \
	tests/unit/base/test_random \
	tests/unit/settings/test_settings \
	tests/unit/settings/test_settings_files \
	tests/unit/host/test_plugin_files \
	tests/unit/host/test_plugins \
	tests/unit/compile/test_differentiate \
	tests/unit/compile/test_example \
	tests/unit/compile/test_grad \
	tests/unit/compile/test_graph_text \
	tests/unit/compile/test_every \
	tests/unit/compile/test_group \
	tests/unit/compile/test_insert \
	tests/unit/compile/test_layout \
	tests/unit/compile/test_loss \
	tests/unit/compile/test_memory \
	tests/unit/compile/test_mesh \
	tests/unit/compile/test_ops \
	tests/unit/compile/test_optimize \
	tests/unit/compile/test_order \
	tests/unit/compile/test_pack \
	tests/unit/compile/test_place \
	tests/unit/compile/test_recompute \
	tests/unit/compile/test_rule \
	tests/unit/compile/test_scale \
	tests/unit/compile/test_schedule \
	tests/unit/compile/test_schedule_local \
	tests/unit/compile/test_state \
	tests/unit/compile/test_surgery \
	tests/unit/compile/test_traffic \
	tests/unit/compile/test_verify \
	tests/unit/compile/test_waits \
	tests/unit/compile/test_weights \
	tests/unit/execute/test_golden \
	tests/unit/execute/test_golden_cp \
	tests/unit/execute/test_guard \
	tests/unit/execute/test_inputs \
	tests/unit/execute/test_packed \
	tests/unit/execute/test_places \
	tests/unit/execute/test_ring_rows \
	tests/unit/execute/test_watch \
	tests/unit/lib/test_boxes \
	tests/unit/lib/test_channel \
	tests/unit/lib/test_columns \
	tests/unit/lib/test_control \
	tests/unit/lib/test_costs \
	tests/unit/lib/test_generate \
	tests/unit/lib/test_image \
	tests/unit/lib/test_impostor \
	tests/unit/lib/test_intruder \
	tests/unit/lib/test_link \
	tests/unit/lib/test_options \
	tests/unit/lib/test_read_safetensors \
	tests/unit/lib/test_roofline \
	tests/unit/lib/test_sha256 \
	tests/unit/lib/test_state_fill tests/unit/lib/test_store \
	tests/unit/lib/test_store_bad \
	tests/unit/lib/test_store_faults \
	tests/unit/lib/test_store_sums \
	tests/unit/lib/test_timeline \
	tests/unit/lib/test_token \
	tests/unit/cli/test_ablate \
	tests/unit/cli/test_farewell \
	tests/unit/cli/test_log \
	tests/unit/cli/test_processors \
	tests/unit/tools/test_part \
	tests/unit/cli/test_torture \
	tests/bad/ini/test_bad_ini \
	tests/random/random_runs tests/random/test_process

# Drivers of parsers: texts changed at random. The text plugin has two more, of data files and of
# tokenizers.
check_LTLIBRARIES += tests/fuzz/libfuzz.la
tests_fuzz_libfuzz_la_SOURCES = tests/fuzz/fuzz.c tests/fuzz/fuzz.h
text_fuzz_drivers = plugins/text/test/fuzz_text plugins/text/test/fuzz_tokenizer
fuzz_drivers = \
	tests/fuzz/fuzz_config \
	tests/fuzz/fuzz_graph \
	tests/fuzz/fuzz_header \
	tests/fuzz/fuzz_ini \
	tests/fuzz/fuzz_manifest \
	tests/fuzz/fuzz_options \
	tests/fuzz/fuzz_schedule \
	tests/fuzz/fuzz_vetted
check_PROGRAMS += $(fuzz_drivers)
FUZZ_LIBS = tests/fuzz/libfuzz.la lib/libinner.la $(JANSSON_LIBS) $(LTDL_LIBS) $(LIBM)
tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz_config.c plugins/gpt2/gpt2.c \
	plugins/llama3/llama3.c plugins/mixtral/mixtral.c plugins/qwen3/qwen3.c
tests_fuzz_fuzz_config_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_fuzz_config_LDADD = tests/fuzz/libfuzz.la plugins/hf/libhf.la $(FUZZ_LIBS)
tests_fuzz_fuzz_graph_LDADD = tests/lib/libgraphtext.la tests/lib/libstandard.la $(FUZZ_LIBS)
tests_fuzz_fuzz_header_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_fuzz_header_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_ini_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_manifest_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_options_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_schedule_LDADD = plugins/pp/libpp.la $(FUZZ_LIBS)
tests_fuzz_fuzz_vetted_LDADD = $(FUZZ_LIBS)

# The text of a graph, read back.
check_LTLIBRARIES += tests/lib/libgraphtext.la
tests_lib_libgraphtext_la_SOURCES = \
	tests/lib/graph_text.h \
	tests/lib/parse.c \
	tests/lib/parse_node.c \
	tests/lib/reader.c \
	tests/lib/reader.h

# The ops of a run that lists nothing.
check_LTLIBRARIES += tests/lib/libstandard.la
tests_lib_libstandard_la_SOURCES = \
	tests/lib/standard_ops.c \
	tests/lib/standard_ops.h
tests_lib_libstandard_la_LIBADD = plugins/ops/libops.la

# The proof that all who touch the same memory are in some order.
check_LTLIBRARIES += tests/lib/liborderproof.la
tests_lib_liborderproof_la_SOURCES = \
	tests/lib/order_proof.c tests/lib/order_proof.h

# What several tests share.
check_LTLIBRARIES += tests/lib/libhelpers.la
tests_lib_libhelpers_la_LIBADD = tests/lib/libstandard.la
tests_lib_libhelpers_la_SOURCES = \
	tests/lib/created.c \
	tests/lib/created.h \
	tests/lib/fault_io.c \
	tests/lib/fault_model.c \
	tests/lib/opcheck.c \
	tests/lib/opcheck_shards.c \
	tests/lib/fault_io.h \
	tests/lib/fault_model.h \
	tests/lib/opcheck.h \
	tests/lib/plugin_run.h \
	tests/lib/small_model.h \
	tests/lib/settings_run.h \
	tests/lib/store_run.h

# Calls that are built by hand; with the machine.c of a plugin, in whose tests it is compiled.
trial = tests/lib/trial.c tests/lib/trial.h
trial_ops = $(trial) tests/lib/trial_narrowed.c tests/lib/trial_ops.c tests/lib/trial_ops.h
trial_attention = $(trial) tests/lib/trial_attention.c tests/lib/trial_attention.h
trial_products = $(trial_ops) tests/lib/trial_products.c

# The plan of a run inside a test.
check_LTLIBRARIES += tests/lib/libplan.la
tests_lib_libplan_la_SOURCES = \
	tests/lib/plan_run.c \
	tests/lib/symbolic.c \
	tests/lib/plan_run.h \
	tests/lib/symbolic.h
PLAN_LIBS = tests/lib/libplan.la $(TEST_LIBS)
tests_unit_lib_test_costs_LDADD = $(PLAN_LIBS)
tests_unit_lib_test_roofline_LDADD = $(PLAN_LIBS)
tests_unit_compile_test_graph_text_LDADD = tests/lib/libgraphtext.la $(PLAN_LIBS)
tests_unit_execute_test_guard_LDADD = $(PLAN_LIBS)
tests_unit_compile_test_group_LDADD = $(PLAN_LIBS)
tests_unit_compile_test_weights_LDADD = $(PLAN_LIBS)
tests_unit_compile_test_order_LDADD = tests/lib/liborderproof.la $(PLAN_LIBS)
tests_unit_compile_test_memory_LDADD = $(PLAN_LIBS)
tests_unit_execute_test_places_LDADD = $(PLAN_LIBS)

# A model on a mesh, planned with the plugins linked in, and run by all its ranks in one thread.
check_LTLIBRARIES += tests/lib/libsim.la
tests_lib_libsim_la_SOURCES = \
	tests/lib/mesh_passes.c \
	tests/lib/parity.c \
	tests/lib/planned.c \
	tests/lib/sim.c \
	tests/lib/sim_step.c \
	tests/lib/mesh_passes.h \
	tests/lib/parity.h \
	tests/lib/planned.h \
	tests/lib/sim.h
SIM_PLUGINS = plugins/ac/libac.la plugins/adamw/libadamw.la plugins/bf16/libbf16.la \
	plugins/fsdp/libfsdp.la plugins/gpt2/libgpt2.la plugins/llama3/libllama3.la plugins/tp/libtp.la
SIM_LIBS = tests/lib/libsim.la $(SIM_PLUGINS) $(TEST_LIBS)
SIM_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
tests_unit_compile_test_differentiate_CFLAGS = $(SIM_CFLAGS)
tests_unit_compile_test_differentiate_LDADD = $(SIM_LIBS)
tests_unit_compile_test_layout_LDADD = tests/lib/libsim.la $(TEST_LIBS)
tests_unit_compile_test_loss_CFLAGS = $(SIM_CFLAGS)
tests_unit_compile_test_loss_LDADD = tests/lib/libgraphtext.la $(SIM_LIBS)
tests_unit_compile_test_place_CFLAGS = $(SIM_CFLAGS)
tests_unit_compile_test_place_LDADD = $(SIM_LIBS)
tests_unit_compile_test_recompute_CFLAGS = $(SIM_CFLAGS)
tests_unit_compile_test_recompute_LDADD = $(SIM_LIBS)
tests_unit_compile_test_scale_CFLAGS = $(SIM_CFLAGS)
tests_unit_compile_test_scale_LDADD = $(SIM_LIBS)
tests_unit_compile_test_surgery_CFLAGS = $(SIM_CFLAGS)
tests_unit_compile_test_surgery_LDADD = $(SIM_LIBS)
tests_unit_compile_test_traffic_CFLAGS = $(SIM_CFLAGS)
tests_unit_compile_test_traffic_LDADD = $(SIM_LIBS)
tests_unit_compile_test_verify_CFLAGS = $(SIM_CFLAGS)
tests_unit_compile_test_verify_LDADD = $(SIM_LIBS)

# make bench/plan_scale: how long planning takes.
EXTRA_PROGRAMS += bench/plan_scale
bench_plan_scale_CFLAGS = $(SIM_CFLAGS)
bench_plan_scale_LDADD = $(SIM_LIBS)
# make bench/checkpoint_wait, and see bench/checkpoint.
EXTRA_PROGRAMS += bench/checkpoint_wait
bench_checkpoint_wait_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(JANSSON_CFLAGS)
bench_checkpoint_wait_LDADD = plugins/ckpt/libckpt.la core/libweft.la $(JANSSON_LIBS)
# make bench/tokenize, and see bench/tokenize_peers.py.
EXTRA_PROGRAMS += bench/tokenize
bench_tokenize_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/text
bench_tokenize_LDADD = plugins/text/libtext.la core/libweft.la $(TEXT_LIBS)
EXTRA_PROGRAMS += bench/cpu_kernels # make bench/cpu_kernels
bench_cpu_kernels_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins/cpu
bench_cpu_kernels_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
bench_cpu_kernels_LDADD = plugins/cpu/libcpu.la tests/lib/libstandard.la core/libweft.la \
	$(DNNL_LIBS) $(LIBM)
EXTRA_PROGRAMS += bench/experts # make bench/experts
bench_experts_CPPFLAGS = $(bench_cpu_kernels_CPPFLAGS)
bench_experts_CFLAGS = $(bench_cpu_kernels_CFLAGS)
bench_experts_LDADD = plugins/moe/libmoe.la $(bench_cpu_kernels_LDADD)
CLEANFILES += $(EXTRA_PROGRAMS) tests/vetted/turn
EXTRA_DIST += bench/checkpoint bench/checkpoint.py bench/context bench/convert bench/convert.py \
	bench/float8.py bench/flux.py bench/gpu bench/lock bench/machine bench/pairs bench/peer \
	bench/pipeline bench/pipeline.py bench/ranks bench/threads bench/tokenize_peers.py \
	bench/torch_ceilings.py bench/torch_llama.py

# What tests of whole models share: a run inside the test, and a reader of .safetensors files.
check_LTLIBRARIES += tests/lib/libmodel.la
tests_lib_libmodel_la_SOURCES = \
	tests/lib/model_run.c \
	tests/lib/read_safetensors.c \
	tests/lib/model_run.h \
	tests/lib/read_safetensors.h
tests_lib_libmodel_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
MODEL_LIBS = tests/lib/libmodel.la $(JANSSON_LIBS) $(TEST_LIBS)
tests_unit_base_test_f8_LDADD = $(MODEL_LIBS)
tests_unit_lib_test_generate_LDADD = $(MODEL_LIBS)
tests_unit_execute_test_golden_LDADD = $(MODEL_LIBS)
tests_unit_execute_test_golden_cp_LDADD = $(MODEL_LIBS)
tests_unit_execute_test_packed_LDADD = $(MODEL_LIBS)
tests_unit_lib_test_read_safetensors_LDADD = $(MODEL_LIBS)
tests_unit_execute_test_ring_rows_LDADD = $(MODEL_LIBS)

# Whole runs at random, by the command.
tests_random_random_runs_SOURCES = tests/random/case.c tests/random/compare.c tests/random/draw.c \
	tests/random/judge.c tests/random/process.c tests/random/random_runs.c tests/random/reduce.c \
	tests/random/random.h tests/lib/read_safetensors.c tests/lib/read_safetensors.h
tests_random_random_runs_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_random_random_runs_LDADD = core/libweft.la $(JANSSON_LIBS) $(LIBM)
tests_random_test_process_SOURCES = tests/random/process.c tests/random/test_process.c

# Parts of the command.
tests_unit_cli_test_ablate_SOURCES = tests/unit/cli/test_ablate.c tools/ablate/stats.c
tests_unit_cli_test_ablate_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_cli_test_ablate_LDADD = $(TEST_LIBS) $(LIBM)
tests_unit_cli_test_processors_SOURCES = tests/unit/cli/test_processors.c cli/processors.c
tests_unit_cli_test_processors_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_tools_test_part_SOURCES = tests/unit/tools/test_part.c tools/oracle/part.c
tests_unit_tools_test_part_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) -I$(top_srcdir)/cli

# The op of the example plugin.
tests_unit_compile_test_example_SOURCES = tests/unit/compile/test_example.c \
	examples/plugin/relu2.c examples/plugin/tinylm.h
tests_unit_compile_test_example_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

# The command, knowing where its library is: for locks of plugins, which refuse LD_LIBRARY_PATH.
# Its library is the real one but for the place of the system's lock.
if !BUILTIN_PLUGINS
check_LTLIBRARIES += tests/vetted/libweft.la
tests_vetted_libweft_la_SOURCES = lib/vet/locks.c
tests_vetted_libweft_la_CPPFLAGS = $(lib_libshared_la_CPPFLAGS) -UWEFT_SYSTEM_LOCK \
	-UWEFT_SYSTEM_KEY \
	-DWEFT_SYSTEM_LOCK='"$(abs_builddir)/tests/vetted/etc/plugins.lock"' \
	-DWEFT_SYSTEM_KEY='"$(abs_builddir)/tests/vetted/etc/plugins.key"'
tests_vetted_libweft_la_LIBADD = $(core_libcore_la_OBJECTS) $(lib_libkit_la_OBJECTS) \
	$(filter-out %-locks.lo,$(lib_libshared_la_OBJECTS)) $(core_libcore_la_LIBADD) \
	$(lib_libshared_la_LIBADD)
tests_vetted_libweft_la_LDFLAGS = $(core_libweft_la_LDFLAGS) -rpath $(abs_builddir)/tests/vetted
EXTRA_tests_vetted_libweft_la_DEPENDENCIES = lib/libinner.la core/libweft.map
EXTRA_PROGRAMS += tests/vetted/weft
vetted = tests/vetted/weft$(EXEEXT)
tests_vetted_weft_SOURCES =
tests_vetted_weft_LDADD = $(weft_OBJECTS) tests/vetted/libweft.la $(JANSSON_LIBS) $(LIBM)
tests_vetted_weft_LDFLAGS = $(AM_LDFLAGS) -no-install
EXTRA_tests_vetted_weft_DEPENDENCIES = $(weft_OBJECTS)
endif

# The core without anything of lib, in a library that plugins take for libweft, and a program that
# trains with it. What plugins take of lib is in a library of its own, which the core does without.
if !BUILTIN_PLUGINS
check_LTLIBRARIES += tests/alone/libweft.la
tests_alone_libweft_la_SOURCES = tests/alone/vetting.c
tests_alone_libweft_la_LIBADD = core/libcore.la
tests_alone_libweft_la_LDFLAGS = $(core_libweft_la_LDFLAGS) -rpath $(abs_builddir)/tests/alone
EXTRA_tests_alone_libweft_la_DEPENDENCIES = core/libweft.map
check_LTLIBRARIES += tests/alone/libkit.la
tests_alone_libkit_la_SOURCES = lib/io/atomic_file.c lib/io/open_file.c
tests_alone_libkit_la_LIBADD = lib/libkit.la tests/alone/libweft.la $(LIBM)
tests_alone_libkit_la_LDFLAGS = $(core_libweft_la_LDFLAGS) -rpath $(abs_builddir)/tests/alone
EXTRA_tests_alone_libkit_la_DEPENDENCIES = core/libweft.map
EXTRA_PROGRAMS += tests/alone/train
alone = tests/alone/train$(EXEEXT)
tests_alone_train_SOURCES = tests/alone/train.c
tests_alone_train_LDADD = tests/alone/libkit.la tests/alone/libweft.la
tests_alone_train_LDFLAGS = $(AM_LDFLAGS) -no-install -Wl,--no-as-needed
endif

# The command without its main.
tests_unit_cli_test_torture_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/cli
tests_unit_cli_test_torture_LDADD = $(filter-out %-main.$(OBJEXT),$(weft_OBJECTS)) $(weft_LDADD) \
	$(CMOCKA_LIBS)
tests_unit_cli_test_torture_LDFLAGS = $(weft_LDFLAGS)
EXTRA_tests_unit_cli_test_torture_DEPENDENCIES = $(weft_OBJECTS)

tests_unit_cli_test_log_CPPFLAGS = $(tests_unit_cli_test_torture_CPPFLAGS) $(JANSSON_CFLAGS)
tests_unit_cli_test_log_LDADD = $(tests_unit_cli_test_torture_LDADD)
tests_unit_cli_test_log_LDFLAGS = $(weft_LDFLAGS)
EXTRA_tests_unit_cli_test_log_DEPENDENCIES = $(weft_OBJECTS)

tests_unit_cli_test_farewell_CPPFLAGS = $(tests_unit_cli_test_torture_CPPFLAGS)
tests_unit_cli_test_farewell_LDADD = $(tests_unit_cli_test_torture_LDADD)
tests_unit_cli_test_farewell_LDFLAGS = $(weft_LDFLAGS)
EXTRA_tests_unit_cli_test_farewell_DEPENDENCIES = $(weft_OBJECTS)

# Looks at what libweft does not export.
tests_unit_compile_test_insert_LDADD = tests/lib/libgraphtext.la $(TEST_LIBS)
tests_unit_compile_test_every_LDADD = tests/lib/libgraphtext.la $(TEST_LIBS)
tests_unit_compile_test_state_LDADD = tests/lib/libgraphtext.la $(TEST_LIBS)
tests_unit_lib_test_sha256_CPPFLAGS = $(AM_CPPFLAGS) $(SODIUM_CFLAGS)
tests_unit_lib_test_sha256_LDADD = lib/libinner.la $(SODIUM_LIBS) $(CMOCKA_LIBS)
tests_unit_lib_test_image_LDADD = $(INNER_LIBS)
tests_unit_lib_test_columns_LDADD = $(INNER_LIBS)
tests_unit_lib_test_control_LDADD = $(INNER_LIBS)
tests_unit_compile_test_waits_LDADD = tests/lib/liborderproof.la $(INNER_LIBS)
tests_unit_execute_test_watch_LDADD = $(INNER_LIBS)
check_LTLIBRARIES += tests/lib/libintruder.la
tests_lib_libintruder_la_SOURCES = tests/lib/intruder.c tests/lib/intruder.h
INTRUDER_LIBS = tests/lib/libintruder.la $(INNER_LIBS)
tests_unit_lib_test_impostor_LDADD = $(INTRUDER_LIBS)
tests_unit_lib_test_intruder_LDADD = $(INTRUDER_LIBS)
tests_unit_lib_test_channel_LDADD = $(INTRUDER_LIBS)
tests_unit_lib_test_link_LDADD = $(INTRUDER_LIBS)
tests_unit_lib_test_token_LDADD = $(INTRUDER_LIBS)
tests_unit_compile_test_optimize_LDADD = tests/lib/libstandard.la $(INNER_LIBS)
tests_unit_compile_test_grad_LDADD = tests/lib/libstandard.la $(INNER_LIBS)
tests_unit_compile_test_ops_LDADD = tests/lib/libhelpers.la $(INNER_LIBS)

# Shared objects for the tests of the plugin loader, many of them wrong on purpose.
fixture_sources = \
	tests/fixtures/plugins/also_a.c \
	tests/fixtures/plugins/bad_commands.c \
	tests/fixtures/plugins/bad_constructor.c \
	tests/fixtures/plugins/bad_default.c \
	tests/fixtures/plugins/bad_tables.c \
	tests/fixtures/plugins/commands.c \
	tests/fixtures/plugins/cpu.c \
	tests/fixtures/plugins/crash_create.c \
	tests/fixtures/plugins/crash_kernel.c \
	tests/fixtures/plugins/crash_step.c \
	tests/fixtures/plugins/cycle_a.c \
	tests/fixtures/plugins/cycle_b.c \
	tests/fixtures/plugins/empty_metadata.c \
	tests/fixtures/plugins/fail_create.c \
	tests/fixtures/plugins/fail_open.c \
	tests/fixtures/plugins/good_a.c \
	tests/fixtures/plugins/good_b.c \
	tests/fixtures/plugins/good_wrap.c \
	tests/fixtures/plugins/hung_rank.c \
	tests/fixtures/plugins/mesh_late.c \
	tests/fixtures/plugins/needs_late.c \
	tests/fixtures/plugins/no_symbol.c \
	tests/fixtures/plugins/other_name.c \
	tests/fixtures/plugins/refuser.c \
	tests/fixtures/plugins/reviews.c \
	tests/fixtures/plugins/reviews_late.c \
	tests/fixtures/plugins/reviews_too.c \
	tests/fixtures/plugins/second_device.c \
	tests/fixtures/plugins/pace.c \
	tests/fixtures/plugins/slow_step.c \
	tests/fixtures/plugins/small_wrap.c \
	tests/fixtures/plugins/stray_kernel.c \
	tests/fixtures/plugins/two_places.c \
	tests/fixtures/plugins/twice_wrap.c \
	tests/fixtures/plugins/undefined_function.c \
	tests/fixtures/plugins/unmet.c \
	tests/fixtures/plugins/waits_a.c \
	tests/fixtures/plugins/waits_b.c \
	tests/fixtures/plugins/waits_more.c \
	tests/fixtures/plugins/wrong_abi.c \
	tests/fixtures/plugins/wrong_magic.c \
	tests/fixtures/plugins/wrong_services.c \
	tests/fixtures/plugins/wrong_size.c \
	tests/fixtures/plugins/wrong_tables.c
# For whole runs: apart, since one above is called cpu.
run_fixture_sources = \
	tests/fixtures/run/asks.c \
	tests/fixtures/run/bad_join.c tests/fixtures/run/bold.c \
	tests/fixtures/run/breaker.c \
	tests/fixtures/run/careless.c \
	tests/fixtures/run/documents.c \
	tests/fixtures/run/deep.c \
	tests/fixtures/run/everywhere.c \
	tests/fixtures/run/experts.c \
	tests/fixtures/run/fault.c \
	tests/fixtures/run/fault_data.c \
	tests/fixtures/run/fault_device.c \
	tests/fixtures/run/fault_store.c \
	tests/fixtures/run/given.c \
	tests/fixtures/run/groups.c \
	tests/fixtures/run/later.c \
	tests/fixtures/run/loads.c \
	tests/fixtures/run/marks.c \
	tests/fixtures/run/masked.c \
	tests/fixtures/run/maxima.c \
	tests/fixtures/run/micro_noise.c \
	tests/fixtures/run/misplaced.c \
	tests/fixtures/run/mistaken.c tests/fixtures/run/mistakes.c \
	tests/fixtures/run/moving_bias.c tests/fixtures/run/noise.c \
	tests/fixtures/run/oddities.c \
	tests/fixtures/run/lazy_far.c tests/fixtures/run/one_kv.c \
	tests/fixtures/run/order.c \
	tests/fixtures/run/overrun.c \
	tests/fixtures/run/own_block.c tests/fixtures/run/own_join.c \
	tests/fixtures/run/tally.c \
	tests/fixtures/run/tilt.c \
	tests/fixtures/run/transfers.c \
	tests/fixtures/run/twofaced.c \
	tests/fixtures/run/reach.c \
	tests/fixtures/run/recorded.c \
	tests/fixtures/run/relinear.c \
	tests/fixtures/run/selective.c tests/fixtures/run/sent.c \
	tests/fixtures/run/skew.c \
	tests/fixtures/run/slip.c \
	tests/fixtures/run/slow_rank.c \
	tests/fixtures/run/slow_save.c \
	tests/fixtures/run/sp.c \
	tests/fixtures/run/spike.c \
	tests/fixtures/run/strikes.c \
	tests/fixtures/run/unfit.c \
	tests/fixtures/run/unwritten.c \
	tests/fixtures/run/wrap_all.c \
	tests/fixtures/run/wrap_data.c \
	tests/fixtures/run/wrong_bias.c \
	tests/fixtures/run/wrong_cut.c \
	tests/fixtures/run/wrong_dtype.c \
	tests/fixtures/run/wrong_gradient.c \
	tests/fixtures/run/wrong_group.c \
	tests/fixtures/run/wrong_labels.c \
	tests/fixtures/run/wrong_norm.c \
	tests/fixtures/run/wrong_replica.c \
	tests/fixtures/run/wrong_ring.c \
	tests/fixtures/run/wrong_scale.c \
	tests/fixtures/run/wrong_scope.c \
	tests/fixtures/run/wrong_statement.c \
	tests/fixtures/run/wrong_transport.c
fixtures = $(fixture_sources:.c=.so) $(run_fixture_sources:.c=.so)
check_DATA += $(fixtures) $(vetted) $(alone)
make_fixture = $(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) -shared -fPIC -fvisibility=hidden \
	$(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -o $@ $<
$(fixture_sources:.c=.so): tests/fixtures/plugins/%.so: tests/fixtures/plugins/%.c \
	tests/fixtures/plugins/fixture.h $(weftinclude_HEADERS)
	$(make_fixture)
$(run_fixture_sources:.c=.so): tests/fixtures/run/%.so: tests/fixtures/run/%.c \
	tests/fixtures/run/fault.h tests/fixtures/run/wrong.h $(weftinclude_HEADERS)
	$(make_fixture)
tests/fixtures/run/later.so: tests/fixtures/run/later.h tests/fixtures/run/later_order.h \
	tests/fixtures/run/later_table.h
CLEANFILES += $(fixtures)

dist_check_SCRIPTS += \
	tests/scripts/check-abi \
	tests/scripts/check-ablate \
	tests/scripts/check-alone \
	tests/scripts/check-axis \
	tests/scripts/check-bad-input \
	tests/scripts/check-bisect \
	tests/scripts/check-bitwise \
	tests/scripts/check-broken \
	tests/scripts/check-budget \
	tests/scripts/check-channel \
	tests/scripts/check-ckpt \
	tests/scripts/check-ckpt-kill \
	tests/scripts/check-commands \
	tests/scripts/check-compare \
	tests/scripts/check-config \
	tests/scripts/check-conform \
	tests/scripts/check-contracts \
	tests/scripts/check-core-words \
	tests/scripts/check-cuda \
	tests/scripts/check-cuda-runs \
	tests/scripts/check-cuda-host \
	tests/scripts/check-cudnn \
	tests/scripts/check-digits \
	tests/scripts/check-cuda-use \
	tests/scripts/check-curve \
	tests/scripts/check-cxx \
	tests/scripts/check-determinism \
	tests/scripts/check-docs \
	tests/scripts/check-dropout \
	tests/scripts/check-environments \
	tests/scripts/check-example \
	tests/scripts/check-family \
	tests/scripts/check-every \
	tests/scripts/check-experts \
	tests/scripts/check-deepseek3 \
	tests/scripts/check-moe \
	tests/scripts/check-faults tests/scripts/check-faulty \
	tests/scripts/check-files \
	tests/scripts/check-flight \
	tests/scripts/check-float8 \
	tests/scripts/check-float8-head \
	tests/scripts/check-float8-random \
	tests/scripts/check-flux \
	tests/scripts/check-gathers \
	tests/scripts/check-generate \
	tests/scripts/check-gpu-kit \
	tests/scripts/check-heads \
	tests/scripts/check-hash \
	tests/scripts/check-hf \
	tests/scripts/check-images tests/scripts/check-includes \
	tests/scripts/check-install \
	tests/scripts/check-instructions \
	tests/scripts/check-known-faults \
	tests/scripts/check-join tests/scripts/check-kept \
	tests/scripts/check-later \
	tests/scripts/check-later-faults \
	tests/scripts/check-lists \
	tests/scripts/check-maxima \
	tests/scripts/check-micro-batch \
	tests/scripts/check-mistakes \
	tests/scripts/check-mpi \
	tests/scripts/check-muon tests/scripts/check-offload \
	tests/scripts/check-mutations-apply \
	tests/scripts/check-nccl \
	tests/scripts/check-nccl-progress \
	tests/scripts/check-nccl-windows \
	tests/scripts/check-operator \
	tests/scripts/check-new-plugin \
	tests/scripts/check-oracle \
	tests/scripts/check-packages \
	tests/scripts/check-packed \
	tests/scripts/check-pairs \
	tests/scripts/check-parity \
	tests/scripts/check-cp tests/scripts/check-overlap \
	tests/scripts/check-pp \
	tests/scripts/check-passes \
	tests/scripts/check-plan-gpu tests/scripts/check-calibrate tests/scripts/check-tune \
	tests/scripts/check-profile tests/scripts/check-tune-search \
	tests/scripts/check-records \
	tests/scripts/check-release \
	tests/scripts/check-review \
	tests/scripts/check-rules \
	tests/scripts/check-scale \
	tests/scripts/check-signals \
	tests/scripts/check-sizes \
	tests/scripts/check-slips \
	tests/scripts/check-style \
	tests/scripts/check-status \
	tests/scripts/check-symbols \
	tests/scripts/check-start \
	tests/scripts/check-state \
	tests/scripts/check-text-runs \
	tests/scripts/check-threads \
	tests/scripts/check-timeline \
	tests/scripts/check-tokenize \
	tests/scripts/check-transfers \
	tests/scripts/check-ucx \
	tests/scripts/check-vet \
	tests/scripts/check-vet-doors \
	tests/scripts/check-wraps

EXTRA_DIST += \
	$(fixture_sources) \
	tests/fixtures/plugins/fixture.h \
	$(run_fixture_sources) \
	tests/fixtures/run/fault.h \
	tests/fixtures/run/later.h \
	tests/fixtures/run/later_order.h \
	tests/fixtures/run/later_table.h \
	tests/fixtures/run/wrong.h \
	tests/golden \
	tests/bad/commands \
	tests/driver \
	tests/lsan.supp tests/valgrind.supp tests/quick \
	tests/cases tests/slowest

TESTS = $(check_PROGRAMS) $(dist_check_SCRIPTS)
# Through a variable: automake takes a target of its own name for a replacement of its rule.
.PHONY: needs-cmocka
if !UNIT_TESTS
check_target = check-am
$(check_target): needs-cmocka
needs-cmocka:
	@echo "this build was configured --without-cmocka, and the tests need it" >&2; exit 1
endif
# make install links libraries once more, which are away from their places meanwhile: not while
# others need them.
last_log = tests/scripts/check-install.log
$(last_log): $(filter-out $(last_log),$(TEST_LOGS))
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' CONFIG_SHELL='$(SHELL)' $(SHELL) $(top_srcdir)/tests/driver
# What takes long stays in sight.
check-local: check-TESTS
	@$(SHELL) $(srcdir)/tests/slowest $(TEST_LOGS:.log=.trs)
# Not the script that libtool puts before a program, which takes longer than much of what it starts.
if BUILTIN_PLUGINS
program = weft$(EXEEXT)
else
program = .libs/weft$(EXEEXT)
endif
# LeakSanitizer cannot read the thread-local memory of libraries that were opened at run time while
# threads live in them, and crashes. hwloc, which Open MPI asks for processors, reads the names of
# all PCI devices, which takes minutes under sanitizers. oneDNN looks for profilers' libraries, and
# libc keeps the last dlopen error in memory of the thread, which then counts as leaked.
lsan_options = use_tls=0:suppressions=$(abs_top_srcdir)/tests/lsan.supp:print_suppressions=0
ubsan_options = halt_on_error=1:print_stacktrace=1
AM_TESTS_ENVIRONMENT = \
	LSAN_OPTIONS="$${LSAN_OPTIONS:+$$LSAN_OPTIONS:}$(lsan_options)"; export LSAN_OPTIONS; \
	UBSAN_OPTIONS="$${UBSAN_OPTIONS:+$$UBSAN_OPTIONS:}$(ubsan_options)"; export UBSAN_OPTIONS; \
	DNNL_JIT_PROFILE=0; export DNNL_JIT_PROFILE; \
	HWLOC_COMPONENTS=-pci; export HWLOC_COMPONENTS; \
	CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	WEFT_TREE='$(abs_top_srcdir)'; export WEFT_TREE; \
	WEFT='$(abs_top_builddir)/$(program)'; export WEFT; \
	WEFT_BUILD='$(abs_top_builddir)'; export WEFT_BUILD; \
	WEFT_TEST_FIXTURES='$(abs_top_builddir)/tests/fixtures/plugins'; export WEFT_TEST_FIXTURES;

# What the change at hand reaches, in 40 s of a processor, and always the unit tests but for the
# longest, and these, in 30 s. See tests/quick; QUICK_BASE=COMMIT: what has changed since then.
QUICK_SECONDS = 40
quick_tests = \
	$(filter-out $(long_unit_tests),$(filter tests/unit/%,$(check_PROGRAMS))) \
	tests/bad/ini/test_bad_ini \
	tests/scripts/check-abi \
	tests/scripts/check-bitwise \
	tests/scripts/check-commands \
	tests/scripts/check-determinism \
	tests/scripts/check-docs \
	tests/scripts/check-includes \
	tests/scripts/check-mutations-apply \
	tests/scripts/check-release \
	tests/scripts/check-slips \
	tests/scripts/check-style \
	tests/scripts/check-symbols
long_unit_tests = \
	tests/unit/execute/test_golden \
	tests/unit/compile/test_memory \
	tests/unit/compile/test_place \
	tests/unit/compile/test_surgery \
	tests/unit/cli/test_torture
.PHONY: check-quick
check-quick: check-data
	@tests=$$(WEFT_TREE='$(abs_top_srcdir)' QUICK_BASE='$(QUICK_BASE)' \
	    bash '$(srcdir)'/tests/quick '$(QUICK_SECONDS)' '$(TESTS)' '$(quick_tests)') || exit; \
	logs=''; for test in $$tests; do logs="$$logs $$test.log"; done; \
	rm -f $$logs; $(MAKE) $(AM_MAKEFLAGS) $(TEST_SUITE_LOG) TEST_LOGS="$$logs"

# What each test of the last run has taken, in seconds of a processor.
.PHONY: check-times
check-times:
	@SLOWEST=all $(SHELL) $(srcdir)/tests/slowest $(TEST_LOGS:.log=.trs)

# More than `make check` has time for. Of what has too many cases even so, each day others are
# taken; a line says which, so that they can be had again.
.PHONY: check-long
check-long: all
	WEFT_LONG=1 $(MAKE) $(AM_MAKEFLAGS) check
	$(MAKE) $(AM_MAKEFLAGS) check-cluster cluster_tests=tests/cluster/check-hosts
	$(MAKE) $(AM_MAKEFLAGS) check-fuzz
	$(MAKE) $(AM_MAKEFLAGS) check-races
# Everything, however long it takes: all combinations instead of a sample.
.PHONY: check-all
check-all: all
	WEFT_ALL=1 WEFT_LONG=1 $(MAKE) $(AM_MAKEFLAGS) check
	$(MAKE) $(AM_MAKEFLAGS) check-cluster
	$(MAKE) $(AM_MAKEFLAGS) check-fuzz
	$(MAKE) $(AM_MAKEFLAGS) check-races

# Hosts that are network namespaces, Slurm: needs root and Debian's packages (iproute2, iptables,
# slurm-wlm, munge), and says what it skips for want of them.
cluster_tests = tests/cluster/check-hosts tests/cluster/check-breaking tests/cluster/check-disks \
	tests/cluster/check-slurm tests/cluster/check-examples tests/cluster/check-stop
EXTRA_DIST += $(cluster_tests) tests/cluster/hosts.sh tests/cluster/slurm.sh
.PHONY: check-cluster
check-cluster: all $(fixtures)
	@failed=0; for test in $(cluster_tests); do \
	    echo "# $$test"; \
	    ($(AM_TESTS_ENVIRONMENT) exec timeout -k 10 7200 bash '$(abs_top_srcdir)'/$$test) || \
	        failed=1; \
	done; exit $$failed

# Builds with sanitizers beside one that has none. The GPU's code is the same in all of them, and
# what this one has of it is taken.
beside = source=$$(cd '$(abs_top_srcdir)' && pwd); \
	take() { $(MKDIR_P) plugins/cuda/kernels; for kernel in $(cuda_kernels); do \
	    for ending in fatbin ptx ptxas; do \
	        file=../plugins/cuda/kernels/$$kernel.$$ending; \
	        [ ! -f $$file ] || cp -pu $$file plugins/cuda/kernels; done; done; }; \
	build() { "$$source"/configure --quiet --with-cuda='$(with_cuda)' \
	    --with-cuda-archs='$(with_cuda_archs)' CC='$(CC)' CXX='$(CXX)' "$$@"; }
sanitized = set -e; $(beside); \
	$(MKDIR_P) sanitizer-build; cd sanitizer-build; \
	[ -f config.status ] || build --enable-sanitizers; \
	take; $(MAKE) $(AM_MAKEFLAGS)

# The drivers of parsers for 20 s each, with sanitizers.
.PHONY: check-fuzz
check-fuzz: all
	@if [ -n '$(SANITIZE_FLAGS)' ]; then \
	    WEFT_FUZZ_SECONDS=20 $(MAKE) $(AM_MAKEFLAGS) check \
	        TESTS='$(fuzz_drivers) $(text_fuzz_drivers)'; \
	else $(sanitized) check-fuzz; fi

# All programs and some of the scripts, with sanitizers; sanitized_scripts: others. It takes hours.
# RESUME=yes: not what has passed with this build already. Ends with what has passed and what has
# not; and whatever a sanitizer said, in any process of any test, is in reports/, and a failure.
sanitized_scripts = tests/scripts/check-ckpt tests/scripts/check-cuda-runs \
	tests/scripts/check-cuda-use tests/scripts/check-files tests/scripts/check-flight \
	tests/scripts/check-generate tests/scripts/check-later tests/scripts/check-later-faults \
	tests/scripts/check-mpi tests/scripts/check-nccl tests/scripts/check-nccl-windows \
	tests/scripts/check-parity tests/scripts/check-rules tests/scripts/check-tokenize \
	tests/scripts/check-transfers tests/scripts/check-ucx
sanitized_tests = $(check_PROGRAMS) $(sanitized_scripts)
.PHONY: check-sanitizers
check-sanitizers:
	@if [ -z '$(SANITIZE_FLAGS)' ]; then $(sanitized) check-sanitizers; exit; fi; \
	$(MAKE) $(AM_MAKEFLAGS) all || exit; \
	passed() { [ $$1.trs -nt $(program) ] && grep -q '^:global-test-result: PASS' $$1.trs; }; \
	left=''; for test in $(sanitized_tests); do \
	    [ -n '$(RESUME)' ] && passed $$test || left="$$left $$test"; \
	done; \
	[ -n '$(RESUME)' ] || rm -rf reports; $(MKDIR_P) reports; code=0; \
	ASAN_OPTIONS="$${ASAN_OPTIONS:+$$ASAN_OPTIONS:}log_path=$(abs_top_builddir)/reports/of"; \
	export ASAN_OPTIONS; \
	[ -z "$$left" ] || WEFT_TEST_LIMIT=28800 $(MAKE) $(AM_MAKEFLAGS) check TESTS="$$left" || code=1; \
	for test in $(sanitized_tests); do \
	    passed $$test && echo "passed      $$test" || { code=1; echo "NOT PASSED  $$test"; }; \
	done; \
	for report in reports/of.*; do [ ! -e "$$report" ] || { code=1; cat "$$report"; }; done; \
	exit $$code

# Ranks that are threads, under ThreadSanitizer, in a build of their own.
EXTRA_DIST += tests/races
.PHONY: check-races
check-races:
	@set -e; $(beside); \
	$(MKDIR_P) races-build; cd races-build; \
	[ -f config.status ] || build --enable-sanitizers=thread \
	    --without-onednn --without-cmocka CFLAGS='-g -O1'; \
	take; $(MAKE) $(AM_MAKEFLAGS) races

# In that build.
.PHONY: races
races: all tests/fixtures/run/later.so $(fake_cuda)
	@WEFT_TREE='$(abs_top_srcdir)' WEFT_BUILD='$(abs_top_builddir)' \
	    WEFT='$(abs_top_builddir)/$(program)' \
	    WEFT_TEST_FIXTURES='$(abs_top_builddir)/tests/fixtures/plugins' \
	    bash '$(abs_top_srcdir)'/tests/races

# The programs once more, each under valgrind.
valgrind_flags = --quiet --leak-check=full --show-leak-kinds=definite --error-exitcode=99 \
	--errors-for-leak-kinds=definite --suppressions=$(abs_top_srcdir)/tests/valgrind.supp
.PHONY: check-valgrind
check-valgrind: all
	@command -v valgrind >/dev/null || \
	    { echo "check-valgrind: there is no valgrind; apt-get install valgrind" >&2; exit 1; }
	WEFT_TEST_LIMIT=28800 $(MAKE) $(AM_MAKEFLAGS) check TESTS='$(check_PROGRAMS)' \
	    LOG_COMPILER='$(LIBTOOL) --mode=execute valgrind $(valgrind_flags)'

# What others' own tools make of our files. By hand: make check-peers PEER_PYTHON=a Python that has
# torch, transformers, diffusers, safetensors, tokenizers, tiktoken, tensorboard, prometheus_client.
EXTRA_PROGRAMS += tests/peers/dcp
EXTRA_DIST += tests/peers/card.py tests/peers/check_ckpt.py tests/peers/check_dcp.py \
	tests/peers/check_diffusers.py tests/peers/check_figures.py tests/peers/check_generate.py \
	tests/peers/check_hf.py tests/peers/check_tokenizers.py tests/peers/check_unicode.py
.PHONY: check-peers
check-peers: all tests/peers/dcp$(EXEEXT)
	@if [ -z "$(PEER_PYTHON)" ]; then \
	    echo "check-peers: SKIPPED, NOTHING WAS CHECKED: make check-peers" \
	        "PEER_PYTHON=/path/to/python (with torch, transformers, safetensors, tiktoken)" >&2; \
	else set -e; \
	    echo "check_ckpt.py"; $(PEER_PYTHON) $(top_srcdir)/tests/peers/check_ckpt.py ./weft; \
	    echo "check_dcp.py"; \
	    $(PEER_PYTHON) $(top_srcdir)/tests/peers/check_dcp.py tests/peers/dcp$(EXEEXT); \
	    echo "check_figures.py"; \
	    PEER_PYTHON='$(PEER_PYTHON)' WEFT='$(abs_top_builddir)/$(program)' \
	        WEFT_TREE='$(abs_top_srcdir)' bash $(top_srcdir)/tests/scripts/check-status; \
	    for p in generate hf diffusers; do \
	        echo "check_$$p.py"; $(PEER_PYTHON) $(top_srcdir)/tests/peers/check_$$p.py ./weft; \
	    done; \
	    echo "check_tokenizers.py"; \
	    $(PEER_PYTHON) $(top_srcdir)/tests/peers/check_tokenizers.py weft$(EXEEXT) $(top_srcdir); \
	    echo "check_unicode.py"; \
	    $(PEER_PYTHON) $(top_srcdir)/tests/peers/check_unicode.py weft$(EXEEXT); \
	fi
