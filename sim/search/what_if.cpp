#include "sim/search/what_if.h"

#include <utility>

namespace megatwin::sim {
namespace {

struct Change {
  const char* what;
  void (*apply)(model::NodeGroup&);
};

constexpr Change kChanges[] = {
    {"network cards twice as fast",
     [](model::NodeGroup& group) {
       group.node.nic_per_direction = 2 * group.node.nic_per_direction;
     }},
    {"NVLink twice as fast",
     [](model::NodeGroup& group) {
       group.gpu.nvlink_per_direction = 2 * group.gpu.nvlink_per_direction;
     }},
    {"a quarter more memory on each GPU",
     [](model::NodeGroup& group) {
       group.gpu.memory = 1.25 * group.gpu.memory;
       group.gpu.memory_usable = 1.25 * group.gpu.memory_usable;
     }},
    {"one machine more", [](model::NodeGroup& group) { ++group.count; }},
    {"twice the machines", [](model::NodeGroup& group) { group.count *= 2; }}};

}  // namespace

std::vector<WhatIf> what_if(const model::Job& job,
                            const std::function<SearchSpace(const model::Job&)>& space,
                            const BestPlanOptions& options) {
  std::vector<WhatIf> answers;
  for (const Change& change : kChanges) {
    model::Job changed = job;
    change.apply(changed.cluster.groups.front());
    answers.push_back({change.what, best_plan(changed, space(changed), options)});
  }
  return answers;
}

}  // namespace megatwin::sim
