#include "tests/vector_check/rules.h"

#include <cmath>

namespace megatwin::vector_check {
namespace {

using model::Transformer;

std::int64_t whole(double value) { return std::llround(value); }

bool holds_one_of(std::string_view alternatives, std::string_view quantity) {
  while (true) {
    const std::size_t bar = alternatives.find('|');
    if (quantity.find(alternatives.substr(0, bar)) != std::string_view::npos) return true;
    if (bar == std::string_view::npos) return false;
    alternatives.remove_prefix(bar + 1);
  }
}

std::vector<Rules> all_rules() {
  return {pipeline_rules(),   flop_rules(),   parameter_rules(), memory_rules(),
          collective_rules(), kernel_rules(), operation_rules()};
}

void add_experts(const Inputs& in, Transformer& t) {
  // Rows that count all experts name no number a token.
  auto per_token = in.find({"experts_counted", "topk", "k", "top_k", "experts_per_token"});
  if (!per_token) per_token = in.find({"E"});
  const auto ffn = in.find({"f_exp", "f_expert", "fe", "f_e", "moe_ffn"});
  if (!per_token || !ffn) return;
  model::MixtureOfExperts experts;
  experts.experts_per_token = whole(*per_token);
  experts.num_experts = whole(in.get({"E", "n_experts", "experts"}, *per_token));
  experts.expert_ffn_size = whole(*ffn);
  experts.shared_expert_ffn_size =
      whole(in.get({"f_shared"}, in.get({"shared", "n_shared"}, 0) * *ffn));
  t.experts = experts;
  // Rows about DeepSeek-V3 that do not name its three dense layers mean them.
  const double usual = in.has({"q_lora"}) && in.has({"f_dense"}) ? 3 : 0;
  t.num_dense_first_layers =
      whole(in.get({"dense_layers", "n_dense", "first_k_dense", "first_k_dense_replace"}, usual));
}

void add_latent_attention(const Inputs& in, Transformer& t) {
  const auto rank = in.find({"kv_lora", "kv_lora_rank"});
  if (!rank) return;
  t.latent = model::LatentAttention{
      .q_lora_rank = whole(in.get({"q_lora", "q_lora_rank"}, 0)),
      .kv_lora_rank = whole(*rank),
      .qk_nope_head_dim = whole(in.need({"dqk", "d_qk", "qk_nope_head_dim"})),
      .qk_rope_head_dim = whole(in.need({"drope", "d_rope", "qk_rope_head_dim"})),
      .v_head_dim = whole(in.need({"dv", "d_v", "v_head_dim"}))};
}

}  // namespace

bool matches(std::string_view words, std::string_view quantity) {
  while (!words.empty()) {
    const std::size_t space = words.find(' ');
    std::string_view word = words.substr(0, space);
    const bool forbidden = word.front() == '-';
    if (forbidden) word.remove_prefix(1);
    if (holds_one_of(word, quantity) == forbidden) return false;
    if (space == std::string_view::npos) break;
    words.remove_prefix(space + 1);
  }
  return true;
}

std::optional<double> answer(const Row& row) {
  for (const Rules& rules : all_rules()) {
    for (const Rule& rule : rules) {
      if (!matches(rule.words, row.quantity)) continue;
      try {
        return rule.answer(row);
      } catch (const MissingInput&) {
        // A later rule of the same words may read other inputs.
      }
    }
  }
  return std::nullopt;
}

Transformer transformer_from(const Inputs& in) {
  Transformer t;
  t.num_layers = whole(in.need({"L", "l", "layers", "num_layers"}));
  t.hidden_size = whole(in.need({"h", "hidden", "D", "d_model"}));
  const double heads = in.get({"nh", "a", "n_q", "n_heads", "heads", "H"}, 1);
  t.num_attention_heads = whole(heads);
  t.num_key_value_heads = whole(in.get({"nkv", "n_kv", "kv_heads", "kv"}, heads));
  t.head_dim =
      whole(in.get({"hd", "d", "head_dim", "d_head"}, static_cast<double>(t.hidden_size) / heads));
  t.ffn_hidden_size = whole(
      in.get({"f_dense", "f_active", "f", "ffn", "d_ff"}, 4 * static_cast<double>(t.hidden_size)));
  t.vocab_size = whole(in.get({"V", "v", "vocab"}, 0));
  t.sequence_length = whole(in.get({"s", "seq", "T"}, 1));
  t.num_mtp_layers = whole(in.get({"mtp"}, 0));
  t.qk_norm = in.get({"qk_norm"}, 0) != 0;
  t.qkv_bias = in.get({"qkv_bias", "bias"}, 0) != 0;
  t.tied_embeddings = in.get({"tied", "tie", "tied_embeddings"}, 0) != 0;
  add_experts(in, t);
  add_latent_attention(in, t);
  return t;
}

Transformer gpt_from(const Inputs& in) {
  Transformer t = transformer_from(in);
  t.norm = model::NormKind::LayerNorm;
  t.norm_bias = true;
  t.activation = model::ActivationKind::Gelu;
  t.position = model::PositionKind::Learned;
  t.max_position_embeddings = t.sequence_length;
  t.tied_embeddings = true;
  t.qkv_bias = t.attention_output_bias = t.mlp_bias = true;
  return t;
}

}  // namespace megatwin::vector_check
