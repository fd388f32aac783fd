#include "exec/chunk_parameters.h"

#include <algorithm>

namespace megatwin::exec {
namespace {

// The shard of a unit, in places of the chunk.
Slice shard_of_unit(const ModelShape& shape, const ParameterUnit& unit, int replica) {
  const Slice shard =
      shard_of(unit.place.size, replica, unit.experts ? shape.expert_replicas : shape.replicas);
  return {unit.place.offset + shard.offset, shard.size};
}

int replica_of(const ParameterUnit& unit, const ReplicaMember& member) {
  return unit.experts ? member.expert_data : member.data;
}

// The places of a unit whose weights lie here.
Slice weights_slice(const ModelShape& shape, const ParameterUnit& unit, int replica) {
  return shape.shards_weights() ? shard_of_unit(shape, unit, replica) : unit.place;
}

// `place`, which counts from the begin of the chunk, counted from that of the bundle.
Slice in_bundle(const ParameterBundle& bundle, const Slice& place) {
  return {place.offset - bundle.place.offset, place.size};
}

}  // namespace

Slice stepped_slice(const ModelShape& shape, const ParameterUnit& unit, int replica) {
  return shape.zero_stage > 0 ? shard_of_unit(shape, unit, replica) : unit.place;
}

HeldSizes held_sizes(const ModelShape& shape, const ParameterTable& table,
                     const ReplicaMember& member) {
  HeldSizes sizes;
  for (const ParameterUnit& unit : table.units) {
    const std::int64_t shard = shard_of_unit(shape, unit, replica_of(unit, member)).size;
    sizes.weights += weights_slice(shape, unit, replica_of(unit, member)).size;
    sizes.gradients += shape.shards_gradients() ? shard : unit.place.size;
    sizes.stepped += shape.zero_stage > 0 ? shard : unit.place.size;
  }
  return sizes;
}

std::vector<HeldPart> held_weights(const ModelShape& shape, const ParameterTable& table,
                                   const ReplicaMember& member) {
  std::vector<HeldPart> parts;
  Layout buffer;
  for (const ParameterUnit& unit : table.units) {
    const Slice places = weights_slice(shape, unit, replica_of(unit, member));
    const Slice at = buffer.take(places.size);
    for (const Parameter& parameter : table.parameters) {
      const Slice here = common(parameter.place, places);
      if (here.size == 0) continue;
      parts.push_back({.name = parameter.name,
                       .part = static_cast<const MatrixPart&>(parameter),
                       .held = {here.offset - parameter.place.offset, here.size},
                       .at = at.offset + parameter.place.offset - places.offset,
                       .stride = parameter.columns});
    }
  }
  return parts;
}

std::int64_t fetch_workspace(const ModelShape& shape, const ParameterBundle& bundle) {
  return shape.shards_weights() ? bundle.place.size : 0;
}

// The gradients, and the reduced shard beside them.
std::int64_t gradient_workspace(const ModelShape& shape, const ParameterBundle& bundle) {
  return shape.shards_gradients() ? 2 * bundle.place.size : 0;
}

ChunkParameters::ChunkParameters(const ModelShape& shape, const ParameterTable& table,
                                 const Use& use, const RankGroups& groups)
    : shape_(shape), table_(table), groups_(groups) {
  const ReplicaMember member{groups.data.member(), groups.expert_data.member()};
  const HeldSizes sizes = held_sizes(shape, table, member);
  weights_.resize(static_cast<std::size_t>(sizes.weights));
  gradients_.resize(static_cast<std::size_t>(use.use == WeightUse::Read ? 0 : sizes.gradients));
  Layout weights;
  Layout gradients;
  for (const ParameterUnit& unit : table.units) {
    const int replica = replica_of(unit, member);
    const Slice shard = shard_of_unit(shape, unit, replica);
    HeldUnit& held = units_.emplace_back();
    held.experts = unit.experts;
    held.stepped = stepped_slice(shape, unit, replica);
    held.weights_at = weights_slice(shape, unit, replica);
    held.gradients_at = shape.shards_gradients() ? shard : unit.place;
    if (use.use != WeightUse::Step) {
      held.stepped = {unit.place.offset, 0};
    }
    if (use.use == WeightUse::Read) {
      held.gradients_at = {unit.place.offset, 0};
    }
    held.weights = weights.take(held.weights_at.size).of(std::span<float>(weights_));
    held.gradients = gradients.take(held.gradients_at.size).of(std::span<float>(gradients_));
    start_parameters(
        {.table = table, .num_layers = shape.num_layers, .seed = use.seed, .held = held.weights_at},
        held.weights);
  }
}

std::span<const float> ChunkParameters::fetch(const ParameterBundle& bundle,
                                              std::span<float> workspace) {
  if (!shape_.shards_weights()) {
    return bundle.place.of(std::span<const float>(weights_));
  }
  const std::span<float> whole = workspace.first(static_cast<std::size_t>(bundle.place.size));
  for (std::size_t index = bundle.first_unit; index < bundle.first_unit + bundle.num_units;
       ++index) {
    HeldUnit& held = units_[index];
    replicas_of(held).all_gather(held.weights,
                                 in_bundle(bundle, table_.units[index].place).of(whole));
  }
  return whole;
}

std::span<float> ChunkParameters::gradient_buffer(const ParameterBundle& bundle,
                                                  std::span<float> workspace) {
  if (!shape_.shards_gradients()) {
    return bundle.place.of(std::span<float>(gradients_));
  }
  const std::span<float> whole = workspace.first(static_cast<std::size_t>(bundle.place.size));
  std::fill(whole.begin(), whole.end(), 0.0F);
  return whole;
}

void ChunkParameters::collect(const ParameterBundle& bundle, std::span<float> workspace) {
  if (!shape_.shards_gradients()) {
    return;
  }
  const auto size = static_cast<std::size_t>(bundle.place.size);
  const std::span<float> whole = workspace.first(size);
  for (std::size_t index = bundle.first_unit; index < bundle.first_unit + bundle.num_units;
       ++index) {
    HeldUnit& held = units_[index];
    const std::span<float> shard = workspace.subspan(size, held.gradients.size());
    replicas_of(held).reduce_scatter(in_bundle(bundle, table_.units[index].place).of(whole), shard);
    std::transform(shard.begin(), shard.end(), held.gradients.begin(), held.gradients.begin(),
                   std::plus<>());
  }
}

}  // namespace megatwin::exec
