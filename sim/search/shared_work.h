// Numbered pieces of work, handed out one by one to the threads of this process and, where a search
// goes over several, in small heaps to those of the others as they ask for more. Who does which
// piece is left open, so results belong into places of their own.
#ifndef MEGATWIN_SIM_SEARCH_SHARED_WORK_H_
#define MEGATWIN_SIM_SEARCH_SHARED_WORK_H_

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/processes.h"
#include "sim/search/byte_stream.h"

namespace megatwin::sim {

// Another process cannot go on.
class HelperError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class WorkKind : int { End, Families, Times, Losers, Reports };

// The functions are called from several threads at once.
struct Pieces {
  WorkKind kind = WorkKind::End;
  std::size_t count = 0;
  // A thread that did a piece does its neighbour with less work: each gets a stretch of them.
  bool neighbours_share = false;
  std::function<void(std::size_t piece, int thread)> here;
  // What another process must know of a piece beside its number, and what it found.
  std::function<void(std::size_t piece, ByteWriter&)> request;
  std::function<void(std::size_t piece, ByteReader&)> take;
};

// In the first process. Not thread-safe.
class SharedWork {
 public:
  // Waits until every other process has called help(). `processes` must outlive this; null: there
  // are no others.
  explicit SharedWork(model::Processes* processes);
  ~SharedWork();  // Lets the others return from help().
  SharedWork(const SharedWork&) = delete;
  SharedWork& operator=(const SharedWork&) = delete;

  // On return every piece was done. Errors: throws what a function threw, or HelperError; then
  // pieces may be missing, and no further run() is allowed.
  void run(const Pieces& pieces, int num_threads);

 private:
  class Queue;
  struct Helper {
    int rank = 0, thread = 0;
    std::size_t number = 0;  // Of the thread among all others.
  };

  void serve(Queue& queue, const Pieces& pieces);
  void give(const Helper& helper, Queue& queue, const Pieces& pieces);
  void take(const model::Processes::Message& message, const Pieces& pieces);

  model::Processes* processes_;
  std::vector<Helper> helpers_, idle_;
  std::size_t handed_out_ = 0;
};

// Does a piece in another process: reads the request, writes what take() reads.
using HelperWork = std::function<void(WorkKind kind, std::size_t piece, int thread,
                                      ByteReader& request, ByteWriter& result)>;

// In the other processes: works until the first has no more.
void help(model::Processes& processes, int num_threads, const HelperWork& work);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_SHARED_WORK_H_
