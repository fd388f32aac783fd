// The model chunks of one rank with their optimizer state and activation memory. Runs tasks; knows
// nothing of order, threads or other stages.
#ifndef MEGATWIN_EXEC_RANK_MODEL_H_
#define MEGATWIN_EXEC_RANK_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/chunk_state.h"
#include "exec/host_job.h"
#include "exec/model_chunk.h"
#include "exec/rank_group.h"
#include "exec/rank_memory.h"
#include "model/program/program.h"
#include "model/rank_layout.h"

namespace megatwin::exec {

class RankModel {
 public:
  struct Setup {
    const HostJob& job;
    const ModelShape& shape;
    const model::Program& program;
    model::RankCoordinates coordinates;
  };
  // Everything but the memory is borrowed.
  RankModel(const Setup& setup, const RankGroups& groups, RankMemory memory);

  struct Outcome {
    std::vector<float> message;  // For the next task of the pipeline; empty when there is none.
    // Decoupled, for the other side: activations, or what weight gradients need.
    std::vector<float> crossing;
    std::optional<double> loss;  // Of the last chunk's forward: of the local tokens.
  };
  // `message` is what the previous task of the pipeline made, or the other side sent across; empty
  // when there is none.
  Outcome run(const model::Task& task, int step, std::span<const float> message);

  // One AdamW step on this replica's part, then all gradients are zero. `step` counts from 0.
  struct OptimizerStep {
    int step = 0;
    double gradient_scale = 1;
  };
  void step_optimizer(const OptimizerStep& arguments);

  // A parameter with a gradient in this replica's part that is no finite number.
  std::optional<std::string> gradient_not_finite();

  // The sum of squares of each parameter's gradients in this replica's part; what several ranks
  // hold counts at the first of them only.
  struct NormPart {
    std::string name;
    double squares = 0;
  };
  std::vector<NormPart> norm_parts();

  // One a unit of each chunk; the spans are valid as long as this object.
  std::vector<ChunkState> state(model::RankId rank);

  std::vector<std::unique_ptr<ModelChunk>>& chunks() { return chunks_; }
  const RankMemory& memory() const { return memory_; }
  // Weights, gradients and optimizer state, held throughout.
  model::Bytes state_bytes() const;

 private:
  Outcome forward(const model::Task& task, int step, std::span<const float> message);
  Outcome recompute(const model::Task& task, int step, std::span<const float> message);
  Outcome backward(const model::Task& task, int step, std::span<const float> message);
  void backward_weight(const model::Task& task, int step, std::span<const float> message);
  TokenBatch batch(const model::Task& task, int step) const;
  ModelChunk& chunk_of(const model::Task& task) {
    return *chunks_[static_cast<std::size_t>(task.chunk.value)];
  }
  double gradient_scale() const {
    return 1 / static_cast<double>(job_.plan.num_micro_batches() * job_.plan.data);
  }
  bool counts_for_norm(const HeldUnit& unit, const Parameter& parameter) const;

  const HostJob& job_;
  const ModelShape& shape_;
  model::RankCoordinates coordinates_;
  RankGroups groups_;
  model::PipelineSide side_;
  std::vector<std::unique_ptr<ModelChunk>> chunks_;
  RankMemory memory_;
  struct Moments {
    std::vector<float> first, second;
  };
  std::vector<Moments> moments_;  // One a chunk, of what its units step.
};

// Numbers that a backward takes for its own time: what the gradients of the weights need, and the
// workspace of whichever part needs more.
std::int64_t backward_transient(const ModelChunkSizes& sizes);

// Which layers each chunk of a stage has.
std::vector<ChunkPart> chunk_parts(const HostJob& job, const model::PipelineShape& shape,
                                   model::StageId stage);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_RANK_MODEL_H_
