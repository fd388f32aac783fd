// Step times that a search has worked out, kept in a file (SQLite), so that a search which was
// killed goes on where it was. One file can hold many searches.
#ifndef MEGATWIN_SIM_SEARCH_RESULT_STORE_H_
#define MEGATWIN_SIM_SEARCH_RESULT_STORE_H_

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/units.h"
#include "sim/search/plan_list.h"

namespace megatwin::sim {

// The disk, or a file that is no store.
class StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StoredTime {
  PlanCode code;
  model::Instant time;
  friend auto operator<=>(const StoredTime&, const StoredTime&) = default;
};

class ResultStore {
 public:
  // `key` says which search this is: whatever its times depend on, as text.
  // Errors: throws StoreError naming the file and the reason.
  ResultStore(const std::string& path, const std::string& key);
  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  // By code ascending.
  std::vector<StoredTime> load() const;
  // On return they survive the end of the process, however it ends. Callable from any thread.
  void add(std::span<const StoredTime> times);
  // Forgets the times of this search.
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_RESULT_STORE_H_
