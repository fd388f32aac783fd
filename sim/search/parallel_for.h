// Runs a body for every index on a few threads. Which thread runs which index is left open, so
// results belong into places of their own.
#ifndef MEGATWIN_SIM_SEARCH_PARALLEL_FOR_H_
#define MEGATWIN_SIM_SEARCH_PARALLEL_FOR_H_

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace megatwin::sim {

// Calls body(index, thread) with thread in [0, num_threads); returns when all are done.
// Errors: the first exception of a body is thrown again here; the rest of the work is left out.
template <class Body>
void parallel_for(std::size_t count, int num_threads, const Body& body) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&](int thread) {
    try {
      for (std::size_t i = next++; i < count; i = next++) body(i, thread);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 1; thread < num_threads; ++thread) threads.emplace_back(work, thread);
  work(0);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_PARALLEL_FOR_H_
