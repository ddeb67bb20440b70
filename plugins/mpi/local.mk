# SPDX-License-Identifier: Apache-2.0
# Built only where configure finds MPI.
nobase_dist_doc_DATA += plugins/mpi/README.md
if HAVE_MPI
noinst_LTLIBRARIES += plugins/mpi/libweftmpi.la
plugins_mpi_libweftmpi_la_SOURCES = \
	plugins/mpi/collective.c \
	plugins/mpi/mpi.c \
	plugins/mpi/transfer.c \
	plugins/mpi/wait.c \
	plugins/mpi/mpi.h
plugins_mpi_libweftmpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
plugins_mpi_libweftmpi_la_CFLAGS = $(PLUGIN_CFLAGS)

plugins_mpi_mpi_la_SOURCES =
plugins_mpi_mpi_la_LIBADD = plugins/mpi/libweftmpi.la core/libweft.la $(MPI_LIBS) $(LIBM)
if BUILTIN_MPI
noinst_LTLIBRARIES += plugins/mpi/mpi.la
plugins_mpi_mpi_la_LDFLAGS = $(BUILTIN_LDFLAGS)
else
plugin_LTLIBRARIES += plugins/mpi/mpi.la
plugins_mpi_mpi_la_LDFLAGS = $(PLUGIN_LDFLAGS)
endif
endif
