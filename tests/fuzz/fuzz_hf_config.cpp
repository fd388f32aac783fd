// A config.json of any architecture; what is accepted has a countable shape.
#include "model/assert.h"
#include "model/parameters.h"
#include "scenarios/huggingface.h"
#include "tests/fuzz/fuzz_targets.h"

namespace megatwin::fuzz {

void hf_config(std::string_view text) {
  const auto result = scenarios::parse_huggingface_config("config.json", text);
  if (!result) {
    MEGATWIN_ASSERT(model::has_error(result.error()), "refused without a reason");
    MEGATWIN_ASSERT(!model::to_text(result.error()).empty(), "an empty message");
    return;
  }
  const model::ParameterCounts counts = model::count_parameters(result->transformer);
  MEGATWIN_ASSERT(counts.total > 0 && counts.active > 0, counts.total);
}

}  // namespace megatwin::fuzz

MEGATWIN_FUZZ_ENTRY(hf_config);
