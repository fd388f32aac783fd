// What a layer asks of its tensor-parallel group. Every member makes the same calls in the same
// order; each call returns when this member's result is there and its arguments may be reused.
// Sums run over the members in ascending order, so that all members get the same bits.
#ifndef MEGATWIN_EXEC_TENSOR_GROUP_H_
#define MEGATWIN_EXEC_TENSOR_GROUP_H_

#include <algorithm>
#include <span>

namespace megatwin::exec {

class TensorGroup {
 public:
  virtual ~TensorGroup() = default;
  virtual int size() const = 0;
  virtual int member() const = 0;

  virtual void all_reduce_sum(std::span<float> values) = 0;
  virtual void all_reduce_max(std::span<float> values) = 0;
  // whole = the shards of all members, one behind the other.
  virtual void all_gather(std::span<const float> shard, std::span<float> whole) = 0;
  // shard = this member's part of the sum of all members' `whole`.
  virtual void reduce_scatter(std::span<const float> whole, std::span<float> shard) = 0;
};

// The group of a rank that is alone.
class LoneGroup : public TensorGroup {
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
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_TENSOR_GROUP_H_
