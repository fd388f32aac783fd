// Processes of exec/ that are threads of a test, each with its own copy of everything: what mpirun
// starts, without mpirun.
#ifndef MEGATWIN_TESTS_EXEC_PROCESS_THREADS_H_
#define MEGATWIN_TESTS_EXEC_PROCESS_THREADS_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "exec/host_job.h"
#include "model/assert.h"
#include "model/processes.h"

namespace megatwin::tests {

// Where messages lie until they are taken, by receiver.
struct Post {
  explicit Post(int size) : boxes(static_cast<std::size_t>(size)) {}
  struct Box {
    std::mutex mutex;
    std::deque<model::Processes::Message> messages;
  };
  std::vector<Box> boxes;
};

class ThreadProcess : public model::Processes {
 public:
  ThreadProcess(Post& post, int rank) : post_(post), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(post_.boxes.size()); }
  void send(int to, int tag, std::span<const std::byte> bytes) override {
    if (frozen_.load()) return;
    Post::Box& box = post_.boxes[static_cast<std::size_t>(to)];
    const std::lock_guard lock(box.mutex);
    box.messages.push_back({.from = rank_, .tag = tag, .bytes = {bytes.begin(), bytes.end()}});
  }
  std::optional<Message> try_receive(int from, int tag) override {
    if (frozen_.load()) return std::nullopt;
    MEGATWIN_ASSERT(from == kAny, "the carrier takes whatever comes");
    Post::Box& box = post_.boxes[static_cast<std::size_t>(rank_)];
    const std::lock_guard lock(box.mutex);
    if (box.messages.empty()) return std::nullopt;
    Message message = std::move(box.messages.front());
    box.messages.pop_front();
    MEGATWIN_ASSERT(message.tag == tag, "tag ", message.tag);
    return message;
  }
  [[noreturn]] void abort(int) override { std::abort(); }

  // Neither sends nor takes anything any more.
  void freeze() { frozen_.store(true); }

 private:
  Post& post_;
  int rank_;
  std::atomic<bool> frozen_{false};
};

// Runs the job that `make` gives in each of `size` processes; the results by process.
inline std::vector<exec::HostResult> run_in_processes(
    int size, const std::function<exec::HostResult(model::Processes&)>& run) {
  Post post(size);
  std::vector<exec::HostResult> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadProcess process(post, rank);
      results[static_cast<std::size_t>(rank)] = run(process);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_EXEC_PROCESS_THREADS_H_
