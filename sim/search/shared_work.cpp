// A helping thread sends {its number, what went wrong, pieces that are done} and is sent {kind,
// pieces to do}, each piece with its number and a block of bytes.
#include "sim/search/shared_work.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "sim/search/parallel_for.h"

namespace megatwin::sim {
namespace {

using model::Processes;

enum Tag { kHello = 1, kToQueue = 2, kToThread = 16 };  // kToThread + number of the thread.

constexpr std::size_t kHeapMax = 16;
constexpr int kHeapsAhead = 2;  // One that a helper works at and one that waits for it.
constexpr std::chrono::microseconds kLongestPause{200};

}  // namespace

// Thread-safe.
class SharedWork::Queue {
 public:
  // In as many stretches of equal length, each with a thread that is at home there.
  Queue(std::size_t num_pieces, std::size_t num_stretches) : left_(num_pieces) {
    for (std::size_t i = 0; i < num_stretches; ++i) {
      stretches_.push_back({num_pieces * i / num_stretches, num_pieces * (i + 1) / num_stretches});
    }
  }

  std::size_t left() const {
    const std::lock_guard lock(mutex_);
    return left_;
  }
  bool given_up() const { return given_up_; }
  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    left_ = 0;
    for (Stretch& stretch : stretches_) stretch.first = stretch.end;
  }

  // Up to `max` pieces that follow each other, [first, end): the next of the stretch `home`, or the
  // last of the longest when that one is done.
  struct Stretch {
    std::size_t first, end;
    std::size_t size() const { return end - first; }
  };
  Stretch take(std::size_t max, std::size_t home) {
    const std::lock_guard lock(mutex_);
    Stretch& own = stretches_[home % stretches_.size()];
    Stretch taken{own.first, std::min(own.first + max, own.end)};
    own.first = taken.end;
    if (taken.size() == 0) {
      Stretch& longest =
          *std::max_element(stretches_.begin(), stretches_.end(),
                            [](const Stretch& a, const Stretch& b) { return a.size() < b.size(); });
      taken = {longest.end - std::min(max, longest.size()), longest.end};
      longest.end = taken.first;
    }
    left_ -= taken.size();
    return taken;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Stretch> stretches_;
  std::size_t left_;
  std::atomic<bool> given_up_{false};
};

SharedWork::SharedWork(Processes* processes) : processes_(processes) {
  if (processes_ == nullptr) return;
  for (int rank = 1; rank < processes_->size(); ++rank) {
    const auto hello = processes_->receive(rank, kHello);
    const int num_threads = ByteReader(hello.bytes).get<int>();
    for (int thread = 0; thread < num_threads; ++thread) {
      helpers_.push_back({rank, thread, helpers_.size()});
    }
  }
  for (int heap = 0; heap < kHeapsAhead; ++heap) {
    idle_.insert(idle_.end(), helpers_.begin(), helpers_.end());
  }
}

SharedWork::~SharedWork() {
  ByteWriter end;
  end.put(WorkKind::End);
  for (const Helper& helper : helpers_) {
    processes_->send(helper.rank, kToThread + helper.thread, end.bytes());
  }
}

void SharedWork::run(const Pieces& pieces, int num_threads) {
  const auto here = static_cast<std::size_t>(num_threads);
  Queue queue(pieces.count, pieces.neighbours_share ? here + helpers_.size() : 1);
  std::exception_ptr failure;
  std::thread server;
  if (!helpers_.empty()) {
    server = std::thread([&] {
      try {
        serve(queue, pieces);
      } catch (...) {
        failure = std::current_exception();
        queue.give_up();
      }
    });
  }
  try {
    parallel_for(here, num_threads, [&](std::size_t part, int thread) {
      try {
        for (;;) {
          const auto [piece, end] = queue.take(1, helpers_.size() + part);
          if (piece == end) return;
          pieces.here(piece, thread);
        }
      } catch (...) {
        queue.give_up();
        throw;
      }
    });
  } catch (...) {
    if (server.joinable()) server.join();
    throw;
  }
  if (server.joinable()) server.join();
  if (failure) std::rethrow_exception(failure);
}

void SharedWork::serve(Queue& queue, const Pieces& pieces) {
  model::Patience patience(kLongestPause);
  while (!queue.given_up()) {
    while (!idle_.empty() && queue.left() > 0) {
      const Helper helper = idle_.back();
      idle_.pop_back();
      give(helper, queue, pieces);
    }
    if (handed_out_ == 0 && queue.left() == 0) return;
    if (const auto message = processes_->try_receive(Processes::kAny, kToQueue)) {
      take(*message, pieces);
      patience.renew();
    } else {
      patience.wait();
    }
  }
}

// Large heaps first, so that few messages are sent, single pieces at the end, so that all end
// together. The first pieces may be the longest by far: a heap is a small part of what is left.
void SharedWork::give(const Helper& helper, Queue& queue, const Pieces& pieces) {
  const std::size_t share = queue.left() / (16 * (helpers_.size() + 1));
  const auto [first, end] = queue.take(std::clamp<std::size_t>(share, 1, kHeapMax), helper.number);
  if (first == end) {
    idle_.push_back(helper);
    return;
  }
  ByteWriter out;
  out.put(pieces.kind);
  out.put(end - first);
  for (std::size_t piece = first; piece < end; ++piece) {
    ByteWriter request;
    pieces.request(piece, request);
    out.put(piece);
    out.put_block(request);
  }
  handed_out_ += end - first;
  processes_->send(helper.rank, kToThread + helper.thread, out.bytes());
}

void SharedWork::take(const Processes::Message& message, const Pieces& pieces) {
  ByteReader in(message.bytes);
  const int thread = in.get<int>();
  const std::string fault = in.text();
  if (!fault.empty()) {
    throw HelperError("process " + std::to_string(message.from) + ": " + fault);
  }
  const auto count = in.get<std::size_t>();
  for (std::size_t i = 0; i < count; ++i) {
    const auto piece = in.get<std::size_t>();
    ByteReader result = in.block();
    pieces.take(piece, result);
  }
  handed_out_ -= count;
  idle_.push_back(*std::find_if(helpers_.begin(), helpers_.end(), [&](const Helper& helper) {
    return helper.rank == message.from && helper.thread == thread;
  }));
}

namespace {

// What one heap of pieces gives, as it is sent back.
ByteWriter done_by(int thread, ByteReader& in, WorkKind kind, const HelperWork& work) {
  ByteWriter out;
  out.put(thread);
  out.put_text("");
  const auto count = in.get<std::size_t>();
  out.put(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto piece = in.get<std::size_t>();
    ByteReader request = in.block();
    ByteWriter result;
    work(kind, piece, thread, request, result);
    out.put(piece);
    out.put_block(result);
  }
  return out;
}

ByteWriter failed(int thread, const char* reason) {
  ByteWriter out;
  out.put(thread);
  out.put_text(reason);
  return out;
}

}  // namespace

void help(Processes& processes, int num_threads, const HelperWork& work) {
  ByteWriter hello;
  hello.put(num_threads);
  processes.send(0, kHello, hello.bytes());
  parallel_for(static_cast<std::size_t>(num_threads), num_threads,
               [&](std::size_t number, int /*thread*/) {
                 const int thread = static_cast<int>(number);
                 for (;;) {
                   const auto message = processes.receive(0, kToThread + thread);
                   ByteReader in(message.bytes);
                   const auto kind = in.get<WorkKind>();
                   if (kind == WorkKind::End) return;
                   ByteWriter out;
                   try {
                     out = done_by(thread, in, kind, work);
                   } catch (const std::exception& error) {
                     out = failed(thread, error.what());
                   }
                   processes.send(0, kToQueue, out.bytes());
                   processes.flush();
                 }
               });
}

}  // namespace megatwin::sim
