// The functions of libmegatwin_mpi.so, built from this very tree. They have a version in their
// names, so that a plug-in left over from another version is refused.
#ifndef MEGATWIN_CLI_MPI_PLUGIN_H_
#define MEGATWIN_CLI_MPI_PLUGIN_H_

#include "model/processes.h"

// Joins the processes that a launcher started: MPI_Init. Once a process; the result is deleted by
// the caller. Null when MPI cannot be called from several threads.
using MegatwinMpiJoin = megatwin::model::Processes*();
#define MEGATWIN_MPI_JOIN "megatwin_mpi_join_1"

// The library behind it, such as "Open MPI v4.1.4, …".
using MegatwinMpiVersion = const char*();
#define MEGATWIN_MPI_VERSION "megatwin_mpi_version_1"

#endif  // MEGATWIN_CLI_MPI_PLUGIN_H_
