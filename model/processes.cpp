#include "model/processes.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace megatwin::model {

Processes::Message Processes::receive(int from, int tag) {
  constexpr int kYields = 100;
  constexpr std::chrono::microseconds kFirst{20}, kLongest{1000};
  std::chrono::microseconds pause = kFirst;
  for (int tries = 0;; ++tries) {
    if (auto message = try_receive(from, tag)) return *std::move(message);
    if (tries < kYields) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongest);
  }
}

}  // namespace megatwin::model
