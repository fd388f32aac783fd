// The one file that touches MPI, by its C interface. Faults of MPI end the job: its default.
#include <cstdlib>
#include <list>
#include <mpi.h>
#include <mutex>
#include <string_view>
#include <utility>

#include <climits>

#include "cli/mpi/open_mpi_settings.h"
#include "cli/mpi/plugin.h"
#include "model/assert.h"

namespace {

using megatwin::model::Processes;

class MpiProcesses : public Processes {
 public:
  MpiProcesses() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  ~MpiProcesses() override {
    for (Sending& sending : sending_) MPI_Wait(&sending.request, MPI_STATUS_IGNORE);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int to, int tag, std::span<const std::byte> bytes) override {
    MEGATWIN_ASSERT(bytes.size() <= INT_MAX && tag >= 0, bytes.size(), " bytes, tag ", tag);
    const std::lock_guard lock(mutex_);
    forget_taken();
    Sending& sending = sending_.emplace_back();
    sending.bytes.assign(bytes.begin(), bytes.end());
    MPI_Isend(sending.bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag,
              MPI_COMM_WORLD, &sending.request);
  }

  bool all_taken() override {
    const std::lock_guard lock(mutex_);
    forget_taken();
    return sending_.empty();
  }

  std::optional<Message> try_receive(int from, int tag) override {
    int here = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Improbe(from == kAny ? MPI_ANY_SOURCE : from, tag == kAny ? MPI_ANY_TAG : tag,
                MPI_COMM_WORLD, &here, &handle, &status);
    if (here == 0) return std::nullopt;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    Message message{.from = status.MPI_SOURCE, .tag = status.MPI_TAG, .bytes = {}};
    message.bytes.resize(static_cast<std::size_t>(count));
    MPI_Mrecv(message.bytes.data(), count, MPI_BYTE, &handle, &status);
    return message;
  }

  [[noreturn]] void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::abort();  // MPI_Abort does not return.
  }

 private:
  struct Sending {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void forget_taken() {
    sending_.remove_if([](Sending& sending) {
      int taken = 0;
      MPI_Test(&sending.request, &taken, MPI_STATUS_IGNORE);
      return taken != 0;
    });
  }

  int rank_ = 0, size_ = 1;
  std::mutex mutex_;
  std::list<Sending> sending_;
};

// NOLINTBEGIN(concurrency-mt-unsafe): no thread has begun.

// As Open MPI's launcher says it; another launcher says nothing.
bool on_one_host() {
  const char* here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const char* all = std::getenv("OMPI_COMM_WORLD_SIZE");
  return here != nullptr && all != nullptr && std::string_view(here) == all;
}

// What the user has set stays, in the environment or in a file of parameters, over which the
// environment would win.
void set_up_open_mpi() {
  using megatwin::cli::leaves;
  using megatwin::cli::parameter_set;
  // Else a process that reads a large message out of the memory of one that was just killed ends by
  // itself, before anybody has said which rank is gone.
  if (!parameter_set("btl_vader_single_copy_mechanism")) {
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  }
  // Shared memory is all it takes; to look for network cards takes as long as the rest of MPI_Init.
  if (!on_one_host() || !leaves(parameter_set("pml").value_or(""), {"ob1"}) ||
      !leaves(parameter_set("btl").value_or(""), {"self", "vader"})) {
    return;
  }
  setenv("OMPI_MCA_pml", "ob1", 1);
  setenv("OMPI_MCA_btl", "self,vader", 1);
}

// NOLINTEND(concurrency-mt-unsafe)

}  // namespace

extern "C" __attribute__((visibility("default"))) Processes* megatwin_mpi_join_1() {
  set_up_open_mpi();
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (provided == MPI_THREAD_MULTIPLE) return new MpiProcesses;
  MPI_Finalize();
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) const char* megatwin_mpi_version_1() {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  return version;
}
