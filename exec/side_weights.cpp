#include "exec/side_weights.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "exec/chunk_parameters.h"
#include "exec/parameter_table.h"

namespace megatwin::exec {
namespace {

using model::GroupKind;
using model::PipelineSide;
using model::RankId;

int index_in_group(const HostLayout& layout, GroupKind kind, RankId rank) {
  const std::vector<RankId> members = layout.members(kind, rank);
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

std::vector<HeldPart> weights_of(const SideWeightsRequest& request, RankId rank) {
  const HostLayout& layout = request.layout;
  const bool is_forward = layout.instance(rank).side == PipelineSide::Forward;
  const ModelShape& shape = is_forward ? request.forward : request.backward;
  const model::RankCoordinates at = layout.coordinates(rank);
  const ParameterTable table = parameter_table(
      {.shape = shape,
       .part = request.part,
       .member = {.tensor = at.tensor, .expert = at.expert, .expert_tensor = at.expert_tensor}});
  return held_weights(shape, table,
                      {.data = index_in_group(layout, GroupKind::Data, rank),
                       .expert_data = index_in_group(layout, GroupKind::ExpertData, rank)});
}

// The ranks of a backward instance's stage, those first from which a forward rank would rather have
// its weights: of its own replica, and of those the one that holds most of what it does. So copies
// of a whole matrix come from different ranks.
std::vector<RankId> sources_of(const SideWeightsRequest& request, RankId forward_rank) {
  const HostLayout& layout = request.layout;
  const model::RankCoordinates own = layout.coordinates(forward_rank);
  const int instance = layout.instance(forward_rank).number % request.instances.backward;
  const int nearest = own.tensor * request.backward.tensor / request.forward.tensor;
  std::vector<RankId> ranks =
      layout.ranks_at_stage({PipelineSide::Backward, instance}, {own.pipeline});
  std::stable_sort(ranks.begin(), ranks.end(), [&](RankId a, RankId b) {
    const auto key = [&](RankId rank) {
      const model::RankCoordinates at = layout.coordinates(rank);
      return std::tuple(at.context != own.context || at.data != own.data, at.tensor != nearest);
    };
    return key(a) < key(b);
  });
  return ranks;
}

std::vector<WeightTransfer> received(const SideWeightsRequest& request, RankId forward_rank) {
  const std::vector<RankId> sources = sources_of(request, forward_rank);
  std::vector<std::vector<HeldPart>> held;
  held.reserve(sources.size());
  for (const RankId source : sources) held.push_back(weights_of(request, source));
  const auto runs = runs_from(held, weights_of(request, forward_rank));
  std::vector<WeightTransfer> transfers;
  for (std::size_t source = 0; source < sources.size(); ++source) {
    if (!runs[source].empty()) transfers.push_back({sources[source], runs[source]});
  }
  return transfers;
}

// The names of parameters whose gradients a side sums over the local tokens only.
std::set<std::string> names_of_local_tokens(const SideWeightsRequest& request) {
  std::set<std::string> names;
  for (const ModelShape* shape : {&request.forward, &request.backward}) {
    const ParameterTable table =
        parameter_table({.shape = *shape, .part = request.part, .member = {}});
    for (const Parameter& parameter : table.parameters) {
      if (parameter.sees_local_tokens) names.insert(parameter.name);
    }
  }
  return names;
}

// The forward ranks of one instance whose gradients a backward rank adds, the nearest first: those
// of its own replica.
std::vector<RankId> summed_by(const SideWeightsRequest& request, RankId backward_rank,
                              int instance) {
  const HostLayout& layout = request.layout;
  model::RankCoordinates at = layout.coordinates(backward_rank);
  const int members = request.forward.tensor;
  const int nearest = at.tensor * members / request.backward.tensor;
  std::vector<RankId> ranks;
  for (int step = 0; step < members; ++step) {
    at.tensor = (nearest + step) % members;
    ranks.push_back(layout.rank_at({PipelineSide::Forward, instance}, at));
  }
  return ranks;
}

std::vector<WeightTransfer> added(const SideWeightsRequest& request, RankId backward_rank,
                                  int instance) {
  const std::vector<RankId> sources = summed_by(request, backward_rank, instance);
  const std::set<std::string> local = names_of_local_tokens(request);
  const int own = request.layout.coordinates(backward_rank).tensor;
  const auto without_local = [&](std::vector<HeldPart> parts) {
    std::erase_if(parts, [&](const HeldPart& part) { return local.count(part.name) > 0; });
    return parts;
  };
  const std::vector<HeldPart> wanted = weights_of(request, backward_rank);
  std::vector<std::vector<HeldPart>> held;
  held.reserve(sources.size());
  for (const RankId source : sources) held.push_back(weights_of(request, source));
  std::vector<std::vector<HeldPart>> held_alike;
  held_alike.reserve(held.size());
  for (const auto& parts : held) held_alike.push_back(without_local(parts));
  auto runs = runs_from(held_alike, without_local(wanted));
  std::vector<WeightTransfer> transfers;
  for (std::size_t source = 0; source < sources.size(); ++source) {
    const int member = request.layout.coordinates(sources[source]).tensor;
    if (member * request.backward.tensor / request.forward.tensor == own) {
      std::vector<HeldPart> of_local = wanted;
      std::erase_if(of_local, [&](const HeldPart& part) { return local.count(part.name) == 0; });
      const auto more = runs_from({&held[source], 1}, of_local);
      runs[source].insert(runs[source].end(), more.front().begin(), more.front().end());
    }
    if (!runs[source].empty()) transfers.push_back({sources[source], std::move(runs[source])});
  }
  std::sort(transfers.begin(), transfers.end(),
            [](const WeightTransfer& a, const WeightTransfer& b) { return a.rank < b.rank; });
  return transfers;
}

}  // namespace

std::vector<WeightTransfer> gradient_transfers(const SideWeightsRequest& request) {
  const HostLayout::Instance own = request.layout.instance(request.rank);
  std::vector<WeightTransfer> transfers;
  if (own.side == PipelineSide::Backward) {
    for (int instance = own.number; instance < request.instances.forward;
         instance += request.instances.backward) {
      for (WeightTransfer& transfer : added(request, request.rank, instance)) {
        transfers.push_back(std::move(transfer));
      }
    }
    return transfers;
  }
  model::RankCoordinates at = request.layout.coordinates(request.rank);
  for (int member = 0; member < request.backward.tensor; ++member) {
    at.tensor = member;
    const RankId rank = request.layout.rank_at(
        {PipelineSide::Backward, own.number % request.instances.backward}, at);
    for (WeightTransfer& transfer : added(request, rank, own.number)) {
      if (transfer.rank == request.rank) transfers.push_back({rank, std::move(transfer.runs)});
    }
  }
  return transfers;
}

std::vector<WeightTransfer> weight_transfers(const SideWeightsRequest& request) {
  const HostLayout::Instance own = request.layout.instance(request.rank);
  if (own.side == PipelineSide::Forward) {
    return received(request, request.rank);
  }
  const model::StageId stage{request.layout.coordinates(request.rank).pipeline};
  std::vector<WeightTransfer> sent;
  for (int instance = own.number; instance < request.instances.forward;
       instance += request.instances.backward) {
    for (const RankId rank :
         request.layout.ranks_at_stage({PipelineSide::Forward, instance}, stage)) {
      for (WeightTransfer& transfer : received(request, rank)) {
        if (transfer.rank == request.rank) sent.push_back({rank, std::move(transfer.runs)});
      }
    }
  }
  return sent;
}

}  // namespace megatwin::exec
