// The program megatwin.
#include <csignal>
#include <iostream>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/real_world.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // A closed pipe becomes a failed write, which has an exit code.
  std::ios::sync_with_stdio(false);
  megatwin::cli::Console console{.out = std::cout,
                                 .err = std::cerr,
                                 .out_is_terminal = isatty(STDOUT_FILENO) == 1,
                                 .err_is_terminal = isatty(STDERR_FILENO) == 1};
  const megatwin::cli::RealWorld world;
  return megatwin::cli::run_command_line({argv + 1, argv + argc}, world, console);
}
