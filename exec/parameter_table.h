// The parameters of one model chunk on one rank: names, shapes, the slice of the whole matrix that
// the rank holds, and their place in the chunk's flat buffer. Weights, gradients and optimizer
// state share the places.
#ifndef MEGATWIN_EXEC_PARAMETER_TABLE_H_
#define MEGATWIN_EXEC_PARAMETER_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/model_shape.h"
#include "exec/slice.h"

namespace megatwin::exec {

// Which part of the model a chunk is.
struct ChunkPart {
  int first_layer = 0;
  int num_layers = 0;
  bool has_embedding = false;
  bool has_head = false;
};

enum class ParameterStart : std::uint8_t { Normal, NormalOfResidual, One, Zero };

struct Parameter {
  std::string name;  // As Llama is stored by Hugging Face.
  std::int64_t rows = 0, columns = 0;
  // Of the whole matrix, and where the local part begins in it.
  std::int64_t rows_total = 0, columns_total = 0;
  std::int64_t first_row = 0, first_column = 0;
  Slice place;
  ParameterStart start = ParameterStart::Normal;
  // With sequence parallelism each member of the tensor-parallel group has seen its own tokens
  // only: the gradients must be summed over the group.
  bool sees_local_tokens = false;
};

// Places of one layer; absent ones are empty. Queries, keys and values lie side by side and act as
// one matrix, as do gate and up.
struct LayerPlaces {
  Slice norm1_gamma, norm1_beta, qkv_weight, qkv_bias, out_weight, out_bias;
  Slice norm2_gamma, norm2_beta, up_weight, up_bias, down_weight, down_bias;
};

struct ParameterTable {
  std::vector<Parameter> parameters;
  Slice embedding, positions;
  std::vector<LayerPlaces> layers;
  Slice final_gamma, final_beta, head;
  std::int64_t size = 0;
};

struct ParameterTableRequest {
  const ModelShape& shape;
  ChunkPart part;
  int tensor_member = 0;
};
ParameterTable parameter_table(const ParameterTableRequest& request);

// The first values: a function of seed, name and place in the whole matrix, so that every cut of
// the model starts from the same numbers. Normal with deviation 0.02, that of matrices which write
// to the residual stream divided by sqrt(2 · layers) (Radford et al. 2019, section 2.3).
void start_parameters(const ParameterTable& table, std::int64_t num_layers, std::uint64_t seed,
                      std::span<float> weights);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_PARAMETER_TABLE_H_
