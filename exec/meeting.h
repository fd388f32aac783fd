// The place where all ranks meet, at the ends of a step. Each writes to each, so that whoever has
// heard from all has also got everything that they sent before.
#ifndef MEGATWIN_EXEC_MEETING_H_
#define MEGATWIN_EXEC_MEETING_H_

#include <vector>

#include "exec/host_world.h"

namespace megatwin::exec {

class Meeting {
 public:
  // The world is borrowed.
  Meeting(HostWorld& world, model::RankId rank) : world_(world), rank_(rank) {}

  // Returns when all have come, with what each brought, by rank.
  std::vector<ByteVector> meet(ByteVector brought, const Wait& wait);

 private:
  HostWorld& world_;
  model::RankId rank_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MEETING_H_
