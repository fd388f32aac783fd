// A group of ranks that meet by letters, threads and processes alike: every member writes to all
// others what they need of its values, waits for theirs, and does the sums for itself.
#ifndef MEGATWIN_EXEC_LETTER_GROUP_H_
#define MEGATWIN_EXEC_LETTER_GROUP_H_

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "exec/host_layout.h"
#include "exec/host_world.h"
#include "exec/rank_group.h"
#include "model/micro_op.h"

namespace megatwin::exec {

class LetterGroup : public RankGroup {
 public:
  struct Setup {
    HostWorld& world;  // Borrowed.
    model::GroupKind kind;
    model::RankId rank;
    std::vector<model::RankId> members;  // Ascending, `rank` among them.
  };
  explicit LetterGroup(const Setup& setup);
  // Before the first call. While it waits, the rank goes on consuming events.
  void wait_by(Wait wait) { wait_ = std::move(wait); }

  int size() const override { return static_cast<int>(setup_.members.size()); }
  int member() const override { return member_; }
  void all_reduce_sum(std::span<float> values) override;
  void all_reduce_max(std::span<float> values) override;
  void all_gather(std::span<const float> shard, std::span<float> whole) override;
  void reduce_scatter(std::span<const float> whole, std::span<float> shard) override;
  void all_to_all(const AllToAll& arguments) override;

 private:
  bool is_own(std::size_t member) const { return static_cast<int>(member) == member_; }
  void send(std::size_t member, std::span<const float> values);
  void send_all(std::span<const float> values);
  // Waits for a letter of every other one, and gives what each wrote, by member; empty for itself.
  std::vector<std::vector<float>> receive_all();

  Setup setup_;
  int member_ = 0;
  std::vector<model::RankId> others_;
  Wait wait_;
};

// All groups of one rank.
class OwnGroups {
 public:
  // World and layout are borrowed, the layout only here.
  OwnGroups(HostWorld& world, const HostLayout& layout, model::RankId rank);
  OwnGroups(const OwnGroups&) = delete;
  OwnGroups& operator=(const OwnGroups&) = delete;
  // References to what is in here.
  RankGroups all();
  // How the rank waits in all of them.
  void wait_by(const Wait& wait);

 private:
  LoneGroup lone_;                                  // Where the rank is alone.
  std::map<model::GroupKind, LetterGroup> groups_;  // Where it is not.
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_LETTER_GROUP_H_
