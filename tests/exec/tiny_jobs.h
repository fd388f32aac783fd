// Small models and plans that the host world trains in milliseconds.
#ifndef MEGATWIN_TESTS_EXEC_TINY_JOBS_H_
#define MEGATWIN_TESTS_EXEC_TINY_JOBS_H_

#include <string>

#include "exec/host_job.h"
#include "model/transformer.h"

namespace megatwin::tests {

// Four layers of Llama: grouped queries, rotary positions, SwiGLU, RMSNorm.
inline model::Transformer tiny_llama() {
  model::Transformer transformer;
  transformer.name = "tiny-llama";
  transformer.num_layers = 4;
  transformer.hidden_size = 16;
  transformer.ffn_hidden_size = 24;
  transformer.num_attention_heads = 4;
  transformer.num_key_value_heads = 2;
  transformer.head_dim = 4;
  transformer.vocab_size = 32;
  transformer.max_position_embeddings = 8;
  transformer.sequence_length = 8;
  return transformer;
}

// Four layers of GPT: learned positions, GELU, LayerNorm, biases everywhere.
inline model::Transformer tiny_gpt() {
  model::Transformer transformer = tiny_llama();
  transformer.name = "tiny-gpt";
  transformer.num_key_value_heads = 4;
  transformer.norm = model::NormKind::LayerNorm;
  transformer.norm_bias = true;
  transformer.activation = model::ActivationKind::Gelu;
  transformer.position = model::PositionKind::Learned;
  transformer.qkv_bias = true;
  transformer.attention_output_bias = true;
  transformer.mlp_bias = true;
  return transformer;
}

inline model::Transformer tied(model::Transformer transformer) {
  transformer.tied_embeddings = true;
  return transformer;
}

// Llama whose first layer is dense and whose other three have four experts each, two a token.
inline model::Transformer tiny_experts() {
  model::Transformer transformer = tiny_llama();
  transformer.name = "tiny-experts";
  transformer.experts =
      model::MixtureOfExperts{.num_experts = 4, .experts_per_token = 2, .expert_ffn_size = 12};
  transformer.num_dense_first_layers = 1;
  return transformer;
}

// A text in which every token follows from the one before, so that there is something to learn:
// t → 5t + 3 mod vocabulary, from a start that depends on the place.
class CountingTokens : public exec::TokenSource {
 public:
  CountingTokens(const model::Transformer& transformer, const model::Plan& plan)
      : vocab_(static_cast<std::int32_t>(transformer.vocab_size)),
        sequence_(transformer.sequence_length),
        sequences_(plan.micro_batch) {}
  exec::TokenBatch batch(const Place& place) const override {
    exec::TokenBatch batch;
    for (std::int64_t sequence = 0; sequence < sequences_; ++sequence) {
      const std::int64_t start = 7 * place.step + 11 * place.micro_batch + 3 * sequence;
      auto token = static_cast<std::int32_t>(start % vocab_);
      for (std::int64_t i = 0; i < sequence_; ++i) {
        batch.tokens.push_back(token);
        token = (5 * token + 3) % vocab_;
        batch.targets.push_back(token);
      }
    }
    return batch;
  }

 private:
  std::int32_t vocab_;
  std::int64_t sequence_, sequences_;
};

// A job of eight micro-batches of one sequence, and the tokens that it reads. Not to be moved.
struct TinyJob {
  explicit TinyJob(model::Transformer transformer, const model::Plan& plan = {})
      : tokens(transformer, with_batch(plan)) {
    job.transformer = std::move(transformer);
    job.plan = with_batch(plan);
    job.tokens = &tokens;
    job.steps = 5;
    job.optimizer.learning_rate = 0.01;
  }
  TinyJob(const TinyJob&) = delete;
  TinyJob& operator=(const TinyJob&) = delete;

  CountingTokens tokens;
  exec::HostJob job;

 private:
  static model::Plan with_batch(model::Plan plan) {
    plan.micro_batch = 1;
    plan.global_batch = 8;
    return plan;
  }
};

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_EXEC_TINY_JOBS_H_
