# SPDX-License-Identifier: Apache-2.0
EXTRA_LTLIBRARIES += plugins/gpu/gpu.la
plugins_gpu_gpu_la_SOURCES = plugins/gpu/gpu.c
plugins_gpu_gpu_la_LIBADD = $(PLUGIN_LIBS)
nobase_dist_doc_DATA += plugins/gpu/README.md
