// A scenario is read whole. The part before a line of "=====" is the file, each line after it a
// --set. What is accepted must be countable: no shape, plan or rate may break arithmetic.
#include "model/assert.h"
#include "model/parameters.h"
#include "scenarios/scenario.h"
#include "tests/fuzz/fuzz_targets.h"

namespace megatwin::fuzz {

void scenario(std::string_view text) {
  scenarios::ScenarioOptions options;
  const std::size_t end = text.find("\n=====\n");
  std::string_view rest = end == std::string_view::npos ? std::string_view() : text.substr(end + 7);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    options.set.emplace_back(line);
    rest.remove_prefix(line.size() < rest.size() ? line.size() + 1 : rest.size());
  }
  const auto result = scenarios::parse_scenario("fuzz.yaml", text.substr(0, end), options);
  if (!result) {
    MEGATWIN_ASSERT(model::has_error(result.error()), "refused without a reason");
    MEGATWIN_ASSERT(!model::to_text(result.error()).empty(), "an empty message");
    return;
  }
  for (const model::Job& job : result->jobs) {
    MEGATWIN_ASSERT(!job.cluster.groups.empty(), "a job without machines");
    MEGATWIN_ASSERT(job.cluster.num_gpus() > 0, job.cluster.num_gpus());
    MEGATWIN_ASSERT(job.plan.gpus() >= 0, job.plan.gpus());
    MEGATWIN_ASSERT(model::count_parameters(job.transformer).total > 0, job.transformer.name);
  }
}

}  // namespace megatwin::fuzz

MEGATWIN_FUZZ_ENTRY(scenario);
