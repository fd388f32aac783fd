#include "exec/held_out.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "exec/model_chunk.h"
#include "model/assert.h"

namespace megatwin::exec {

namespace {

model::Plan one_rank() {
  model::Plan plan;
  plan.micro_batch = plan.global_batch = 1;
  return plan;
}

// Counts of what follows each context of `length` bytes.
class ContextCounts {
 public:
  explicit ContextCounts(int length)
      : counts_(std::size_t{256} << (8 * length)),
        totals_(std::size_t{1} << (8 * length)),
        kinds_(totals_.size()) {}

  void add(std::size_t context, std::size_t next) {
    kinds_[context] += counts_[context * 256 + next]++ == 0 ? 1 : 0;
    ++totals_[context];
  }
  // (c + kinds · lower) / (n + kinds): what was never seen gets the share of the kinds seen.
  double probability(std::size_t context, std::size_t next, double lower) const {
    if (totals_[context] == 0) {
      return lower;
    }
    const double kinds = kinds_[context];
    return (counts_[context * 256 + next] + kinds * lower) / (totals_[context] + kinds);
  }

 private:
  std::vector<std::uint32_t> counts_, totals_, kinds_;
};

}  // namespace

// One whole model with the buffers of one sequence.
struct HeldOutLoss::Worker {
  explicit Worker(const model::Transformer& transformer)
      : shape(model_shape(transformer, one_rank())),
        chunk({.shape = shape,
               .part = {.first_layer = 0,
                        .num_layers = static_cast<int>(transformer.num_layers),
                        .has_embedding = true,
                        .has_head = true}},
              groups_of_one(group)),
        activation(static_cast<std::size_t>(chunk.sizes().activation)),
        workspace(static_cast<std::size_t>(chunk.sizes().forward_workspace)) {}

  void load(const ModelState& state) {
    const ChunkState whole{
        .table = &chunk.table(), .held = {0, chunk.table().size}, .weights = chunk.weights()};
    scatter_weights(state, {&whole, 1});
  }
  double loss(const TokenBatch& batch) {
    return chunk.forward({.batch = batch, .activation = activation, .workspace = workspace});
  }

  ModelShape shape;
  LoneGroup group;
  ModelChunk chunk;
  std::vector<float> activation, workspace;
};

HeldOutLoss::HeldOutLoss(const Setup& setup)
    : source_(setup.source), sequence_length_(setup.transformer.sequence_length) {
  const std::int64_t available = source_.num_held_out();
  MEGATWIN_ASSERT(available > 0, "nothing is held out");
  const std::int64_t count = std::min<std::int64_t>(available, setup.sequences);
  for (std::int64_t i = 0; i < count; ++i) {
    windows_.push_back(i * available / count);
  }
  const auto threads = std::min<std::int64_t>(std::max(1, setup.threads), count);
  for (std::int64_t i = 0; i < threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(setup.transformer));
  }
}

HeldOutLoss::~HeldOutLoss() = default;

std::int64_t HeldOutLoss::num_tokens() const { return std::ssize(windows_) * sequence_length_; }

double HeldOutLoss::of(const ModelState& state) {
  std::vector<double> losses(windows_.size());
  std::vector<std::thread> threads;
  for (std::size_t first = 0; first < workers_.size(); ++first) {
    threads.emplace_back([&, first] {
      workers_[first]->load(state);
      for (std::size_t i = first; i < windows_.size(); i += workers_.size()) {
        losses[i] = workers_[first]->loss(source_.held_out_window(windows_[i]));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

double byte_trigram_loss(const Tokens& tokens, std::int64_t from) {
  MEGATWIN_ASSERT(from >= 2 && from < tokens.size(), from, " of ", tokens.size());
  ContextCounts none(0);
  ContextCounts one(1);
  ContextCounts two(2);
  const auto byte = [&](std::int64_t index) { return static_cast<std::size_t>(tokens[index]); };
  for (std::int64_t i = 2; i < from; ++i) {
    none.add(0, byte(i));
    one.add(byte(i - 1), byte(i));
    two.add(byte(i - 2) * 256 + byte(i - 1), byte(i));
  }
  double sum = 0;
  for (std::int64_t i = from; i < tokens.size(); ++i) {
    double probability = none.probability(0, byte(i), 1.0 / 256);
    probability = one.probability(byte(i - 1), byte(i), probability);
    probability = two.probability(byte(i - 2) * 256 + byte(i - 1), byte(i), probability);
    sum -= std::log(probability);
  }
  return sum / static_cast<double>(tokens.size() - from);
}

}  // namespace megatwin::exec
