# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += plugins/ops/libops.la
plugins_ops_libops_la_SOURCES = \
	plugins/ops/activation.c \
	plugins/ops/add.c \
	plugins/ops/attention.c \
	plugins/ops/cache.c \
	plugins/ops/chunk.c \
	plugins/ops/embedding.c \
	plugins/ops/head_norm.c \
	plugins/ops/heads.c \
	plugins/ops/joined.c \
	plugins/ops/linear.c \
	plugins/ops/loss.c \
	plugins/ops/norm.c \
	plugins/ops/plugin.c \
	plugins/ops/rope.c \
	plugins/ops/scalar.c \
	plugins/ops/ops.h

EXTRA_LTLIBRARIES += plugins/ops/ops.la
plugins_ops_ops_la_SOURCES =
plugins_ops_ops_la_LIBADD = plugins/ops/libops.la $(PLUGIN_LIBS)

nobase_dist_doc_DATA += plugins/ops/README.md
