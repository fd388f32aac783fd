// Threads that stand for the processes of a job: the protocols over model/processes.h without MPI,
// and under the thread sanitizer.
#ifndef MEGATWIN_TESTS_THREAD_PROCESSES_H_
#define MEGATWIN_TESTS_THREAD_PROCESSES_H_

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "model/processes.h"

namespace megatwin::tests {

class ThreadProcesses {
 public:
  explicit ThreadProcesses(int size) : inboxes_(static_cast<std::size_t>(size)) {}

  // Runs a body in so many threads, which get their ends; returns when all have ended.
  static void run(int size, const std::function<void(model::Processes&)>& body) {
    ThreadProcesses job(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        End end(job, rank);
        body(end);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  using Message = model::Processes::Message;

  struct Inbox {
    std::mutex mutex;
    std::deque<Message> messages;
  };

  class End : public model::Processes {
   public:
    End(ThreadProcesses& job, int rank) : job_(job), rank_(rank) {}

    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(job_.inboxes_.size()); }

    void send(int to, int tag, std::span<const std::byte> bytes) override {
      Inbox& inbox = job_.inboxes_[static_cast<std::size_t>(to)];
      const std::lock_guard lock(inbox.mutex);
      inbox.messages.push_back({.from = rank_, .tag = tag, .bytes = {bytes.begin(), bytes.end()}});
    }

    bool all_taken() override { return true; }

    std::optional<Message> try_receive(int from, int tag) override {
      Inbox& inbox = job_.inboxes_[static_cast<std::size_t>(rank_)];
      const std::lock_guard lock(inbox.mutex);
      const auto found =
          std::find_if(inbox.messages.begin(), inbox.messages.end(), [&](const Message& message) {
            return (from == kAny || message.from == from) && (tag == kAny || message.tag == tag);
          });
      if (found == inbox.messages.end()) return std::nullopt;
      Message message = std::move(*found);
      inbox.messages.erase(found);
      return message;
    }

    [[noreturn]] void abort(int /*code*/) override { std::abort(); }

   private:
    ThreadProcesses& job_;
    int rank_;
  };

  std::deque<Inbox> inboxes_;
};

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_THREAD_PROCESSES_H_
