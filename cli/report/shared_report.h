// Several training runs on one cluster, as text and as JSON (docs/plan.md). Pure.
#ifndef MEGATWIN_CLI_REPORT_SHARED_REPORT_H_
#define MEGATWIN_CLI_REPORT_SHARED_REPORT_H_

#include <string>
#include <vector>

#include "model/hardware.h"
#include "sim/purchase/purchase_option.h"
#include "sim/purchase/shared_cluster.h"

namespace megatwin::cli {

struct SharedSummary {
  const model::NodeGroup& machines;
  const std::vector<sim::SharedJob>& jobs;
  const std::vector<std::vector<sim::PurchaseOption>>& options;  // One list a job, one a point.
  const std::vector<sim::SharedSchedule>& ways;                  // The best first.
};

std::string terminal_shared(const SharedSummary& summary);
std::string json_shared(const SharedSummary& summary);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_SHARED_REPORT_H_
