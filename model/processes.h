// Several processes that work on one thing and send each other bytes. What lies behind is MPI
// (cli/mpi/), or threads of one process in tests. All members may be called from many threads.
#ifndef MEGATWIN_MODEL_PROCESSES_H_
#define MEGATWIN_MODEL_PROCESSES_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace megatwin::model {

// Waiting for others without taking a core from them: first at once again, then longer each time.
class Patience {
 public:
  explicit Patience(std::chrono::microseconds longest) : longest_(longest) {}
  void wait();
  void renew() { waits_ = 0; }  // Something came.

 private:
  std::chrono::microseconds longest_;
  int waits_ = 0;
};

class Processes {
 public:
  static constexpr int kAny = -1;  // Any sender, any tag.

  struct Message {
    int from = 0;
    int tag = 0;
    std::vector<std::byte> bytes;
  };

  // Waits until all that was sent is taken and every process has come here. A process that must
  // leave for an error calls abort() instead.
  virtual ~Processes() = default;

  virtual int rank() const = 0;  // From 0.
  virtual int size() const = 0;

  // Never waits: the bytes are copied. Messages of one sender, receiver and tag arrive in order. A
  // long one may move on only while its sender's process makes calls here.
  // Requires: 0 ≤ tag < 32768, less than 2 GiB.
  virtual void send(int to, int tag, std::span<const std::byte> bytes) = 0;

  // Whether all that was sent is taken; moves long messages on.
  virtual bool all_taken() = 0;

  // The first message that fits, if it is here. Each message is taken by one call.
  virtual std::optional<Message> try_receive(int from, int tag) = 0;

  // Ends every process of the job; mpirun returns `code`.
  [[noreturn]] virtual void abort(int code) = 0;

  // Waits for a message, with patience: a millisecond between two looks at most.
  Message receive(int from, int tag);

  // Waits until all that was sent is taken, so that its receivers do not wait for the next call
  // here.
  void flush();
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROCESSES_H_
