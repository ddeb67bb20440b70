# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/diffusion/libdiffusion.la
plugins_diffusion_libdiffusion_la_SOURCES = \
	plugins/diffusion/cpu.c \
	plugins/diffusion/cpu.h \
	plugins/diffusion/cpu_flow.c \
	plugins/diffusion/diffusion.c \
	plugins/diffusion/flow.c \
	plugins/diffusion/modulate.c \
	plugins/diffusion/sequences.c \
	plugins/diffusion/diffusion.h
plugins_diffusion_libdiffusion_la_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(VECTOR_CFLAGS)

EXTRA_LTLIBRARIES += plugins/diffusion/diffusion.la
plugins_diffusion_diffusion_la_SOURCES =
plugins_diffusion_diffusion_la_LIBADD = plugins/diffusion/libdiffusion.la $(PLUGIN_LIBS)
plugins_diffusion_diffusion_la_LDFLAGS = $(AM_LDFLAGS) $(OPENMP_CFLAGS)

nobase_dist_doc_DATA += plugins/diffusion/README.md
