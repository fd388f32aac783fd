// Decides when collectives may start where ranks ask for them in orders of their own: every group
// keeps a vector of bits for each operation that was asked for, one bit a member, and an operation
// is released when all its bits are set. One operation at a time inside a group, groups beside each
// other. Since a release waits for nobody who has not asked already, no order of requests can
// deadlock. Plain state, no thread: the world carries the messages.
// Source: the coordinator of MegaFBD, which releases one operation at a time over all groups.
#ifndef MEGATWIN_POLICIES_COLLECTIVE_COORDINATOR_H_
#define MEGATWIN_POLICIES_COLLECTIVE_COORDINATOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/ids.h"

namespace megatwin::policies {

// One collective: which of the coordinator's groups, and the number that all members know it by.
struct CollectiveOperation {
  int group = 0;
  std::int64_t number = 0;
  friend constexpr auto operator<=>(const CollectiveOperation&,
                                    const CollectiveOperation&) = default;
};

class CollectiveCoordinator {
 public:
  // Requires: every group has a member; the members of a group are distinct.
  explicit CollectiveCoordinator(std::vector<std::vector<model::RankId>> groups);

  // Requires: `rank` is a member and has not asked for this operation before.
  void request(model::RankId rank, const CollectiveOperation& operation);

  // What may start now, by group; each member starts the operations of a group in this order.
  std::vector<CollectiveOperation> release();

  // The operation is over at all members; the group is free. Requires: it was released.
  void finish(const CollectiveOperation& operation);

  // The whole state on one line: two coordinators of equal lines go on alike.
  std::string state_line() const;

 private:
  using Bits = std::vector<bool>;
  struct Group {
    std::vector<model::RankId> members;
    std::map<std::int64_t, Bits> asked;  // By operation; complete ones are moved to …
    std::vector<std::int64_t> complete;  // … here, in the order in which they became so.
    bool running = false;
    std::int64_t running_number = 0;
  };
  Group& group_of(const CollectiveOperation& operation);

  std::vector<Group> groups_;
};

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_COLLECTIVE_COORDINATOR_H_
