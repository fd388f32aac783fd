#include "sim/search/chunk_layout.h"

#include <algorithm>
#include <map>
#include <utility>

#include "model/program/job_program.h"

namespace megatwin::sim {

ChunkLayout chunk_layout(const model::Transformer& transformer, const model::Plan& plan) {
  ChunkLayout layout{.pipeline = plan.pipeline, .model_chunks = plan.model_chunks};
  std::map<std::vector<int>, int> kinds;
  int stage = 0;
  for (const auto& chunks : model::chunk_contents(transformer, plan)) {
    std::vector<int> ids;
    for (const model::ChunkContent& content : chunks) {
      const auto found = std::find(layout.contents.begin(), layout.contents.end(), content);
      ids.push_back(static_cast<int>(found - layout.contents.begin()));
      if (found == layout.contents.end()) layout.contents.push_back(content);
    }
    layout.content_of_chunk.insert(layout.content_of_chunk.end(), ids.begin(), ids.end());
    const auto [kind, is_new] = kinds.emplace(std::move(ids), layout.num_kinds());
    if (is_new) layout.first_of_kind.push_back(stage);
    layout.kind_of_stage.push_back(kind->second);
    ++stage;
  }
  return layout;
}

}  // namespace megatwin::sim
