// What a task asks of a group of ranks that run it together: tensor, context, expert, expert-tensor
// or data parallel. Every member makes the same calls in the same order; each call returns when
// this member's result is there and its arguments may be reused. Sums run over the members in
// ascending order, so that all members get the same bits.
#ifndef MEGATWIN_EXEC_RANK_GROUP_H_
#define MEGATWIN_EXEC_RANK_GROUP_H_

#include <algorithm>
#include <cstdint>
#include <span>

namespace megatwin::exec {

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int size() const = 0;
  virtual int member() const = 0;

  virtual void all_reduce_sum(std::span<float> values) = 0;
  virtual void all_reduce_max(std::span<float> values) = 0;
  // whole = the shards of all members, one behind the other. They may differ in size.
  virtual void all_gather(std::span<const float> shard, std::span<float> whole) = 0;
  // shard = this member's part, as shard_of() cuts it, of the sum of all members' `whole`.
  virtual void reduce_scatter(std::span<const float> whole, std::span<float> shard) = 0;

  // Member m gets the m-th part of `send`; what the others send stands in `receive` in their order.
  struct AllToAll {
    std::span<const float> send;
    std::span<const std::int64_t> send_sizes;  // One a member.
    std::span<float> receive;
    std::span<const std::int64_t> receive_sizes;
  };
  virtual void all_to_all(const AllToAll& arguments) = 0;
};

// The group of a rank that is alone.
class LoneGroup : public RankGroup {
 public:
  int size() const override { return 1; }
  int member() const override { return 0; }
  void all_reduce_sum(std::span<float>) override {}
  void all_reduce_max(std::span<float>) override {}
  void all_gather(std::span<const float> shard, std::span<float> whole) override {
    std::copy(shard.begin(), shard.end(), whole.begin());
  }
  void reduce_scatter(std::span<const float> whole, std::span<float> shard) override {
    std::copy(whole.begin(), whole.end(), shard.begin());
  }
  void all_to_all(const AllToAll& arguments) override {
    const auto size = arguments.send_sizes[0];
    std::copy(arguments.send.begin(), arguments.send.begin() + size, arguments.receive.begin());
  }
};

// The groups of one rank.
struct RankGroups {
  RankGroup& tensor;
  RankGroup& context;
  RankGroup& expert;
  RankGroup& expert_tensor;
  RankGroup& data;         // All replicas of dense weights: data times context.
  RankGroup& expert_data;  // All replicas of experts.
};

inline RankGroups groups_of_one(LoneGroup& group) {
  return {group, group, group, group, group, group};
}

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_RANK_GROUP_H_
