#include "sim/compiled_pipeline.h"

#include <limits>
#include <utility>

#include "model/assert.h"
#include "model/program/program_builder.h"
#include "policies/order_walk.h"

namespace megatwin::sim {
namespace {

using model::PipelineShape;
using model::Task;
using model::TaskKind;

SendKind send_kind(TaskKind kind) {
  return kind == TaskKind::Forward ? SendKind::Activation : SendKind::Gradient;
}

class Compiler {
 public:
  explicit Compiler(CompiledPipeline& out)
      : out_(out),
        shape_(out.shape),
        layout_{out.shape},
        seen_(static_cast<std::size_t>(shape_.virtual_stages()), false),
        left_(static_cast<std::size_t>(shape_.virtual_stages()), shape_.micro_batches) {}

  void append(int stage, model::TaskId id) {
    const Task task = shape_.task(id);
    const auto chunk_index =
        static_cast<std::size_t>(stage * shape_.model_chunks + task.chunk.value);
    if (task.kind == TaskKind::Forward && !seen_[chunk_index]) {
      seen_[chunk_index] = true;
      append_gather_wait(stage, task.chunk);
    }
    append_task(stage, id, task);
    if (task.kind == shape_.last_kind() && --left_[chunk_index] == 0) {
      out_.chunk_ends[static_cast<std::size_t>(stage)].push_back(
          {task.chunk, slot(layout_.task(stage, id))});
    }
  }

 private:
  static std::uint32_t slot(std::size_t value) { return static_cast<std::uint32_t>(value); }
  std::uint32_t no_send_lane() const { return slot(2 * static_cast<std::size_t>(shape_.pipeline)); }

  // A task of no duration holds the lane until the parameters are there.
  void append_gather_wait(int stage, model::ChunkId chunk) {
    out_.steps.push_back(
        {.slot = slot(layout_.unread()),
         .waits_for = slot(layout_.gather(stage, chunk.value)),
         .cost = static_cast<std::uint32_t>(shape_.pipeline * shape_.phases() *
                                            shape_.model_chunks),
         .send_lane = no_send_lane(),
         .stage = static_cast<std::uint16_t>(stage),
         .send = SendKind::None});
  }

  void append_task(int stage, model::TaskId id, const Task& task) {
    const auto sent = model::sent_message(shape_, {stage}, task);
    const auto awaited = model::awaited_message(shape_, {stage}, task);
    const int cost = (stage * shape_.phases() + shape_.phase_of(task.kind)) * shape_.model_chunks +
                     task.chunk.value;
    const SendKind send = sent.exists() ? send_kind(task.kind) : SendKind::None;
    const std::size_t lane = 2 * static_cast<std::size_t>(stage) +
                             (send == SendKind::Gradient ? 1u : 0u);
    out_.steps.push_back(
        {.slot = slot(layout_.task(stage, id)),
         .waits_for = awaited.exists()
                          ? slot(layout_.task(awaited.stage.value, awaited.task))
                          : 0u,
         .cost = static_cast<std::uint32_t>(cost),
         .send_lane = send == SendKind::None ? no_send_lane() : slot(lane),
         .stage = static_cast<std::uint16_t>(stage),
         .send = send});
    ++out_.num_tasks;
    out_.num_events += send == SendKind::None ? 1 : 2;
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
                            .orders = policies::schedule_orders(spec)};
  const PipelineShape& shape = compiled.shape;
  const SlotLayout layout{shape};
  MEGATWIN_ASSERT(shape.pipeline <= std::numeric_limits<std::uint16_t>::max(), shape.pipeline);
  MEGATWIN_ASSERT(layout.size() <= std::numeric_limits<std::uint32_t>::max(), layout.size());

  const policies::OrderWalk walk = policies::walk_orders(shape, compiled.orders);
  MEGATWIN_ASSERT(walk.deadlock.empty(), walk.deadlock.front());
  compiled.steps.reserve(walk.sequence.size() + static_cast<std::size_t>(shape.virtual_stages()));
  compiled.chunk_ends.resize(static_cast<std::size_t>(shape.pipeline));
  Compiler compiler(compiled);
  for (const auto& [stage, task] : walk.sequence) compiler.append(stage.value, task);
  // A gather and a reduction a chunk, an optimizer step a stage.
  compiled.num_events += 2 * shape.virtual_stages() + shape.pipeline;
  return compiled;
}

std::shared_ptr<const CompiledPipeline> PipelineCache::get(const model::ProgramSpec& spec) {
  Key key{spec.schedule, pipeline_shape(spec), spec.micro_batch_group, {}};
  if (spec.schedule == model::ScheduleKind::OrderFile) key.orders = spec.orders;
  auto& compiled = compiled_[std::move(key)];
  if (!compiled) compiled = std::make_shared<const CompiledPipeline>(compile_pipeline(spec));
  return compiled;
}

}  // namespace megatwin::sim
