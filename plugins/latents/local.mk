# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/latents/liblatents.la
plugins_latents_liblatents_la_SOURCES = \
	plugins/latents/file.c \
	plugins/latents/latents.c \
	plugins/latents/tar.c \
	plugins/latents/latents.h

EXTRA_LTLIBRARIES += plugins/latents/latents.la
plugins_latents_latents_la_SOURCES =
plugins_latents_latents_la_LIBADD = plugins/latents/liblatents.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/latents/README.md
