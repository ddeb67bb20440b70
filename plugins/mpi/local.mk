# SPDX-License-Identifier: Apache-2.0
# Built only where configure finds MPI.
nobase_dist_doc_DATA += plugins/mpi/README.md
EXTRA_LTLIBRARIES += plugins/mpi/mpi.la
plugins_mpi_mpi_la_SOURCES = \
	plugins/mpi/collective.c \
	plugins/mpi/mpi.c \
	plugins/mpi/transfer.c \
	plugins/mpi/wait.c \
	plugins/mpi/mpi.h
plugins_mpi_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
plugins_mpi_mpi_la_LIBADD = $(MPI_LIBS) $(PLUGIN_LIBS)
