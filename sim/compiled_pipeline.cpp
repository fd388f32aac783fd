#include "sim/compiled_pipeline.h"

#include <limits>
#include <utility>

#include "model/assert.h"
#include "policies/order_walk.h"

namespace megatwin::sim {
namespace {

using model::PipelineShape;

class Compiler {
 public:
  explicit Compiler(CompiledPipeline& out)
      : out_(out),
        shape_(out.shape),
        layout_{out.shape},
        seen_(static_cast<std::size_t>(shape_.virtual_stages()), false),
        left_(static_cast<std::size_t>(shape_.virtual_stages()), shape_.micro_batches) {}

  void append(int stage, model::TaskId id) {
    const TaskRows::Place place = out_.rows.place(id);
    const TaskRow& row = out_.rows.row(stage, place);
    const auto chunk_index = static_cast<std::size_t>(shape_.chunk_number(stage, row.chunk));
    if (row.is_forward && !seen_[chunk_index]) {
      seen_[chunk_index] = true;
      append_gather_wait(stage, row.chunk);
    }
    const std::uint32_t slot = row.slot + place.micro_batch;
    out_.steps.push_back({.slot = slot,
                          .waits_for = row.producer_slot(place.micro_batch),
                          .cost = row.cost,
                          .send_lane = row.send_lane,
                          .stage = static_cast<std::uint16_t>(stage),
                          .send = row.send_cost});
    ++out_.num_tasks;
    out_.num_events += row.send == SendKind::None ? 1 : 2;
    if (row.is_last && --left_[chunk_index] == 0) {
      out_.chunk_ends[static_cast<std::size_t>(stage)].push_back({{row.chunk}, slot});
    }
  }

 private:
  // A task of no duration holds the lane until the parameters are there.
  void append_gather_wait(int stage, int chunk) {
    out_.steps.push_back({.slot = static_cast<std::uint32_t>(layout_.unread()),
                          .waits_for = static_cast<std::uint32_t>(layout_.gather(stage, chunk)),
                          .cost = static_cast<std::uint32_t>(shape_.pipeline * shape_.phases() *
                                                             shape_.model_chunks),
                          .send_lane = static_cast<std::uint32_t>(2 * shape_.pipeline),
                          .stage = static_cast<std::uint16_t>(stage),
                          .send = 0});
  }

  CompiledPipeline& out_;
  const PipelineShape& shape_;
  SlotLayout layout_;
  std::vector<bool> seen_;
  std::vector<int> left_;
};

}  // namespace

CompiledPipeline compile_pipeline(const model::ProgramSpec& spec) {
  CompiledPipeline compiled{.shape = pipeline_shape(spec),
                            .rows = TaskRows(pipeline_shape(spec)),
                            .orders = policies::schedule_orders(spec)};
  const PipelineShape& shape = compiled.shape;
  const SlotLayout layout{shape};
  // A send names its boundary and direction in 16 bits.
  MEGATWIN_ASSERT(2 * shape.pipeline < std::numeric_limits<std::uint16_t>::max(), shape.pipeline);
  MEGATWIN_ASSERT(layout.size() <= std::numeric_limits<std::uint32_t>::max(), layout.size());

  const policies::OrderWalk walk = policies::walk_orders(shape, compiled.orders);
  MEGATWIN_ASSERT(walk.deadlock.empty(), walk.deadlock.front());
  compiled.steps.reserve(walk.sequence.size() + static_cast<std::size_t>(shape.virtual_stages()));
  compiled.chunk_ends.resize(static_cast<std::size_t>(shape.pipeline));
  Compiler compiler(compiled);
  for (const auto& [stage, task] : walk.sequence) {
    compiler.append(stage.value, task);
  }
  // A gather and a reduction a chunk, an optimizer step a stage.
  compiled.num_events += 2 * shape.virtual_stages() + shape.pipeline;
  return compiled;
}

std::shared_ptr<const CompiledPipeline> PipelineCache::get(const model::ProgramSpec& spec) {
  Key key{spec.schedule, pipeline_shape(spec), spec.micro_batch_group, {}};
  if (spec.schedule == model::ScheduleKind::OrderFile) {
    key.orders = spec.orders;
  }
  auto& compiled = compiled_[std::move(key)];
  if (!compiled) {
    compiled = std::make_shared<const CompiledPipeline>(compile_pipeline(spec));
  }
  return compiled;
}

}  // namespace megatwin::sim
