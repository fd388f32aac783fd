// How a training run is started as one process a rank.
#ifndef MEGATWIN_CLI_TRAINING_LAUNCH_H_
#define MEGATWIN_CLI_TRAINING_LAUNCH_H_

#include <string>

#include "cli/train.h"

namespace megatwin::cli {

// A line for a shell that starts the same command under mpirun, in this folder and on this machine.
std::string training_launch_line(const TrainArguments& arguments, int num_ranks);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_TRAINING_LAUNCH_H_
