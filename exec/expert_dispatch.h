// The way of tokens to their experts and back, for one layer and micro-batch: all-to-all over the
// expert-parallel group, then all of the expert-tensor group see what each of them got. There the
// rows lie by expert, and within one in the order of the ranks and tokens that they came from.
#ifndef MEGATWIN_EXEC_EXPERT_DISPATCH_H_
#define MEGATWIN_EXEC_EXPERT_DISPATCH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exec/model_shape.h"
#include "exec/rank_group.h"

namespace megatwin::exec {

class ExpertDispatch {
 public:
  // experts: of each assignment (token by token, k each), negative when dropped. All members of
  // both groups construct alike. Shape and groups are borrowed.
  ExpertDispatch(const ModelShape& shape, const RankGroups& groups,
                 std::span<const std::int32_t> experts);

  // Rows that this rank has of its n-th expert, and of all.
  std::int64_t rows_of(std::int64_t expert) const;
  std::int64_t rows() const { return num_rows_; }

  // to = the rows of all kept assignments. Row n of `from` serves `assignments_per_row` of them.
  struct Send {
    std::span<const float> from;
    std::int64_t assignments_per_row = 1;
    std::span<float> to;
    std::span<float> workspace;
  };
  void to_experts(const Send& arguments);
  // to = for each assignment the sum over the expert-tensor group of its row, zero when dropped.
  struct Return {
    std::span<const float> from;
    std::span<float> to;
    std::span<float> workspace;
  };
  void from_experts(const Return& arguments);

 private:
  // A run of rows that came the same way to the same expert, as `arrived` and as `sorted`.
  struct Run {
    std::int64_t arrived = 0, sorted = 0, size = 0;
  };
  void find_runs(std::span<const float> counts);
  std::span<float> arrivals_of(std::span<float> gathered, int member) const;
  std::vector<std::int64_t> in_numbers(const std::vector<std::int64_t>& rows) const;

  const ModelShape& shape_;
  RankGroups groups_;
  std::vector<std::int64_t> order_;                     // Kept assignments by expert, then token.
  std::vector<std::int64_t> sent_rows_, arrived_rows_;  // By member of the expert group.
  std::vector<std::int64_t> member_rows_;               // By member of the expert-tensor group.
  std::vector<std::int64_t> expert_rows_;               // By local expert.
  std::vector<Run> runs_;
  std::int64_t num_rows_ = 0;
};

std::int64_t dispatch_workspace(const ModelShape& shape);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_EXPERT_DISPATCH_H_
