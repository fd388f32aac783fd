#include "exec/parameter_table.h"

#include <cmath>
#include <numbers>
#include <string_view>

namespace megatwin::exec {
namespace {

// How the members of a tensor-parallel group share a matrix.
enum class Cut { None, Rows, Columns };

class TableBuilder {
 public:
  explicit TableBuilder(const ParameterTableRequest& request)
      : shape_(request.shape), member_(request.tensor_member) {}

  // A matrix (rows, columns) as a whole.
  Slice matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Cut cut,
               ParameterStart start = ParameterStart::Normal) {
    Parameter parameter{.name = name,
                        .rows = rows,
                        .columns = columns,
                        .rows_total = rows,
                        .columns_total = columns,
                        .start = start};
    if (cut == Cut::Rows) {
      parameter.rows /= shape_.tensor;
      parameter.first_row = member_ * parameter.rows;
    }
    if (cut == Cut::Columns) {
      parameter.columns /= shape_.tensor;
      parameter.first_column = member_ * parameter.columns;
    }
    parameter.place = layout_.take(parameter.rows * parameter.columns);
    table_.parameters.push_back(parameter);
    return parameter.place;
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

  LayerPlaces layer(const std::string& prefix) {
    LayerPlaces places;
    const std::int64_t hidden = shape_.hidden;
    const std::int64_t queries = shape_.heads * shape_.head_dim;
    const std::int64_t keys = shape_.kv_heads * shape_.head_dim;
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
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
    return places;
  }

  ParameterTable& table() { return table_; }
  ParameterTable take() {
    table_.size = layout_.size();
    return std::move(table_);
  }

 private:
  // Extends `to` by the slice right behind it.
  static void join(Slice& to, const Slice& next) {
    if (to.size == 0) {
      to.offset = next.offset;
    }
    MEGATWIN_ASSERT(to.offset + to.size == next.offset, to.offset, " + ", to.size);
    to.size += next.size;
  }

  const ModelShape& shape_;
  int member_;
  Layout layout_;
  ParameterTable table_;
};

// SplitMix64 (Steele, Lea, Flood 2014) as a hash.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Fowler-Noll-Vo 1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
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
  if (part.has_embedding) {
    table.embedding =
        builder.matrix("model.embed_tokens.weight", shape.vocab, shape.hidden, Cut::Rows);
    if (!shape.rotary) {
      table.positions =
          builder.matrix("model.embed_positions.weight", shape.sequence, shape.hidden, Cut::None);
    }
  }
  for (int layer = part.first_layer; layer < part.first_layer + part.num_layers; ++layer) {
    table.layers.push_back(builder.layer("model.layers." + std::to_string(layer) + "."));
  }
  if (part.has_head) {
    table.final_gamma = builder.norm_gamma("model.norm");
    table.final_beta = builder.norm_beta("model.norm");
    table.head = builder.matrix("lm_head.weight", shape.vocab, shape.hidden, Cut::Rows);
  }
  return builder.take();
}

void start_parameters(const ParameterTable& table, std::int64_t num_layers, std::uint64_t seed,
                      std::span<float> weights) {
  constexpr double kDeviation = 0.02;
  const double of_residual = kDeviation / std::sqrt(2.0 * static_cast<double>(num_layers));
  for (const Parameter& parameter : table.parameters) {
    const std::span<float> values = parameter.place.of(weights);
    const std::uint64_t key = mix(seed ^ hash_of(parameter.name));
    std::size_t index = 0;
    for (std::int64_t row = 0; row < parameter.rows; ++row) {
      for (std::int64_t column = 0; column < parameter.columns; ++column, ++index) {
        const std::int64_t place =
            (parameter.first_row + row) * parameter.columns_total + parameter.first_column + column;
        const std::uint64_t number = mix(key ^ static_cast<std::uint64_t>(place));
        switch (parameter.start) {
          case ParameterStart::Normal:
            values[index] = static_cast<float>(kDeviation * normal(number));
            break;
          case ParameterStart::NormalOfResidual:
            values[index] = static_cast<float>(of_residual * normal(number));
            break;
          case ParameterStart::One:
            values[index] = 1;
            break;
          case ParameterStart::Zero:
            values[index] = 0;
            break;
        }
      }
    }
  }
}

}  // namespace megatwin::exec
