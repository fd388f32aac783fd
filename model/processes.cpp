#include "model/processes.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace megatwin::model {

void Patience::wait() {
  constexpr int kYields = 100, kDoublings = 10;
  constexpr std::chrono::microseconds kFirst{20};
  const int sleeps = waits_ - kYields;
  if (sleeps < kDoublings) ++waits_;
  if (sleeps < 0) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::min((1 << sleeps) * kFirst, longest_));
  }
}

Processes::Message Processes::receive(int from, int tag) {
  Patience patience(std::chrono::milliseconds{1});
  for (;;) {
    if (auto message = try_receive(from, tag)) return *std::move(message);
    patience.wait();
  }
}

void Processes::flush() {
  Patience patience(std::chrono::microseconds{100});
  while (!all_taken()) patience.wait();
}

}  // namespace megatwin::model
