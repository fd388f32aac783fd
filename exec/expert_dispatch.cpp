#include "exec/expert_dispatch.h"

#include <algorithm>
#include <numeric>

#include "exec/slice.h"
#include "model/assert.h"
#include "model/numbers.h"

namespace megatwin::exec {
namespace {

using model::as_index;

void copy_rows(std::span<const float> from, std::int64_t from_row, std::span<float> to,
               std::int64_t to_row, std::int64_t rows, std::int64_t width) {
  const auto source = from.subspan(as_index(from_row * width), as_index(rows * width));
  std::copy(source.begin(), source.end(), to.begin() + to_row * width);
}

}  // namespace

ExpertDispatch::ExpertDispatch(const ModelShape& shape, const RankGroups& groups,
                               std::span<const std::int32_t> experts)
    : shape_(shape), groups_(groups), expert_rows_(as_index(shape.experts.local_count()), 0) {
  const std::int64_t local = shape.experts.local_count();
  for (std::int64_t i = 0; i < std::ssize(experts); ++i) {
    if (experts[as_index(i)] >= 0) {
      order_.push_back(i);
    }
  }
  std::stable_sort(order_.begin(), order_.end(), [&](std::int64_t a, std::int64_t b) {
    return experts[as_index(a)] < experts[as_index(b)];
  });
  // Counts are small whole numbers: a float holds them.
  std::vector<float> counts(as_index(shape.experts.count), 0);
  sent_rows_.assign(as_index(shape.experts.parallel), 0);
  for (const std::int64_t i : order_) {
    ++counts[as_index(experts[as_index(i)])];
    ++sent_rows_[as_index(experts[as_index(i)] / local)];
  }
  std::vector<float> of_group(counts.size() * sent_rows_.size());
  groups_.expert.all_gather(counts, of_group);
  std::vector<float> arriving;  // [source][local expert].
  for (std::size_t source = 0; source < sent_rows_.size(); ++source) {
    const auto begin = of_group.begin() + static_cast<std::ptrdiff_t>(source * counts.size()) +
                       groups_.expert.member() * local;
    arriving.insert(arriving.end(), begin, begin + local);
    arrived_rows_.push_back(static_cast<std::int64_t>(std::accumulate(begin, begin + local, 0.0F)));
  }
  std::vector<float> all(arriving.size() * as_index(shape.experts.tensor));
  groups_.expert_tensor.all_gather(arriving, all);
  find_runs(all);
}

// counts: [expert-tensor member][source][local expert].
void ExpertDispatch::find_runs(std::span<const float> counts) {
  const std::int64_t local = shape_.experts.local_count();
  const std::int64_t sources = std::ssize(counts) / local;
  std::int64_t arrived = 0;
  for (std::int64_t i = 0; i < std::ssize(counts); ++i) {
    const auto size = static_cast<std::int64_t>(counts[as_index(i)]);
    runs_.push_back({.arrived = arrived, .size = size});
    arrived += size;
    expert_rows_[as_index(i % local)] += size;
    if ((i + 1) % (local * shape_.experts.parallel) == 0) {
      member_rows_.push_back(
          arrived - std::accumulate(member_rows_.begin(), member_rows_.end(), std::int64_t{0}));
    }
  }
  num_rows_ = arrived;
  MEGATWIN_ASSERT(num_rows_ <= shape_.expert_rows_max(), num_rows_, " rows");
  std::int64_t sorted = 0;
  for (std::int64_t expert = 0; expert < local; ++expert) {
    for (std::int64_t source = 0; source < sources; ++source) {
      Run& run = runs_[as_index(source * local + expert)];
      run.sorted = sorted;
      sorted += run.size;
    }
  }
}

std::int64_t ExpertDispatch::rows_of(std::int64_t expert) const {
  return expert_rows_[as_index(expert)];
}

std::span<float> ExpertDispatch::arrivals_of(std::span<float> gathered, int member) const {
  const auto before =
      std::accumulate(member_rows_.begin(), member_rows_.begin() + member, std::int64_t{0});
  return gathered.subspan(as_index(before * shape_.hidden),
                          as_index(member_rows_[as_index(member)] * shape_.hidden));
}

std::vector<std::int64_t> ExpertDispatch::in_numbers(const std::vector<std::int64_t>& rows) const {
  std::vector<std::int64_t> numbers(rows);
  for (std::int64_t& size : numbers) {
    size *= shape_.hidden;
  }
  return numbers;
}

// Assignments sent, then what arrived here, then what arrived at all of the expert-tensor group.
std::int64_t dispatch_workspace(const ModelShape& shape) {
  return shape.hidden * (shape.assignments() + shape.arrivals_max() + shape.expert_rows_max());
}

void ExpertDispatch::to_experts(const Send& arguments) {
  const std::int64_t width = shape_.hidden;
  Workspace workspace(arguments.workspace);
  const std::span<float> sent = workspace.take(std::ssize(order_) * width);
  for (std::int64_t i = 0; i < std::ssize(order_); ++i) {
    copy_rows(arguments.from, order_[as_index(i)] / arguments.assignments_per_row, sent, i, 1,
              width);
  }
  const int member = groups_.expert_tensor.member();
  const std::span<float> arrived = workspace.take(member_rows_[as_index(member)] * width);
  groups_.expert.all_to_all({sent, in_numbers(sent_rows_), arrived, in_numbers(arrived_rows_)});
  const std::span<float> gathered = workspace.take(num_rows_ * width);
  groups_.expert_tensor.all_gather(arrived, gathered);
  for (const Run& run : runs_) {
    copy_rows(gathered, run.arrived, arguments.to, run.sorted, run.size, width);
  }
}

void ExpertDispatch::from_experts(const Return& arguments) {
  const std::int64_t width = shape_.hidden;
  Workspace workspace(arguments.workspace);
  const std::span<float> gathered = workspace.take(num_rows_ * width);
  for (const Run& run : runs_) {
    copy_rows(arguments.from, run.sorted, gathered, run.arrived, run.size, width);
  }
  groups_.expert_tensor.all_reduce_sum(gathered);
  const std::span<float> returned = workspace.take(std::ssize(order_) * width);
  groups_.expert.all_to_all({arrivals_of(gathered, groups_.expert_tensor.member()),
                             in_numbers(arrived_rows_), returned, in_numbers(sent_rows_)});
  std::fill(arguments.to.begin(), arguments.to.end(), 0.0F);
  for (std::int64_t i = 0; i < std::ssize(order_); ++i) {
    copy_rows(returned, i, arguments.to, order_[as_index(i)], 1, width);
  }
}

}  // namespace megatwin::exec
