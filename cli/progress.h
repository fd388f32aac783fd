// One line on the terminal that says how far a long piece of work is and when it will be done.
// Silent when the stream is no terminal, and for work that ends within half a second.
#ifndef MEGATWIN_CLI_PROGRESS_H_
#define MEGATWIN_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/console.h"

namespace megatwin::cli {

class Progress {
 public:
  Progress(Console& console, std::string what, std::int64_t total);
  ~Progress();  // Clears the line.
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance();

 private:
  using Clock = std::chrono::steady_clock;

  Console& console_;
  std::string what_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool visible_ = false;
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_PROGRESS_H_
