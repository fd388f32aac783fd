// One training job as everything downstream sees it: model, cluster, software, plan, and the
// profile of its GPU. Made by scenarios/ from a file or by a test; immutable from then on.
#ifndef MEGATWIN_MODEL_JOB_H_
#define MEGATWIN_MODEL_JOB_H_

#include <string>
#include <vector>

#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/plan.h"
#include "model/software_stack.h"
#include "model/transformer.h"

namespace megatwin::model {

enum class NetworkKind { Analytic, Simgrid, MaxMin };

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
  // One sentence each: what the input did not say and what was taken instead.
  std::vector<std::string> assumptions;
  std::vector<std::string> warnings;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_JOB_H_
