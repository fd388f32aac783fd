// The parameters of one model chunk on one rank: names, shapes, the slice of the whole matrix that
// the rank holds, and their place in the chunk's flat buffer. Weights, gradients and optimizer
// state share the places.
#ifndef MEGATWIN_EXEC_PARAMETER_TABLE_H_
#define MEGATWIN_EXEC_PARAMETER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/matrix_part.h"
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

// The numbers of the part lie in `place` as they are counted.
struct Parameter : MatrixPart {
  std::string name;  // As Llama is stored by Hugging Face, experts as Mixtral.
  Slice place;
  ParameterStart start = ParameterStart::Normal;
  // With sequence parallelism each member of the tensor-parallel group has seen its own tokens
  // only: the gradients must be summed over the group.
  bool sees_local_tokens = false;
  // The head of a model with tied embeddings, in another chunk than the embedding: a copy under the
  // same name.
  bool is_copy = false;
};

// What ZeRO cuts into one shard a replica, and gathers and reduces on its own.
struct ParameterUnit {
  Slice place;
  bool experts = false;  // Replicated over the expert-data group, not over the data group.
};

// Units that a pass needs together: the embedding, one layer, the head. The places of its
// parameters in the structs below count from its begin.
struct ParameterBundle {
  Slice place;
  std::size_t first_unit = 0, num_units = 0;
};

// Places of one layer; absent ones are empty. Queries, keys and values lie side by side and act as
// one matrix, as do gate and up.
struct LayerPlaces {
  Slice norm1_gamma, norm1_beta, qkv_weight, qkv_bias, out_weight, out_bias;
  Slice norm2_gamma, norm2_beta, up_weight, up_bias, down_weight, down_bias;
  Slice router;                  // (experts, hidden).
  std::vector<Slice> expert_up;  // Of each local expert, gate and up side by side.
  std::vector<Slice> expert_down;
};

struct ParameterTable {
  std::vector<Parameter> parameters;
  std::vector<ParameterUnit> units;  // One behind the other.
  ParameterBundle embedding_bundle, head_bundle;
  std::vector<ParameterBundle> layer_bundles;
  Slice embedding, positions;
  std::vector<LayerPlaces> layers;
  Slice final_gamma, final_beta;
  Slice head;  // Empty when it is the embedding of this chunk.
  std::int64_t size = 0;
  // The unit of the matrix that embedding and head of a tied model share, when it is here and has a
  // copy in another chunk.
  std::optional<std::size_t> tied_unit;
};

// Which ranks' parts the local ones are.
struct TableMember {
  int tensor = 0;
  int expert = 0;
  int expert_tensor = 0;
};

struct ParameterTableRequest {
  const ModelShape& shape;
  ChunkPart part;
  TableMember member;
};
ParameterTable parameter_table(const ParameterTableRequest& request);

// The first values: a function of seed, name and place in the whole matrix, so that every cut of
// the model starts from the same numbers. Normal with deviation 0.02, that of matrices which write
// to the residual stream divided by sqrt(2 · layers) (Radford et al. 2019, section 2.3). Writes the
// places [0, size) of `table` that `held` has.
struct ParameterStartRequest {
  const ParameterTable& table;
  std::int64_t num_layers = 0;
  std::uint64_t seed = 1;
  Slice held;
};
void start_parameters(const ParameterStartRequest& request, std::span<float> weights);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_PARAMETER_TABLE_H_
