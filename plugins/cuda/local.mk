# SPDX-License-Identifier: Apache-2.0
# Built only where configure finds nvcc.
nobase_dist_doc_DATA += plugins/cuda/README.md
cuda_kernels = adamw attention attention_any attention_dnn attention_dx elementwise embedding \
	float8 grouped heads load loss move narrow norm quantise rope route rows scalar slots sum
cuda_kernel_headers = \
	plugins/cuda/kernels/args.h \
	plugins/cuda/kernels/attention.h \
	plugins/cuda/kernels/f8.h \
	plugins/cuda/kernels/held.h \
	plugins/cuda/kernels/kernel.h \
	plugins/cuda/kernels/list.h \
	plugins/cuda/kernels/matrix.h \
	plugins/cuda/kernels/nvcc/target.h
EXTRA_DIST += $(cuda_kernels:%=plugins/cuda/kernels/%.cu) $(cuda_kernel_headers) \
	plugins/cuda/kernels/promises plugins/cuda/test/sass.py

if HAVE_CUDA
# What ptxas says of registers is kept, the PTX and the machine code, for check-cuda.
cuda_fatbins = $(cuda_kernels:%=plugins/cuda/kernels/%.fatbin)
$(cuda_fatbins): plugins/cuda/kernels/%.fatbin: plugins/cuda/kernels/%.cu $(cuda_kernel_headers) \
	include/weft/base.h
	$(AM_V_GEN)rm -rf plugins/cuda/kernels/$*.keep && $(MKDIR_P) plugins/cuda/kernels/$*.keep && \
	    $(NVCC) -std=c++17 -O3 --fatbin $(CUDA_GENCODE) -Xptxas -v \
	        --keep --keep-dir plugins/cuda/kernels/$*.keep \
	        -I$(top_srcdir)/plugins/cuda/kernels/nvcc -I$(top_srcdir)/include \
	        -o $@.new $< 2>plugins/cuda/kernels/$*.ptxas || \
	    { cat plugins/cuda/kernels/$*.ptxas >&2; exit 1; }; \
	    { mv plugins/cuda/kernels/$*.keep/*compute_80*.ptx plugins/cuda/kernels/$*.ptx 2>/dev/null || \
	        mv plugins/cuda/kernels/$*.keep/*.ptx plugins/cuda/kernels/$*.ptx; } && \
	    { rm -f plugins/cuda/kernels/$*.*.cubin; \
	        mv plugins/cuda/kernels/$*.keep/*.cubin plugins/cuda/kernels/ 2>/dev/null || :; } && \
	    rm -rf plugins/cuda/kernels/$*.keep && mv $@.new $@
CLEANFILES += $(cuda_fatbins) $(cuda_kernels:%=plugins/cuda/kernels/%.ptx) \
	$(cuda_kernels:%=plugins/cuda/kernels/%.ptxas) \
	$(cuda_kernels:%=plugins/cuda/kernels/%.*.cubin)

noinst_LTLIBRARIES += plugins/cuda/libweftcuda.la
plugins_cuda_libweftcuda_la_SOURCES = \
	plugins/cuda/blas.c \
	plugins/cuda/choices.c \
	plugins/cuda/dnn.c \
	plugins/cuda/dnn_graph.c \
	plugins/cuda/float8.c \
	plugins/cuda/kernels.c \
	plugins/cuda/launch.c \
	plugins/cuda/move.c \
	plugins/cuda/ops_attention.c \
	plugins/cuda/ops_dense.c \
	plugins/cuda/ops_dnn.c \
	plugins/cuda/ops_experts.c \
	plugins/cuda/ops_narrow.c \
	plugins/cuda/ops_token.c \
	plugins/cuda/product.c \
	plugins/cuda/product_each.c \
	plugins/cuda/product_grouped.c \
	plugins/cuda/product_pair.c \
	plugins/cuda/driver.c \
	plugins/cuda/blas.h \
	plugins/cuda/choices.h \
	plugins/cuda/dnn.h \
	plugins/cuda/gpu.h
plugins_cuda_libweftcuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)

# The compiled kernels, for the plugin and for tests on a GPU.
noinst_LTLIBRARIES += plugins/cuda/libmodules.la
plugins_cuda_libmodules_la_SOURCES = plugins/cuda/modules.c
plugins_cuda_libmodules_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	-DCUDA_FATBINS='"$(abs_builddir)/plugins/cuda/kernels"'
# Written so that automake does not take it for a rule of its own.
$(addsuffix -modules.lo,plugins/cuda/libmodules_la): $(cuda_fatbins)

EXTRA_LTLIBRARIES += plugins/cuda/cuda.la
plugins_cuda_cuda_la_SOURCES = \
	plugins/cuda/export.c \
	plugins/cuda/gpus.c \
	plugins/cuda/memory.c \
	plugins/cuda/order.c \
	plugins/cuda/peak.c \
	plugins/cuda/plugin.c \
	plugins/cuda/queues.c \
	plugins/cuda/settle.c \
	plugins/cuda/timing.c \
	plugins/cuda/device.h
plugins_cuda_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
plugins_cuda_cuda_la_LIBADD = plugins/cuda/libmodules.la plugins/cuda/libweftcuda.la $(PLUGIN_LIBS)
endif

# ---- tests: the kernels' text, compiled for the host ----

cuda_emulator = \
	plugins/cuda/test/emulate.c \
	plugins/cuda/test/fake.c \
	plugins/cuda/test/emulate.h \
	plugins/cuda/test/fake.h \
	plugins/cuda/test/machine.h \
	plugins/cuda/test/target.h
cuda_fakes = plugins/cuda/test/fake_blas.c plugins/cuda/test/fake_dnn.c \
	plugins/cuda/test/fake_driver.c \
	plugins/cuda/test/fake_graph.c plugins/cuda/test/fake_memory.c \
	plugins/cuda/test/fake_nccl.c plugins/cuda/test/fake_nccl_run.c \
	plugins/cuda/test/fake_nccl_window.c \
	plugins/cuda/test/fake_stream.c plugins/cuda/test/fake_virtual.c
cuda_fake_headers = plugins/cuda/test/fake_driver.h plugins/cuda/test/fake_nccl.h \
	plugins/cuda/test/fake_work.h
EXTRA_DIST += $(cuda_emulator) $(cuda_fakes) $(cuda_fake_headers)
EXTRA_DIST += $(cuda_gpu_trials)

# The same trials, and products, on a GPU, by the driver and the cuBLASLt that variables name;
# check-gpu runs them.
cuda_gpu_trials = plugins/cuda/test/machine_gpu.c plugins/cuda/test/test_cuda_attention.c \
	plugins/cuda/test/test_cuda_kernels.c plugins/cuda/test/test_cuda_products.c \
	plugins/cuda/test/trial_experts.c plugins/cuda/test/trial_experts.h
# The ops of other plugins that kernels here compute.
cuda_trial_ops = plugins/adamw/libadamw.la plugins/float8/libfloat8.la plugins/moe/libmoe.la \
	plugins/tp/libtp.la
cuda_kernel_trials = plugins/cuda/test/test_cuda_kernels.c plugins/cuda/test/trial_experts.c \
	plugins/cuda/test/trial_experts.h $(trial_ops)
if HAVE_CUDA
if UNIT_TESTS
gpu_trials = plugins/cuda/test/gpu_attention plugins/cuda/test/gpu_kernels \
	plugins/cuda/test/gpu_products
EXTRA_PROGRAMS += $(gpu_trials)
check_DATA += $(gpu_trials)
GPU_TRIAL_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) -I$(top_srcdir)/plugins/cuda \
	-I$(top_srcdir)/tests/lib
GPU_TRIAL_LIBS = plugins/cuda/libmodules.la plugins/cuda/libweftcuda.la \
	$(cuda_trial_ops) $(TEST_LIBS)
plugins_cuda_test_gpu_attention_SOURCES = plugins/cuda/test/test_cuda_attention.c \
	$(trial_attention) plugins/cuda/test/machine_gpu.c
plugins_cuda_test_gpu_attention_LDADD = $(GPU_TRIAL_LIBS)
plugins_cuda_test_gpu_attention_CPPFLAGS = $(GPU_TRIAL_CPPFLAGS)
plugins_cuda_test_gpu_kernels_SOURCES = $(cuda_kernel_trials) \
	plugins/cuda/test/machine_gpu.c
plugins_cuda_test_gpu_kernels_LDADD = $(GPU_TRIAL_LIBS)
plugins_cuda_test_gpu_kernels_CPPFLAGS = $(GPU_TRIAL_CPPFLAGS)
plugins_cuda_test_gpu_products_SOURCES = plugins/cuda/test/test_cuda_products.c $(trial_products) \
	plugins/cuda/test/machine_gpu.c
plugins_cuda_test_gpu_products_LDADD = $(GPU_TRIAL_LIBS)
plugins_cuda_test_gpu_products_CPPFLAGS = $(GPU_TRIAL_CPPFLAGS)
endif
endif
if EMULATE_CUDA
compile_for_host = $(AM_V_CC)$(MKDIR_P) $(@D) && $(CXX) -x c++ -std=c++17 -O1
# With the sanitizers, whatever the rest is built with: what a kernel reads or writes beside its
# operands is seen.
CUDA_SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
cuda_emulated = $(cuda_kernels:%=plugins/cuda/test/%.emulated.o)
$(cuda_emulated): plugins/cuda/test/%.emulated.o: plugins/cuda/kernels/%.cu $(cuda_kernel_headers) \
	plugins/cuda/test/target.h plugins/cuda/test/emulate.h include/weft/base.h
	$(compile_for_host) -g $(CUDA_SANITIZE) $(CUDA_HOST_FLAGS) -c -o $@ $<
CUDA_HOST_FLAGS = -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function -Wno-unused-parameter \
	-Wno-ignored-attributes -Werror -ffp-contract=off \
	-fno-exceptions -fno-rtti -fPIC -I$(top_srcdir)/plugins/cuda/test -I$(top_srcdir)/include
CLEANFILES += $(cuda_emulated)

check_LTLIBRARIES += plugins/cuda/test/libemulated.la
plugins_cuda_test_libemulated_la_SOURCES = $(cuda_emulator) plugins/cuda/test/fake_blas.c \
	plugins/cuda/test/fake_dnn.c \
	$(plugins_cuda_libweftcuda_la_SOURCES)
plugins_cuda_test_libemulated_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	-I$(top_srcdir)/plugins/cuda -I$(top_srcdir)/tests/lib
plugins_cuda_test_libemulated_la_CFLAGS = $(AM_CFLAGS) $(CUDA_SANITIZE)

check_PROGRAMS += plugins/cuda/test/test_cuda_kernels plugins/cuda/test/test_cuda_attention \
	plugins/cuda/test/test_cuda_products plugins/cuda/test/test_cuda_far \
	plugins/cuda/test/test_cuda_work plugins/cuda/test/test_cuda_moves \
	plugins/cuda/test/test_emulate
plugins_cuda_test_test_cuda_kernels_SOURCES = $(cuda_kernel_trials) \
	plugins/cuda/test/machine.c
plugins_cuda_test_test_cuda_kernels_LDADD = plugins/cuda/test/libemulated.la $(cuda_emulated) \
	$(cuda_trial_ops) $(TEST_LIBS)
# What automake cannot read out of the line above.
plugins_cuda_test_test_cuda_kernels_DEPENDENCIES = plugins/cuda/test/libemulated.la \
	$(cuda_emulated) \
	$(cuda_trial_ops) \
	tests/lib/libhelpers.la core/libweft.la
plugins_cuda_test_test_cuda_kernels_CPPFLAGS = $(plugins_cuda_test_libemulated_la_CPPFLAGS)
plugins_cuda_test_test_cuda_kernels_CFLAGS = $(plugins_cuda_test_libemulated_la_CFLAGS) \
	$(OPENMP_CFLAGS)
plugins_cuda_test_test_cuda_attention_SOURCES = plugins/cuda/test/test_cuda_attention.c \
	$(trial_attention) plugins/cuda/test/machine.c
plugins_cuda_test_test_cuda_attention_LDADD = $(plugins_cuda_test_test_cuda_kernels_LDADD)
plugins_cuda_test_test_cuda_attention_DEPENDENCIES = \
	$(plugins_cuda_test_test_cuda_kernels_DEPENDENCIES)
plugins_cuda_test_test_cuda_attention_CPPFLAGS = $(plugins_cuda_test_test_cuda_kernels_CPPFLAGS)
plugins_cuda_test_test_cuda_attention_CFLAGS = $(plugins_cuda_test_test_cuda_kernels_CFLAGS)
plugins_cuda_test_test_cuda_products_SOURCES = plugins/cuda/test/test_cuda_products.c \
	$(trial_products) plugins/cuda/test/machine.c
plugins_cuda_test_test_cuda_products_LDADD = $(plugins_cuda_test_test_cuda_kernels_LDADD)
plugins_cuda_test_test_cuda_products_DEPENDENCIES = \
	$(plugins_cuda_test_test_cuda_kernels_DEPENDENCIES)
plugins_cuda_test_test_cuda_products_CPPFLAGS = $(plugins_cuda_test_test_cuda_kernels_CPPFLAGS)
plugins_cuda_test_test_cuda_products_CFLAGS = $(plugins_cuda_test_test_cuda_kernels_CFLAGS)

plugins_cuda_test_test_cuda_work_SOURCES = plugins/cuda/test/test_cuda_work.c \
	$(trial_attention) plugins/cuda/test/machine.c
plugins_cuda_test_test_cuda_work_LDADD = $(plugins_cuda_test_test_cuda_kernels_LDADD)
plugins_cuda_test_test_cuda_work_DEPENDENCIES = $(plugins_cuda_test_test_cuda_kernels_DEPENDENCIES)
plugins_cuda_test_test_cuda_work_CPPFLAGS = $(plugins_cuda_test_test_cuda_kernels_CPPFLAGS)
plugins_cuda_test_test_cuda_work_CFLAGS = $(plugins_cuda_test_test_cuda_kernels_CFLAGS)

plugins_cuda_test_test_cuda_moves_SOURCES = plugins/cuda/test/test_cuda_moves.c
plugins_cuda_test_test_cuda_moves_LDADD = $(plugins_cuda_test_test_cuda_kernels_LDADD)
plugins_cuda_test_test_cuda_moves_DEPENDENCIES = $(plugins_cuda_test_test_cuda_kernels_DEPENDENCIES)
plugins_cuda_test_test_cuda_moves_CPPFLAGS = $(plugins_cuda_test_test_cuda_kernels_CPPFLAGS)
plugins_cuda_test_test_cuda_moves_CFLAGS = $(plugins_cuda_test_test_cuda_kernels_CFLAGS)

plugins_cuda_test_test_cuda_far_SOURCES = plugins/cuda/test/test_cuda_far.c $(trial_ops) \
	plugins/cuda/test/machine.c
plugins_cuda_test_test_cuda_far_LDADD = $(plugins_cuda_test_test_cuda_kernels_LDADD)
plugins_cuda_test_test_cuda_far_DEPENDENCIES = $(plugins_cuda_test_test_cuda_kernels_DEPENDENCIES)
plugins_cuda_test_test_cuda_far_CPPFLAGS = $(plugins_cuda_test_test_cuda_kernels_CPPFLAGS)
plugins_cuda_test_test_cuda_far_CFLAGS = $(plugins_cuda_test_test_cuda_kernels_CFLAGS)

# The same trials, with every access to memory looked at: -fsanitize=thread makes the compiler call
# functions that races.c has. Nothing is linked with that flag.
cuda_raced = $(cuda_kernels:%=plugins/cuda/test/%.raced.o)
$(cuda_raced): plugins/cuda/test/%.raced.o: plugins/cuda/kernels/%.cu $(cuda_kernel_headers) \
	plugins/cuda/test/target.h plugins/cuda/test/emulate.h include/weft/base.h
	$(compile_for_host) -g -fsanitize=thread $(CUDA_HOST_FLAGS) -c -o $@ $<
plugins/cuda/test/wrong.raced.o: plugins/cuda/test/wrong.cc plugins/cuda/test/target.h \
	plugins/cuda/test/emulate.h
	$(compile_for_host) -g -fsanitize=thread $(CUDA_HOST_FLAGS) -c -o $@ $<
CLEANFILES += $(cuda_raced) plugins/cuda/test/wrong.raced.o

check_LTLIBRARIES += plugins/cuda/test/libraces.la
plugins_cuda_test_libraces_la_SOURCES = $(plugins_cuda_test_libemulated_la_SOURCES) \
	plugins/cuda/test/races.c plugins/cuda/test/races.h
# With few blocks, so that each has to walk.
plugins_cuda_test_libraces_la_CPPFLAGS = $(plugins_cuda_test_libemulated_la_CPPFLAGS) \
	-DCUDA_MOST_BLOCKS=3

check_PROGRAMS += plugins/cuda/test/races_attention plugins/cuda/test/races_kernels \
	plugins/cuda/test/races_products plugins/cuda/test/test_races
plugins_cuda_test_races_kernels_SOURCES = $(cuda_kernel_trials) \
	plugins/cuda/test/machine.c
plugins_cuda_test_races_kernels_LDADD = plugins/cuda/test/libraces.la $(cuda_raced) \
	$(cuda_trial_ops) $(TEST_LIBS)
plugins_cuda_test_races_kernels_DEPENDENCIES = plugins/cuda/test/libraces.la $(cuda_raced) \
	$(cuda_trial_ops) \
	tests/lib/libhelpers.la core/libweft.la
plugins_cuda_test_races_kernels_CPPFLAGS = $(plugins_cuda_test_libemulated_la_CPPFLAGS) -DFIND_RACES
plugins_cuda_test_races_kernels_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
plugins_cuda_test_races_attention_SOURCES = plugins/cuda/test/test_cuda_attention.c \
	$(trial_attention) plugins/cuda/test/machine.c
plugins_cuda_test_races_attention_LDADD = $(plugins_cuda_test_races_kernels_LDADD)
plugins_cuda_test_races_attention_DEPENDENCIES = $(plugins_cuda_test_races_kernels_DEPENDENCIES)
plugins_cuda_test_races_attention_CPPFLAGS = $(plugins_cuda_test_races_kernels_CPPFLAGS)
plugins_cuda_test_races_attention_CFLAGS = $(plugins_cuda_test_races_kernels_CFLAGS)
plugins_cuda_test_races_products_SOURCES = plugins/cuda/test/test_cuda_products.c \
	$(trial_products) plugins/cuda/test/machine.c
plugins_cuda_test_races_products_LDADD = $(plugins_cuda_test_races_kernels_LDADD)
plugins_cuda_test_races_products_DEPENDENCIES = $(plugins_cuda_test_races_kernels_DEPENDENCIES)
plugins_cuda_test_races_products_CPPFLAGS = $(plugins_cuda_test_races_kernels_CPPFLAGS)
plugins_cuda_test_races_products_CFLAGS = $(plugins_cuda_test_races_kernels_CFLAGS)
plugins_cuda_test_test_races_SOURCES = plugins/cuda/test/test_races.c plugins/cuda/test/races.c \
	plugins/cuda/test/emulate.c
plugins_cuda_test_test_races_LDADD = plugins/cuda/test/wrong.raced.o $(TEST_LIBS)
plugins_cuda_test_test_races_DEPENDENCIES = plugins/cuda/test/wrong.raced.o \
	tests/lib/libhelpers.la core/libweft.la
plugins_cuda_test_test_races_CPPFLAGS = $(AM_CPPFLAGS)

# A driver and a cuBLASLt that are the host, in a library of their own: whole runs load it.
# ThreadSanitizer knows nothing of fibers, and is kept from what they run.
fake_cuda = plugins/cuda/test/libfakecuda.so
CUDA_FAKED_FLAGS = $(SANITIZE_FLAGS) -fno-sanitize=thread
cuda_faked = $(cuda_kernels:%=plugins/cuda/test/%.faked.o)
$(cuda_faked): plugins/cuda/test/%.faked.o: plugins/cuda/kernels/%.cu $(cuda_kernel_headers) \
	plugins/cuda/test/target.h plugins/cuda/test/emulate.h include/weft/base.h
	$(compile_for_host) $(CUDA_FAKED_FLAGS) $(CUDA_HOST_FLAGS) -c -o $@ $<
plugins/cuda/test/emulate.faked.o: plugins/cuda/test/emulate.c plugins/cuda/test/emulate.h
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) -fPIC -O2 -fvisibility=hidden $(AM_CPPFLAGS) \
	    $(AM_CFLAGS) $(CUDA_FAKED_FLAGS) -c -o $@ $<
$(fake_cuda): $(cuda_faked) plugins/cuda/test/emulate.faked.o $(cuda_fakes) $(cuda_emulator) \
	$(cuda_fake_headers) plugins/cuda/gpu.h plugins/cuda/dnn.h
	$(AM_V_CCLD)$(CC) -shared -fPIC -O2 -fvisibility=hidden $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	    $(AM_CFLAGS) -I$(top_srcdir)/plugins/cuda -o $@ \
	    $(cuda_fakes:%=$(top_srcdir)/%) plugins/cuda/test/emulate.faked.o $(cuda_faked) $(LIBM)
check_DATA += $(fake_cuda)

# What the real cuDNN is asked without a GPU: by a program, beside a driver that is none. The script
# check-cudnn runs it where there is such a library.
stub_driver = plugins/cuda/test/stub/libcuda.so.1
$(stub_driver): plugins/cuda/test/stub_driver.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) -shared -fPIC -o $@ $<
check_DATA += $(stub_driver)
CLEANFILES += $(stub_driver)
EXTRA_DIST += plugins/cuda/test/stub_driver.c plugins/cuda/test/dnn_matches.c
EXTRA_PROGRAMS += plugins/cuda/test/cudnn_plans
check_DATA += plugins/cuda/test/cudnn_plans
plugins_cuda_test_cudnn_plans_SOURCES = plugins/cuda/test/cudnn_plans.c
plugins_cuda_test_cudnn_plans_LDADD = plugins/cuda/libweftcuda.la $(PLUGIN_LIBS)
plugins_cuda_test_cudnn_plans_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	-I$(top_srcdir)/plugins/cuda
CLEANFILES += $(cuda_faked) plugins/cuda/test/emulate.faked.o $(fake_cuda)

check_PROGRAMS += plugins/cuda/test/test_fake_driver
plugins_cuda_test_test_fake_driver_SOURCES = plugins/cuda/test/test_fake_driver.c \
	plugins/cuda/driver.c
plugins_cuda_test_test_fake_driver_LDADD = $(TEST_LIBS)
plugins_cuda_test_test_fake_driver_DEPENDENCIES = plugins/cuda/test/libfakecuda.so \
	tests/lib/libhelpers.la core/libweft.la
plugins_cuda_test_test_fake_driver_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	-I$(top_srcdir)/plugins/cuda

check_PROGRAMS += plugins/cuda/test/test_fake_nccl
plugins_cuda_test_test_fake_nccl_SOURCES = plugins/cuda/test/test_fake_nccl.c \
	plugins/cuda/driver.c plugins/nccl/api.c
plugins_cuda_test_test_fake_nccl_LDADD = $(TEST_LIBS)
plugins_cuda_test_test_fake_nccl_DEPENDENCIES = plugins/cuda/test/libfakecuda.so \
	tests/lib/libhelpers.la core/libweft.la
plugins_cuda_test_test_fake_nccl_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) \
	-I$(top_srcdir)/plugins/cuda

# Kernels that are wrong on purpose.
plugins_cuda_test_test_emulate_SOURCES = plugins/cuda/test/test_emulate.c \
	plugins/cuda/test/emulate.c
plugins_cuda_test_test_emulate_LDADD = plugins/cuda/test/wrong.emulated.o $(TEST_LIBS)
plugins_cuda_test_test_emulate_DEPENDENCIES = plugins/cuda/test/wrong.emulated.o \
	tests/lib/libhelpers.la core/libweft.la
plugins_cuda_test_test_emulate_CPPFLAGS = $(AM_CPPFLAGS)
plugins_cuda_test_test_emulate_CFLAGS = $(AM_CFLAGS) $(CUDA_SANITIZE)
plugins/cuda/test/wrong.emulated.o: plugins/cuda/test/wrong.cc plugins/cuda/test/target.h \
	plugins/cuda/test/emulate.h
	$(compile_for_host) -g $(CUDA_SANITIZE) $(CUDA_HOST_FLAGS) -c -o $@ $<
CLEANFILES += plugins/cuda/test/wrong.emulated.o
endif
EXTRA_DIST += plugins/cuda/test/wrong.cc
