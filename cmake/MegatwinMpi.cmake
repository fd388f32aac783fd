# Looks for MPI, which the plug-in libmegatwin_mpi.so is built from; MEGATWIN_HAVE_MPI says whether it
# is there. Without it everything else is built.
set(MEGATWIN_HAVE_MPI OFF)
if(NOT MEGATWIN_MPI)
  return()
endif()

enable_language(C)  # FindMPI asks the C compiler for C's interface, the only one that is used.
find_package(MPI QUIET COMPONENTS C)
if(MPI_C_FOUND)
  set(MEGATWIN_HAVE_MPI ON)
else()
  message(STATUS "MPI is not here: search and train stay in one process "
    "(apt-get install libopenmpi-dev openmpi-bin)")
endif()
