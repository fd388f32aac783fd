#include "model/mixed_plan_check.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <utility>

#include "model/counted.h"
#include "model/stage_sites.h"

namespace megatwin::model {
namespace {

constexpr const char* kUsualOrder = "tp-cp-ep-dp-pp";

class MixedPlanChecker {
 public:
  MixedPlanChecker(const Transformer& transformer, const Plan& plan, const Cluster& cluster)
      : transformer_(transformer), plan_(plan), cluster_(cluster) {}

  std::vector<std::string> run() {
    check_tensor_sizes();
    check_micro_batches();
    check_precisions();
    if (problems_.empty() && is_mixed(cluster_)) check_places();
    return std::move(problems_);
  }

 private:
  template <class... Parts>
  void refuse(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    problems_.push_back(std::move(out).str());
  }

  void check_tensor_sizes() {
    const std::vector<int>& sizes = plan_.tensor_per_stage;
    if (sizes.empty()) return;
    if (static_cast<int>(sizes.size()) != plan_.pipeline) {
      refuse("plan.tensor_per_stage has ", sizes.size(), " entries for plan.pipeline ",
             counted(plan_.pipeline, "stage"));
    }
    if (plan_.rank_order != kUsualOrder) {
      refuse("plan.tensor_per_stage needs plan.rank_order ", kUsualOrder, "; it is ",
             plan_.rank_order);
    }
    if (transformer_.experts) {
      refuse("plan.tensor_per_stage: experts are cut over tensor × data ranks, which then differ ",
             "by stage; only dense models can have it");
    }
    if (plan_.model_chunks > 1) {
      refuse("plan.tensor_per_stage with plan.model_chunks ", plan_.model_chunks,
             ": chunks that wrap around are not resharded; one chunk a stage works");
    }
  }

  void check_micro_batches() {
    const std::vector<std::int64_t>& counts = plan_.micro_batches_per_replica;
    if (counts.empty()) return;
    if (static_cast<int>(counts.size()) != plan_.data) {
      refuse("plan.micro_batches_per_replica has ", counts.size(), " entries for plan.data ",
             counted(plan_.data, "replica"));
    }
    const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    if (sum * plan_.micro_batch != plan_.global_batch) {
      refuse("plan.micro_batches_per_replica holds ", counted(sum, "micro-batch"),
             " of plan.micro_batch ", plan_.micro_batch, " = ",
             counted(sum * plan_.micro_batch, "sequence"), "; plan.global_batch is ",
             plan_.global_batch);
    }
    if (std::any_of(counts.begin(), counts.end(), [](std::int64_t n) { return n < 1; })) {
      refuse("plan.micro_batches_per_replica: every replica needs at least 1 micro-batch");
    }
    const bool own_order =
        plan_.schedule == ScheduleKind::ZeroBubbleV || plan_.schedule == ScheduleKind::OrderFile;
    if (own_order) {
      refuse("plan.micro_batches_per_replica with policy.schedule ", name_of(plan_.schedule),
             ": replicas would reduce their chunks in different orders; gpipe, 1f1b, interleaved ",
             "and zb-h1 work");
    }
    const bool in_rounds = plan_.schedule == ScheduleKind::Interleaved && plan_.model_chunks > 1;
    const bool whole = std::all_of(counts.begin(), counts.end(), [&](std::int64_t n) {
      return n >= plan_.pipeline && n % plan_.pipeline == 0;
    });
    if (in_rounds && !whole) {
      refuse("plan.micro_batches_per_replica: policy.schedule interleaved needs a multiple of ",
             "plan.pipeline ", plan_.pipeline, " on every replica");
    }
  }

  void check_precisions() {
    const std::size_t given = plan_.precision_per_group.size();
    if (given == 0) return;
    if (given != cluster_.groups.size()) {
      refuse("plan.precision_per_group has ", given, " entries for the ", cluster_.groups.size(),
             " entries of cluster.nodes");
      return;
    }
    const std::vector<int> kinds = kinds_of_groups(cluster_);
    for (std::size_t group = 0; group < given; ++group) {
      const auto first = static_cast<std::size_t>(kinds[group]);
      if (plan_.precision_per_group[group] == plan_.precision_per_group[first]) continue;
      refuse("plan.precision_per_group has two precisions for one kind of machine: entries ",
             first + 1, " and ", group + 1, " of cluster.nodes are alike");
    }
  }

  std::string kind_name(int kind) const {
    return cluster_.groups[static_cast<std::size_t>(kind)].gpu.name;
  }

  // Tensor- and context-parallel ranks wait for each other in every layer, and the experts' ranks
  // too: a slower or differently cut one has no place among them.
  void check_places() {
    if (plan_.data < 1 || plan_.gpus() != cluster_.num_gpus() ||
        !rank_order_from_text(plan_.rank_order)) {
      return;  // plan_check.h says what is wrong.
    }
    Plan dense = plan_;  // Where experts are is checked later; they do not move a stage.
    dense.expert = dense.expert_tensor = 1;
    const StageSites sites(dense, cluster_);
    for (int stage = 0; stage < plan_.pipeline; ++stage) {
      for (int replica = 0; replica < plan_.data; ++replica) {
        if (sites.kind(replica, stage)) continue;
        refuse("stage ", stage, " of replica ", replica, " has ranks on ",
               kind_name(sites.site(replica, stage).kind),
               " and on another kind: tensor- and context-parallel ranks need equal GPUs; change ",
               "the counts of cluster.nodes, plan.rank_order or the sizes so that stages or ",
               "replicas end where a kind does");
        return;
      }
      const std::vector<int> kinds = sites.kinds_of_stage(stage);
      if (kinds.size() == 1) continue;
      if (transformer_.experts) {
        refuse("stage ", stage, " has replicas on ", kind_name(kinds[0]), " and ",
               kind_name(kinds[1]), ": experts are exchanged over all replicas of a stage in ",
               "every layer, so they need equal GPUs");
        return;
      }
      if (plan_.zero_stage >= 2) {
        refuse("stage ", stage, " has replicas on ", kind_name(kinds[0]), " and ",
               kind_name(kinds[1]), ": plan.zero ", plan_.zero_stage,
               " gathers every layer over them in every micro-batch; stages 0 and 1 work");
        return;
      }
    }
  }

  const Transformer& transformer_;
  const Plan& plan_;
  const Cluster& cluster_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> mixed_plan_problems(const Transformer& transformer, const Plan& plan,
                                             const Cluster& cluster) {
  return MixedPlanChecker(transformer, plan, cluster).run();
}

}  // namespace megatwin::model
