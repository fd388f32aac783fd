// The loss of a whole small model in double: plain loops in the order of the formulas, with nothing
// of exec/ or kernels/ but the data. The oracle of the gradients and of the losses that are kept
// beside the cross-entropy. Slow; weights come by their Hugging Face names.
#ifndef MEGATWIN_TESTS_EXEC_REFERENCE_MODEL_H_
#define MEGATWIN_TESTS_EXEC_REFERENCE_MODEL_H_

#include <map>
#include <string>
#include <vector>

#include "exec/model_chunk.h"
#include "model/transformer.h"

namespace megatwin::tests {

using NamedWeights = std::map<std::string, std::vector<double>>;

struct ReferenceLoss {
  double cross_entropy = 0;  // Mean nats per token.
  double balance = 0;        // Of the experts, with its factor.
  std::vector<int> dropped;  // Assignments that found no room, a layer with experts.
  double total() const { return cross_entropy + balance; }
};

struct ReferenceRequest {
  const model::Transformer& transformer;
  const exec::ExpertSettings& experts;
  const exec::TokenBatch& batch;  // Whole sequences.
  const NamedWeights& weights;
};
ReferenceLoss reference_loss(const ReferenceRequest& request);

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_EXEC_REFERENCE_MODEL_H_
