// One training job as everything downstream sees it: model, cluster, software, plan, and the
// profile of its GPU. Made by scenarios/ from a file or by a test; immutable from then on.
#ifndef MEGATWIN_MODEL_JOB_H_
#define MEGATWIN_MODEL_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/disturbance.h"
#include "model/failure_plan.h"
#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/plan.h"
#include "model/software_stack.h"
#include "model/transformer.h"

namespace megatwin::model {

enum class NetworkKind { Analytic, Simgrid, MaxMin };
constexpr std::string_view name_of(NetworkKind kind) {
  switch (kind) {
    case NetworkKind::Analytic:
      return "analytic";
    case NetworkKind::Simgrid:
      return "simgrid";
    case NetworkKind::MaxMin:
      return "maxmin";
  }
  return "analytic";
}

struct Job {
  std::string name;  // File or sweep point, for reports.
  Transformer transformer;
  Cluster cluster;
  SoftwareStack software;
  Plan plan;
  GpuProfile profile;  // Of cluster.groups[0].gpu.
  // Of the machines' GPUs by group, when the cluster has several kinds; else empty.
  std::vector<GpuProfile> group_profiles;
  NetworkKind network = NetworkKind::Analytic;
  std::vector<Disturbance> disturbances;  // None: the cluster as it should be.
  std::uint64_t seed = 1;                 // Of jitter and of failures.
  std::optional<FailurePlan> failures;    // Asked for: goodput over weeks.
  Facility facility;
  // One sentence each: what the input did not say and what was taken instead.
  std::vector<std::string> assumptions;
  std::vector<std::string> warnings;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_JOB_H_
