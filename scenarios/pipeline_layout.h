// Megatron-Core's --pipeline-model-parallel-layout: what each virtual pipeline stage holds, in
// model order, as letters (E embedding, t decoder layer, m prediction layer, L loss) with a bar
// between stages. `x*3` stands for xxx, `(t*2|)*3` for tt|tt|tt|; commas and blanks mean nothing.
#ifndef MEGATWIN_SCENARIOS_PIPELINE_LAYOUT_H_
#define MEGATWIN_SCENARIOS_PIPELINE_LAYOUT_H_

#include <optional>
#include <string_view>
#include <vector>

namespace megatwin::scenarios {

// Decoder layers of each virtual stage. Nothing when the text is no such layout, is longer than a
// million letters, or has its embedding, prediction layers or loss elsewhere than at the ends.
std::optional<std::vector<int>> read_pipeline_layout(std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_PIPELINE_LAYOUT_H_
