// How somebody launches Megatron-LM: a bash script, bare arguments, NeMo's or Primus' YAML. Nothing
// is run, whatever the text says.
#include "model/assert.h"
#include "scenarios/megatron_launch.h"
#include "tests/fuzz/fuzz_targets.h"

namespace megatwin::fuzz {

void launch(std::string_view text) {
  using scenarios::LaunchKind;
  scenarios::recognise_launch(text);
  for (const LaunchKind kind : {LaunchKind::Megatron, LaunchKind::Nemo, LaunchKind::Primus}) {
    const auto result = scenarios::read_megatron_launch("launch", text, kind);
    MEGATWIN_ASSERT(result || model::has_error(result.error()), "refused without a reason");
    if (!result) continue;
    const model::Plan& plan = result->plan;
    MEGATWIN_ASSERT(plan.tensor >= 1 && plan.pipeline >= 1 && plan.micro_batch >= 1, plan.tensor,
                    " ", plan.pipeline, " ", plan.micro_batch);
    if (result->transformer) {
      MEGATWIN_ASSERT(result->transformer->num_layers >= 1, result->transformer->num_layers);
    }
  }
}

}  // namespace megatwin::fuzz

MEGATWIN_FUZZ_ENTRY(launch);
