#include "exec/side_weights.h"

#include <algorithm>
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

}  // namespace

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
