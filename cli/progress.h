// One line on the terminal that says how far a long piece of work is and when it will be done.
// Silent when the stream is no terminal, and for work that ends within half a second. A piece that
// takes longer than two seconds by itself is counted in seconds.
#ifndef MEGATWIN_CLI_PROGRESS_H_
#define MEGATWIN_CLI_PROGRESS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

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
  // On a terminal, says how long the piece in hand has taken when nothing else was said.
  void watch(const std::stop_token& stop);
  using Clock = std::chrono::steady_clock;

  Console& console_;
  std::string what_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool visible_ = false;
  bool counting_ = false;  // The seconds of one piece.
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread watcher_;  // The last member: it uses the others.
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_PROGRESS_H_
