// Where the plug-ins of the program lie: libmegatwin_simgrid.so, libmegatwin_mpi.so.
#ifndef MEGATWIN_MODEL_PLUGIN_PATH_H_
#define MEGATWIN_MODEL_PLUGIN_PATH_H_

#include <string>

namespace megatwin::model {

// Beside the running program; the bare name where the program's place is not known.
std::string beside_the_program(const std::string& name);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PLUGIN_PATH_H_
