#include "exec/parameter_table.h"

#include <cmath>
#include <numbers>
#include <string_view>

#include "model/fnv_hash.h"

namespace megatwin::exec {
namespace {

class TableBuilder {
 public:
  explicit TableBuilder(const ParameterTableRequest& request)
      : shape_(request.shape),
        member_(request.member),
        tensor_{request.shape.tensor, request.member.tensor} {}

  // What follows belongs to one bundle, and to one unit of it.
  void begin_unit(bool experts = false) { table_.units.push_back({{layout_.size(), 0}, experts}); }
  void begin_bundle() {
    bundle_ = {{layout_.size(), 0}, table_.units.size(), 0};
    begin_unit();
  }
  ParameterBundle end_bundle() {
    bundle_.place.size = layout_.size() - bundle_.place.offset;
    bundle_.num_units = table_.units.size() - bundle_.first_unit;
    return bundle_;
  }

  // A matrix (rows, columns) as a whole. Its place counts from the begin of the bundle.
  Slice matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Cut cut,
               ParameterStart start = ParameterStart::Normal) {
    return matrix_of(tensor_, name, rows, columns, cut, start);
  }
  Slice matrix_of(const Shares& shares, const std::string& name, std::int64_t rows,
                  std::int64_t columns, Cut cut, ParameterStart start) {
    Parameter parameter{part_of(shares, rows, columns, cut)};
    parameter.name = name;
    parameter.start = start;
    parameter.place = layout_.take(parameter.size());
    table_.parameters.push_back(parameter);
    table_.units.back().place.size += parameter.place.size;
    return {parameter.place.offset - bundle_.place.offset, parameter.place.size};
  }

  Slice vector(const std::string& name, std::int64_t size, Cut cut) {
    return matrix(name, size, 1, cut, ParameterStart::Zero);
  }

  Slice norm_gamma(const std::string& name) {
    const Slice place = matrix(name + ".weight", shape_.hidden, 1, Cut::None, ParameterStart::One);
    table_.parameters.back().sees_local_tokens = shape_.sequence_parallel;
    return place;
  }
  Slice norm_beta(const std::string& name) {
    if (!shape_.norm_bias) {
      return {};
    }
    const Slice place = vector(name + ".bias", shape_.hidden, Cut::None);
    table_.parameters.back().sees_local_tokens = shape_.sequence_parallel;
    return place;
  }

  LayerPlaces layer(int index) {
    const std::string prefix = "model.layers." + std::to_string(index) + ".";
    LayerPlaces places;
    const std::int64_t hidden = shape_.hidden;
    const std::int64_t queries = shape_.heads * shape_.head_dim;
    const std::int64_t keys = shape_.kv_heads * shape_.head_dim;
    const std::string attention = prefix + "self_attn.";
    places.norm1_gamma = norm_gamma(prefix + "input_layernorm");
    places.norm1_beta = norm_beta(prefix + "input_layernorm");
    places.qkv_weight = matrix(attention + "q_proj.weight", queries, hidden, Cut::Rows);
    join(places.qkv_weight, matrix(attention + "k_proj.weight", keys, hidden, Cut::Rows));
    join(places.qkv_weight, matrix(attention + "v_proj.weight", keys, hidden, Cut::Rows));
    if (shape_.qkv_bias) {
      places.qkv_bias = vector(attention + "q_proj.bias", queries, Cut::Rows);
      join(places.qkv_bias, vector(attention + "k_proj.bias", keys, Cut::Rows));
      join(places.qkv_bias, vector(attention + "v_proj.bias", keys, Cut::Rows));
    }
    places.out_weight = matrix(attention + "o_proj.weight", hidden, queries, Cut::Columns,
                               ParameterStart::NormalOfResidual);
    if (shape_.out_bias) {
      places.out_bias = vector(attention + "o_proj.bias", hidden, Cut::None);
    }
    places.norm2_gamma = norm_gamma(prefix + "post_attention_layernorm");
    places.norm2_beta = norm_beta(prefix + "post_attention_layernorm");
    shape_.has_experts(index) ? add_experts(prefix + "block_sparse_moe.", places)
                              : add_feed_forward(prefix + "mlp.", places);
    return places;
  }

  ParameterTable& table() { return table_; }
  ParameterTable take() {
    table_.size = layout_.size();
    return std::move(table_);
  }

 private:
  void add_feed_forward(const std::string& mlp, LayerPlaces& places) {
    const std::int64_t hidden = shape_.hidden;
    if (shape_.gated) {
      places.up_weight = matrix(mlp + "gate_proj.weight", shape_.ffn, hidden, Cut::Rows);
    }
    join(places.up_weight, matrix(mlp + "up_proj.weight", shape_.ffn, hidden, Cut::Rows));
    if (shape_.mlp_bias) {
      if (shape_.gated) {
        places.up_bias = vector(mlp + "gate_proj.bias", shape_.ffn, Cut::Rows);
      }
      join(places.up_bias, vector(mlp + "up_proj.bias", shape_.ffn, Cut::Rows));
    }
    places.down_weight = matrix(mlp + "down_proj.weight", hidden, shape_.ffn, Cut::Columns,
                                ParameterStart::NormalOfResidual);
    if (shape_.mlp_bias) {
      places.down_bias = vector(mlp + "down_proj.bias", hidden, Cut::None);
    }
  }

  // The router belongs to the dense unit; of the experts this rank has a run, each cut over its
  // expert-tensor group.
  void add_experts(const std::string& prefix, LayerPlaces& places) {
    const ExpertShape& experts = shape_.experts;
    const Shares shares{experts.tensor, member_.expert_tensor};
    const std::int64_t hidden = shape_.hidden;
    places.router = matrix(prefix + "gate.weight", experts.count, hidden, Cut::None);
    table_.parameters.back().sees_local_tokens = shape_.sequence_parallel;
    begin_unit(/*experts=*/true);
    const std::int64_t first = member_.expert * experts.local_count();
    for (std::int64_t expert = first; expert < first + experts.local_count(); ++expert) {
      const std::string name = prefix + "experts." + std::to_string(expert) + ".";
      Slice up;
      if (shape_.gated) {
        up = matrix_of(shares, name + "w1.weight", experts.ffn, hidden, Cut::Rows,
                       ParameterStart::Normal);
      }
      join(up, matrix_of(shares, name + "w3.weight", experts.ffn, hidden, Cut::Rows,
                         ParameterStart::Normal));
      places.expert_up.push_back(up);
      places.expert_down.push_back(matrix_of(shares, name + "w2.weight", hidden, experts.ffn,
                                             Cut::Columns, ParameterStart::NormalOfResidual));
    }
  }

  // Extends `to` by the slice right behind it.
  static void join(Slice& to, const Slice& next) {
    if (to.size == 0) {
      to.offset = next.offset;
    }
    MEGATWIN_ASSERT(to.offset + to.size == next.offset, to.offset, " + ", to.size);
    to.size += next.size;
  }

  const ModelShape& shape_;
  TableMember member_;
  Shares tensor_;
  Layout layout_;
  ParameterBundle bundle_;
  ParameterTable table_;
};

// SplitMix64 (Steele, Lea, Flood 2014) as a hash.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t hash_of(std::string_view text) {
  model::FnvHash hash;
  hash.add_text(text);
  return hash.value();
}

// Box and Muller (1958) from two hashes of the key.
double normal(std::uint64_t key) {
  constexpr double kStep = 1.0 / 9007199254740992.0;  // 2⁻⁵³.
  const double radius = (static_cast<double>(mix(key) >> 11) + 0.5) * kStep;
  const double angle = static_cast<double>(mix(key ^ 0x5555555555555555u) >> 11) * kStep;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
}

}  // namespace

ParameterTable parameter_table(const ParameterTableRequest& request) {
  const ModelShape& shape = request.shape;
  const ChunkPart& part = request.part;
  TableBuilder builder(request);
  ParameterTable& table = builder.table();
  constexpr const char* kEmbedding = "model.embed_tokens.weight";
  const bool shares_embedding = shape.tied && part.has_embedding && part.has_head;
  if (part.has_embedding) {
    builder.begin_bundle();
    table.embedding = builder.matrix(kEmbedding, shape.vocab, shape.hidden, Cut::Rows);
    if (shape.tied && !part.has_head) {
      table.tied_unit = table.units.size() - 1;
    }
    if (!shape.rotary) {
      builder.begin_unit();
      table.positions =
          builder.matrix("model.embed_positions.weight", shape.sequence, shape.hidden, Cut::None);
    }
    table.embedding_bundle = builder.end_bundle();
  }
  for (int layer = part.first_layer; layer < part.first_layer + part.num_layers; ++layer) {
    builder.begin_bundle();
    table.layers.push_back(builder.layer(layer));
    table.layer_bundles.push_back(builder.end_bundle());
  }
  if (part.has_head) {
    builder.begin_bundle();
    table.final_gamma = builder.norm_gamma("model.norm");
    table.final_beta = builder.norm_beta("model.norm");
    if (!shares_embedding) {
      builder.begin_unit();
      table.head = builder.matrix(shape.tied ? kEmbedding : "lm_head.weight", shape.vocab,
                                  shape.hidden, Cut::Rows);
      table.parameters.back().is_copy = shape.tied;
    }
    if (shape.tied && !shares_embedding) {
      table.tied_unit = table.units.size() - 1;
    }
    table.head_bundle = builder.end_bundle();
  }
  return builder.take();
}

void start_parameters(const ParameterStartRequest& request, std::span<float> weights) {
  constexpr double kDeviation = 0.02;
  const double of_residual = kDeviation / std::sqrt(2.0 * static_cast<double>(request.num_layers));
  for (const Parameter& parameter : request.table.parameters) {
    const Slice here = common(parameter.place, request.held);
    const std::uint64_t key = mix(request.seed ^ hash_of(parameter.name));
    for (std::int64_t n = here.offset; n < here.offset + here.size; ++n) {
      const std::int64_t place = parameter.index_in_whole(n - parameter.place.offset);
      const std::uint64_t number = mix(key ^ static_cast<std::uint64_t>(place));
      float& value = weights[static_cast<std::size_t>(n - request.held.offset)];
      switch (parameter.start) {
        case ParameterStart::Normal:
          value = static_cast<float>(kDeviation * normal(number));
          break;
        case ParameterStart::NormalOfResidual:
          value = static_cast<float>(of_residual * normal(number));
          break;
        case ParameterStart::One:
          value = 1;
          break;
        case ParameterStart::Zero:
          value = 0;
          break;
      }
    }
  }
}

}  // namespace megatwin::exec
