#include "tests/exec/reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>

namespace megatwin::tests {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class ReferenceModel {
 public:
  explicit ReferenceModel(const ReferenceRequest& request)
      : transformer_(request.transformer), request_(request) {}

  ReferenceLoss loss() {
    Rows x = embed();
    for (int layer = 0; layer < transformer_.num_layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      add(x, attend(prefix + "self_attn.", normalise(prefix + "input_layernorm", x)));
      const Rows n = normalise(prefix + "post_attention_layernorm", x);
      const bool has_experts = transformer_.experts && layer >= transformer_.num_dense_first_layers;
      add(x, has_experts ? visit_experts(prefix + "block_sparse_moe.", n)
                         : feed_forward(prefix + "mlp.", n));
    }
    const Rows logits = linear(transformer_.tied_embeddings ? "model.embed_tokens" : "lm_head",
                               normalise("model.norm", x));
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const Row p = softmax(logits[token]);
      const auto target = static_cast<std::size_t>(request_.batch.targets[token]);
      loss_.cross_entropy -= std::log(p[target]) / static_cast<double>(logits.size());
    }
    return loss_;
  }

 private:
  const std::vector<double>& weights(const std::string& name) const {
    return request_.weights.at(name);
  }
  bool is_there(const std::string& name) const { return request_.weights.count(name) > 0; }

  static void add(Rows& to, const Rows& rows) {
    for (std::size_t token = 0; token < to.size(); ++token) {
      for (std::size_t i = 0; i < to[token].size(); ++i) to[token][i] += rows[token][i];
    }
  }

  static Row softmax(const Row& logits) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    Row p;
    for (const double logit : logits) p.push_back(std::exp(logit - largest));
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p) value /= sum;
    return p;
  }

  // Rows of a matrix (out, in) are what each output multiplies.
  Row linear(const std::string& name, const Row& x) const {
    const std::vector<double>& weight = weights(name + ".weight");
    Row y(weight.size() / x.size(), 0);
    for (std::size_t out = 0; out < y.size(); ++out) {
      for (std::size_t in = 0; in < x.size(); ++in) y[out] += weight[out * x.size() + in] * x[in];
      if (is_there(name + ".bias")) y[out] += weights(name + ".bias")[out];
    }
    return y;
  }
  Rows linear(const std::string& name, const Rows& x) const {
    Rows y;
    for (const Row& row : x) y.push_back(linear(name, row));
    return y;
  }

  Rows embed() const {
    const auto hidden = static_cast<std::size_t>(transformer_.hidden_size);
    const auto sequence = static_cast<std::size_t>(transformer_.sequence_length);
    const bool learned = transformer_.position == model::PositionKind::Learned;
    Rows x;
    for (const std::int32_t token : request_.batch.tokens) {
      const std::size_t position = x.size() % sequence;
      Row row(hidden);
      for (std::size_t i = 0; i < hidden; ++i) {
        row[i] = weights("model.embed_tokens.weight")[static_cast<std::size_t>(token) * hidden + i];
        if (learned) row[i] += weights("model.embed_positions.weight")[position * hidden + i];
      }
      x.push_back(row);
    }
    return x;
  }

  Rows normalise(const std::string& name, Rows x) const {
    const bool centred = transformer_.norm == model::NormKind::LayerNorm;
    for (Row& row : x) {
      const auto width = static_cast<double>(row.size());
      const double mean = centred ? std::accumulate(row.begin(), row.end(), 0.0) / width : 0;
      double squares = 0;
      for (const double value : row) squares += (value - mean) * (value - mean);
      const double deviation = std::sqrt(squares / width + 1e-5);
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / deviation * weights(name + ".weight")[i];
        if (is_there(name + ".bias")) row[i] += weights(name + ".bias")[i];
      }
    }
    return x;
  }

  // Of heads side by side; the second half of each turns with the first.
  void rotate(Rows& x) const {
    const auto dim = static_cast<std::size_t>(transformer_.head_dim);
    const auto sequence = static_cast<std::size_t>(transformer_.sequence_length);
    for (std::size_t token = 0; token < x.size(); ++token) {
      for (std::size_t i = 0; i < x[token].size(); ++i) {
        if (i % dim >= dim / 2) continue;
        const double angle =
            static_cast<double>(token % sequence) *
            std::pow(10000.0, -2.0 * static_cast<double>(i % dim) / static_cast<double>(dim));
        double& first = x[token][i];
        double& second = x[token][i + dim / 2];
        const double turned = first * std::cos(angle) - second * std::sin(angle);
        second = second * std::cos(angle) + first * std::sin(angle);
        first = turned;
      }
    }
  }

  Rows attend(const std::string& name, const Rows& x) const {
    Rows queries = linear(name + "q_proj", x);
    Rows keys = linear(name + "k_proj", x);
    const Rows values = linear(name + "v_proj", x);
    if (transformer_.position != model::PositionKind::Learned) {
      rotate(queries);
      rotate(keys);
    }
    const auto dim = static_cast<std::size_t>(transformer_.head_dim);
    const auto sequence = static_cast<std::size_t>(transformer_.sequence_length);
    const auto shared_by = static_cast<std::size_t>(transformer_.num_attention_heads /
                                                    transformer_.num_key_value_heads);
    Rows out(x.size(), Row(queries[0].size(), 0));
    for (std::size_t token = 0; token < x.size(); ++token) {
      const std::size_t first = token / sequence * sequence;
      for (std::size_t head = 0; head * dim < queries[0].size(); ++head) {
        const std::size_t at = head / shared_by * dim;
        Row scores;
        for (std::size_t other = first; other <= token; ++other) {
          double product = 0;
          for (std::size_t i = 0; i < dim; ++i) {
            product += queries[token][head * dim + i] * keys[other][at + i];
          }
          scores.push_back(product / std::sqrt(static_cast<double>(dim)));
        }
        const Row p = softmax(scores);
        for (std::size_t n = 0; n < p.size(); ++n) {
          for (std::size_t i = 0; i < dim; ++i) {
            out[token][head * dim + i] += p[n] * values[first + n][at + i];
          }
        }
      }
    }
    return linear(name + "o_proj", out);
  }

  static Row gelu(Row x) {
    for (double& value : x) {
      const double inner =
          std::sqrt(2 / std::numbers::pi) * (value + 0.044715 * value * value * value);
      value = 0.5 * value * (1 + std::tanh(inner));
    }
    return x;
  }
  static Row swiglu(const Row& gate, Row up) {
    for (std::size_t i = 0; i < up.size(); ++i) up[i] *= gate[i] / (1 + std::exp(-gate[i]));
    return up;
  }

  Rows feed_forward(const std::string& name, const Rows& x) const {
    Rows y;
    for (const Row& row : x) {
      const Row up = linear(name + "up_proj", row);
      const bool gated = transformer_.activation == model::ActivationKind::SwiGlu;
      y.push_back(linear(name + "down_proj",
                         gated ? swiglu(linear(name + "gate_proj", row), up) : gelu(up)));
    }
    return y;
  }

  // Experts by falling probability, of equals the lower number first.
  static std::vector<std::size_t> ranked(const Row& p) {
    std::vector<std::size_t> order(p.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
    return order;
  }

  // Room goes to all first choices, then to all second ones. The balancing loss is
  // alpha · E · Σ f_e · P_e over what the router chose, dropped or not.
  Rows visit_experts(const std::string& name, const Rows& x) {
    const auto count = static_cast<std::size_t>(transformer_.experts->num_experts);
    const auto k = static_cast<std::size_t>(transformer_.experts->experts_per_token);
    const double assignments = static_cast<double>(x.size() * k);
    const double share = assignments / static_cast<double>(count);
    const double factor = request_.experts.capacity_factor;
    const double room = factor > 0 ? std::ceil(factor * share) : assignments;
    Rows p;
    for (const Row& row : x) p.push_back(softmax(linear(name + "gate", row)));
    Row chosen(count, 0);
    Row mean(count, 0);
    Rows y(x.size(), Row(x[0].size(), 0));
    int dropped = 0;
    for (std::size_t choice = 0; choice < k; ++choice) {
      for (std::size_t token = 0; token < x.size(); ++token) {
        const std::vector<std::size_t> order = ranked(p[token]);
        const std::size_t expert = order[choice];
        if (++chosen[expert] > room) {
          ++dropped;
          continue;
        }
        double of_all = 0;
        for (std::size_t n = 0; n < k; ++n) of_all += p[token][order[n]];
        const double weight = k == 1 ? p[token][expert] : p[token][expert] / of_all;
        const std::string of = name + "experts." + std::to_string(expert) + ".";
        const Row output =
            linear(of + "w2", swiglu(linear(of + "w1", x[token]), linear(of + "w3", x[token])));
        for (std::size_t i = 0; i < output.size(); ++i) y[token][i] += weight * output[i];
      }
    }
    for (const Row& row : p) {
      for (std::size_t expert = 0; expert < count; ++expert) {
        mean[expert] += row[expert] / static_cast<double>(x.size());
      }
    }
    for (std::size_t expert = 0; expert < count; ++expert) {
      loss_.balance += request_.experts.balance_loss * static_cast<double>(count) *
                       (chosen[expert] / assignments) * mean[expert];
    }
    loss_.dropped.push_back(dropped);
    return y;
  }

  const model::Transformer& transformer_;
  const ReferenceRequest& request_;
  ReferenceLoss loss_;
};

}  // namespace

ReferenceLoss reference_loss(const ReferenceRequest& request) {
  return ReferenceModel(request).loss();
}

}  // namespace megatwin::tests
