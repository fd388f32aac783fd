#include "sim/group_contention.h"

#include <algorithm>
#include <utility>

#include "model/numbers.h"
#include "sim/group_lanes.h"

namespace megatwin::sim {
namespace {

using model::GroupKind;
using model::RankId;
using model::RankLayout;
using model::Seconds;

// What a round is told of in: the collectives of all groups at once.
constexpr model::Bytes kToldOf{256e6};
constexpr std::size_t kLinksOfGroup = 4;
constexpr double kOutlasts = 1000;
constexpr double kSame = 1e-9;  // Beyond rounding.

std::size_t num_units(const model::Plan& plan) {
  return model::as_index(std::int64_t{plan.data} * plan.pipeline);
}
std::size_t unit_of(const model::Plan& plan, int replica, int stage) {
  return model::as_index(std::int64_t{replica} * plan.pipeline + stage);
}

// One round of collectives: every group of a kind in some stages, at once.
class Round {
 public:
  Round(const model::Job& job, JobNetwork& network, GroupKind kind,
        const GroupAlgorithms& algorithms)
      : job_(job),
        layout_(job.plan),
        network_(network),
        kind_(kind),
        algorithm_(algorithms.of(kind)),
        ways_(network.topology()) {
    alone_ = algorithm_.busiest * kToldOf / algorithm_.peak;
    if (kind == GroupKind::Expert) weights_ = pair_weights(job);
  }

  model::Result<bool> add_stage(int stage) {
    for (int r = 0; r < job_.plan.gpus(); ++r) {
      const RankId rank{r};
      if (layout_.coordinates(rank).pipeline != stage || layout_.leader(kind_, rank) != rank) {
        continue;
      }
      const std::vector<RankId> members = layout_.members(kind_, rank);
      if (!uses_network(network_, members)) continue;
      groups_.push_back(units_of(members));
      GroupLanes group;
      if (kind_ == GroupKind::Expert) {
        group.lanes = pair_lanes(network_, members, algorithm_.peak, weights_);
      } else {
        MEGATWIN_TRY(group, group_lanes(network_, members, algorithm_, algorithm_.peak));
      }
      LaneRoutes routes(network_, group.pattern);
      denser_.push_back(group.denser);
      for (const GroupLane& lane : group.lanes) {
        MEGATWIN_TRY(const JobNetwork::Way way, routes.way(lane));
        add_user(way, lane, stage);
      }
    }
    return true;
  }

  // Other jobs' traffic, which outlasts the round.
  void add_other_jobs() {
    for (const JobNetwork::Background& other : network_.background()) {
      const double uptime = uptime_of(network_.topology(), other.route);
      others_.push_back(ways_.add({{other.route, other.rate, uptime}},
                                  {.kind = FlowUser::Kind::Background, .rank = other.from}));
    }
  }

  // The factor of each unit that has a member in one of the groups; 1 when no link is short.
  struct Answer {
    std::vector<double> by_unit;
    std::vector<LinkLoad> links;
    std::vector<bool> used;
  };
  model::Result<Answer> solve(const FlowNet& net) {
    Answer answer{.by_unit = std::vector<double>(num_units(job_.plan), 1.0)};
    answer.used = ways_.used();
    FlowSet flows = ways_.settle();
    if (ways_.num_contended_links() == 0) return answer;
    std::vector<std::pair<FlowIndex, std::size_t>> sent;
    for (const auto& [handle, group] : users_) {
      if (!ways_.contended(handle)) continue;
      sent.emplace_back(ways_.add_flow(flows, handle, alone_, {}), group);
    }
    for (const CappedWays::Handle handle : others_) {
      if (ways_.contended(handle)) ways_.add_flow(flows, handle, kOutlasts * alone_, {});
    }
    MEGATWIN_TRY(const std::vector<Seconds> finish, net.finish_times(flows));
    Seconds span;
    std::vector<double> by_group(groups_.size(), 1.0);
    for (const auto& [flow, group] : sent) {
      const Seconds end = finish[static_cast<std::size_t>(flow)];
      // Its lanes go slower than the closed form has them: where that is too fast, all of it is
      // late.
      const double slower = ratio(end / alone_);
      if (slower > 1 + kSame) by_group[group] = std::max(by_group[group], slower * denser_[group]);
      span = std::max(span, end);
    }
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      for (const std::size_t unit : groups_[group]) {
        answer.by_unit[unit] = std::max(answer.by_unit[unit], by_group[group]);
      }
    }
    answer.links = ways_.loads(flows, finish, span, kLinksOfGroup);
    for (LinkLoad& load : answer.links) load.of_one_collective = true;
    return answer;
  }

 private:
  void add_user(const JobNetwork::Way& way, const GroupLane& lane, int stage) {
    const FlowUser user{
        .kind = FlowUser::Kind::Group, .group = kind_, .stage = stage, .rank = lane.key.from};
    const double uptime = uptime_of(network_.topology(), way.route);
    users_.emplace_back(
        ways_.add({{way.route, std::min(lane.rate, way.undisturbed), uptime}}, user),
        groups_.size() - 1);
  }

  // Those that wait for a group, each once.
  std::vector<std::size_t> units_of(const std::vector<RankId>& members) const {
    std::vector<std::size_t> units;
    for (const RankId rank : members) {
      const model::RankCoordinates at = layout_.coordinates(rank);
      units.push_back(unit_of(job_.plan, at.data, at.pipeline));
    }
    std::sort(units.begin(), units.end());
    units.erase(std::unique(units.begin(), units.end()), units.end());
    return units;
  }

  const model::Job& job_;
  RankLayout layout_;
  JobNetwork& network_;
  GroupKind kind_;
  const GroupAlgorithm& algorithm_;
  PairWeights weights_;  // Of an expert group's pairs.
  CappedWays ways_;
  Seconds alone_;
  std::vector<std::vector<std::size_t>> groups_;                   // Their units …
  std::vector<double> denser_;                                     // … and GroupLanes::denser.
  std::vector<std::pair<CappedWays::Handle, std::size_t>> users_;  // Each with its group.
  std::vector<CappedWays::Handle> others_;
};

// A link that is short for several kinds stands as it is for the one that it slows most, with the
// users of all.
void keep_all(GroupContention& kept, std::vector<LinkLoad> links, const std::vector<bool>& used) {
  for (std::size_t i = 0; i < used.size(); ++i) kept.used[i] = kept.used[i] || used[i];
  for (LinkLoad& load : links) {
    const auto same = std::find_if(kept.links.begin(), kept.links.end(),
                                   [&](const LinkLoad& one) { return one.link == load.link; });
    if (same == kept.links.end()) {
      kept.links.push_back(std::move(load));
      continue;
    }
    if (load.slowdown > same->slowdown) std::swap(load, *same);
    for (std::string& user : load.users) {
      if (std::find(same->users.begin(), same->users.end(), user) != same->users.end()) continue;
      same->users.push_back(std::move(user));
      ++same->num_users;
    }
  }
  std::stable_sort(kept.links.begin(), kept.links.end(),
                   [](const LinkLoad& a, const LinkLoad& b) { return a.slowdown > b.slowdown; });
}

}  // namespace

model::Result<GroupContention> group_contention(const model::Job& job, JobNetwork& network,
                                                const FlowNet& net,
                                                const GroupAlgorithms& algorithms) {
  GroupContention contention;
  contention.used.assign(static_cast<std::size_t>(network.topology().num_links()), false);
  contention.tensor = contention.context = contention.expert = contention.expert_tensor =
      std::vector<double>(num_units(job.plan), 1.0);
  contention.data.assign(model::as_index(job.plan.pipeline), 1.0);
  const auto all_at_once = [&](GroupKind kind,
                               std::vector<double>& by_unit) -> model::Result<bool> {
    if (algorithms.of(kind).peak.value <= 0) return true;
    Round round(job, network, kind, algorithms);
    for (int stage = 0; stage < job.plan.pipeline; ++stage) {
      MEGATWIN_TRY([[maybe_unused]] const bool added, round.add_stage(stage));
    }
    MEGATWIN_TRY(auto answer, round.solve(net));
    by_unit = std::move(answer.by_unit);
    keep_all(contention, std::move(answer.links), answer.used);
    return true;
  };
  const auto stage_by_stage = [&](GroupKind kind) -> model::Result<bool> {
    if (algorithms.of(kind).peak.value <= 0) return true;
    for (int stage = 0; stage < job.plan.pipeline; ++stage) {
      Round round(job, network, kind, algorithms);
      MEGATWIN_TRY([[maybe_unused]] const bool added, round.add_stage(stage));
      // Elsewhere these are flows of the step, which meet the others there.
      if (job.plan.zero_stage >= 2) round.add_other_jobs();
      MEGATWIN_TRY(auto answer, round.solve(net));
      double& factor = contention.data[model::as_index(stage)];
      for (const double of_unit : answer.by_unit) factor = std::max(factor, of_unit);
      keep_all(contention, std::move(answer.links), answer.used);
    }
    return true;
  };
  MEGATWIN_TRY([[maybe_unused]] const bool tensor,
               all_at_once(GroupKind::Tensor, contention.tensor));
  MEGATWIN_TRY([[maybe_unused]] const bool context,
               all_at_once(GroupKind::Context, contention.context));
  if (job.transformer.experts) {
    MEGATWIN_TRY([[maybe_unused]] const bool expert,
                 all_at_once(GroupKind::Expert, contention.expert));
    MEGATWIN_TRY([[maybe_unused]] const bool expert_tensor,
                 all_at_once(GroupKind::ExpertTensor, contention.expert_tensor));
    MEGATWIN_TRY([[maybe_unused]] const bool expert_data, stage_by_stage(GroupKind::ExpertData));
  }
  MEGATWIN_TRY([[maybe_unused]] const bool data, stage_by_stage(GroupKind::Data));
  return contention;
}

}  // namespace megatwin::sim
