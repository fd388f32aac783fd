// Jobs and random plans for the tests of the search.
#ifndef MEGATWIN_TESTS_SEARCH_SEARCH_JOBS_H_
#define MEGATWIN_TESTS_SEARCH_SEARCH_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/assert.h"
#include "model/job.h"
#include "scenarios/scenario.h"
#include "sim/search/plan_list.h"
#include "sim/search/search.h"
#include "sim/search/search_space.h"

namespace megatwin::tests {

// A scenario text with its search section; aborts when it does not load.
scenarios::Scenario scenario_from(const std::string& yaml);
model::Job job_from(const std::string& yaml);

// `model` as in the zoo on `nodes` machines of 8, under a framework.
std::string yaml_of(const std::string& model, int nodes, const std::string& framework,
                    int global_batch, const std::string& machine = "dgx-a100-80g");

// A search of some thousand plans, the same for all tests of how it is run.
const model::Job& sixteen_gpu_job();
sim::SearchSpace sixteen_gpu_space(std::vector<int> model_chunks);

// Every legal plan of a space, in the order of the search.
struct ListedPlan {
  sim::PlanCode code;
  model::Plan plan;
};
std::vector<ListedPlan> all_plans(const model::Job& job, const sim::SearchSpace& space);

// All that an answer says of its plans.
std::vector<std::string> summary_of(const sim::SearchResult& result);

// A small generator of our own: the same numbers everywhere.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}

  // From 0 to n − 1.
  int below(int n) {
    MEGATWIN_ASSERT(n > 0, n);
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return static_cast<int>((state_ >> 11U) % static_cast<std::uint64_t>(n));
  }

  // Some of the values, at least one, in their order.
  template <class Value>
  std::vector<Value> some_of(const std::vector<Value>& values, int max) {
    std::vector<Value> taken;
    const int size = static_cast<int>(values.size());
    for (int i = 0; i < size && static_cast<int>(taken.size()) < max; ++i) {
      if (below(size) < max) taken.push_back(values[static_cast<std::size_t>(i)]);
    }
    if (taken.empty()) taken.push_back(values[static_cast<std::size_t>(below(size))]);
    return taken;
  }

 private:
  std::uint64_t state_;
};

// A part of the whole space with at most two or three values a key.
sim::SearchSpace small_space(const model::Job& job, Dice& dice);

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SEARCH_SEARCH_JOBS_H_
