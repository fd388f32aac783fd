#include "exec/model_state.h"

#include <algorithm>
#include <set>

#include "model/assert.h"

namespace megatwin::exec {
namespace {

// Calls visit(index among the chunk's places, index in the whole matrix) for the numbers of
// `parameter` whose places lie in `within`.
template <class Visit>
void for_each_number(const Parameter& parameter, const Slice& within, Visit visit) {
  const Slice here = common(parameter.place, within);
  for (std::int64_t place = here.offset; place < here.offset + here.size; ++place) {
    visit(static_cast<std::size_t>(place),
          static_cast<std::size_t>(parameter.index_in_whole(place - parameter.place.offset)));
  }
}

WholeParameter& whole_of(ModelState& state, const Parameter& parameter, StatePart part) {
  WholeParameter& whole = state[parameter.name];
  if (!whole.weights.empty()) {
    return whole;
  }
  whole.rows = parameter.rows_total;
  whole.columns = parameter.columns_total;
  const auto size = static_cast<std::size_t>(whole.rows * whole.columns);
  whole.weights.resize(size);
  if (part == StatePart::WeightsAndMoments) {
    whole.first_moment.resize(size);
    whole.second_moment.resize(size);
  }
  return whole;
}

const WholeParameter& named(const ModelState& state, const Parameter& parameter) {
  const auto found = state.find(parameter.name);
  MEGATWIN_ASSERT(found != state.end(), parameter.name);
  return found->second;
}

}  // namespace

// Weights too are taken from where they are stepped: with ZeRO the other replicas get them at the
// start of the next step only.
ModelState gather_state(std::span<const ChunkState> chunks, StatePart part) {
  ModelState state;
  for (const ChunkState& chunk : chunks) {
    for (const Parameter& parameter : chunk.table->parameters) {
      WholeParameter& whole = whole_of(state, parameter, part);
      const auto held_from = static_cast<std::size_t>(chunk.held.offset);
      for_each_number(parameter, chunk.stepped, [&](std::size_t place, std::size_t index) {
        whole.weights[index] = chunk.weights[place - held_from];
      });
      if (part == StatePart::Weights) {
        continue;
      }
      const auto stepped_from = static_cast<std::size_t>(chunk.stepped.offset);
      for_each_number(parameter, chunk.stepped, [&](std::size_t place, std::size_t index) {
        whole.first_moment[index] = chunk.first_moment[place - stepped_from];
        whole.second_moment[index] = chunk.second_moment[place - stepped_from];
      });
    }
  }
  return state;
}

void scatter_weights(const ModelState& state, std::span<const ChunkState> chunks) {
  for (const ChunkState& chunk : chunks) {
    for (const Parameter& parameter : chunk.table->parameters) {
      const WholeParameter& whole = named(state, parameter);
      const auto held_from = static_cast<std::size_t>(chunk.held.offset);
      for_each_number(parameter, chunk.held, [&](std::size_t place, std::size_t index) {
        chunk.weights[place - held_from] = whole.weights[index];
      });
    }
  }
}

void scatter_state(const ModelState& state, std::span<const ChunkState> chunks) {
  scatter_weights(state, chunks);
  for (const ChunkState& chunk : chunks) {
    const auto stepped_from = static_cast<std::size_t>(chunk.stepped.offset);
    for (const Parameter& parameter : chunk.table->parameters) {
      const WholeParameter& whole = named(state, parameter);
      if (whole.first_moment.empty()) {
        continue;
      }
      for_each_number(parameter, chunk.stepped, [&](std::size_t place, std::size_t index) {
        chunk.first_moment[place - stepped_from] = whole.first_moment[index];
        chunk.second_moment[place - stepped_from] = whole.second_moment[index];
      });
    }
  }
}

std::vector<std::string> state_problems(const ModelState& state, const ParameterTable& table) {
  std::vector<std::string> problems;
  for (const Parameter& parameter : table.parameters) {
    const auto found = state.find(parameter.name);
    if (found == state.end()) {
      problems.push_back("there is no " + parameter.name);
    } else if (found->second.rows != parameter.rows_total ||
               found->second.columns != parameter.columns_total) {
      problems.push_back(parameter.name + " is " + std::to_string(found->second.rows) + " × " +
                         std::to_string(found->second.columns) + ", the model's is " +
                         std::to_string(parameter.rows_total) + " × " +
                         std::to_string(parameter.columns_total));
    }
  }
  return problems;
}

std::vector<std::string> weights_without_place(const ModelState& state,
                                               const ParameterTable& table) {
  std::set<std::string> names;
  for (const Parameter& parameter : table.parameters) {
    names.insert(parameter.name);
  }
  std::vector<std::string> without;
  for (const auto& [name, whole] : state) {
    if (names.count(name) == 0 && name != "lm_head.weight" && !name.ends_with("inv_freq")) {
      without.push_back(name);
    }
  }
  return without;
}

}  // namespace megatwin::exec
