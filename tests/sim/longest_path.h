// The oracle: a step as a graph of weighted spans, built from the description and the orders of the
// stages alone (it shares no code with the engines), and its longest paths by Boost.Graph.
#ifndef MEGATWIN_TESTS_SIM_LONGEST_PATH_H_
#define MEGATWIN_TESTS_SIM_LONGEST_PATH_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dag_shortest_paths.hpp>

#include "model/program/program_spec.h"
#include "model/program/task.h"

namespace megatwin::tests {

class StepGraph {
 public:
  using Orders = std::vector<std::vector<model::Task>>;

  StepGraph(const model::ProgramSpec& spec, const Orders& orders) : spec_(spec), orders_(orders) {
    source_ = add_span("source", 0);
    for (int stage = 0; stage < spec.pipeline; ++stage) {
      add_compute(stage);
    }
    for (int stage = 0; stage < spec.pipeline; ++stage) {
      add_messages(stage);
    }
    for (int stage = 0; stage < spec.pipeline; ++stage) {
      add_data_parallel(stage);
    }
    solve();
  }

  std::int64_t makespan() const {
    std::int64_t latest = 0;
    for (std::size_t node = 0; node < weights_.size(); ++node) {
      latest = std::max(latest, starts_[node] + weights_[node]);
    }
    return latest;
  }
  std::int64_t end(int stage, const model::Task& task) const {
    const std::size_t node = nodes_.at(name(stage, task));
    return starts_[node] + weights_[node];
  }
  // Of the last task of a stage, and of the send that holds its lane after that.
  std::int64_t end_of_compute(int stage) const {
    const std::size_t node = last_in_lane_[stage];
    return starts_[node] + weights_[node];
  }
  // Start of a span such as "2 F0.1", "2 optimizer".
  std::int64_t start(const std::string& name) const { return starts_.at(nodes_.at(name)); }

 private:
  using Graph =
      boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                            boost::property<boost::edge_weight_t, std::int64_t>>;

  std::size_t add_span(const std::string& name, std::int64_t duration) {
    const std::size_t node = boost::add_vertex(graph_);
    weights_.push_back(duration);
    nodes_[name] = node;
    if (node != 0) {
      after(source_, node);
    }
    return node;
  }
  // dag_shortest_paths finds least sums: the weight of an edge is the span before it, negated.
  void after(std::size_t before, std::size_t node) {
    boost::add_edge(before, node, -weights_[before], graph_);
  }
  static std::string name(int stage, const std::string& what) {
    return std::to_string(stage) + " " + what;
  }
  std::string name(int stage, const model::Task& task) const { return name(stage, to_text(task)); }

  const model::ChunkCost& cost(int stage, const model::Task& task) const {
    return spec_.stages[stage].chunks[task.chunk.value];
  }
  std::int64_t duration(int stage, const model::Task& task) const {
    const model::ChunkCost& chunk = cost(stage, task);
    switch (task.kind) {
      case model::TaskKind::Forward:
        return chunk.forward.ns;
      case model::TaskKind::Backward:
        return chunk.backward.ns;
      case model::TaskKind::BackwardInput:
        return chunk.backward_input.ns;
      case model::TaskKind::BackwardWeight:
        return chunk.backward_weight.ns;
      case model::TaskKind::Recompute:
        break;
    }
    return 0;
  }

  // The layers in the order of the model: positions 0 … p·v−1 as (stage, chunk).
  std::vector<std::pair<int, int>> model_order() const {
    std::vector<std::pair<int, int>> positions;
    for (int chunk = 0; chunk < spec_.model_chunks; ++chunk) {
      const bool back = spec_.schedule == model::ScheduleKind::ZeroBubbleV && chunk == 1;
      for (int i = 0; i < spec_.pipeline; ++i) {
        positions.emplace_back(back ? spec_.pipeline - 1 - i : i, chunk);
      }
    }
    return positions;
  }

  // The task of the next position that uses what `task` makes, and its stage.
  bool consumer(int stage, const model::Task& task, int& other, model::Task& next) const {
    if (task.kind == model::TaskKind::BackwardWeight) {
      return false;
    }
    const auto positions = model_order();
    const auto here =
        std::find(positions.begin(), positions.end(), std::pair(stage, task.chunk.value));
    const auto index = here - positions.begin();
    const auto there = task.kind == model::TaskKind::Forward ? index + 1 : index - 1;
    if (there < 0 || there >= std::ssize(positions)) {
      return false;
    }
    other = positions[there].first;
    next = {task.kind, task.micro_batch, {positions[there].second}};
    return true;
  }

  // Neighbours on the way out and back of a V share the boundary below the higher one. In a round
  // an activation leaves over the boundary behind its stage, and a gradient returns over it.
  std::int64_t hop(int from, int to, bool forward) const {
    if (spec_.hops.empty()) {
      return forward ? spec_.send_activation.ns : spec_.send_gradient.ns;
    }
    const bool folds = spec_.schedule == model::ScheduleKind::ZeroBubbleV || spec_.orders_fold;
    const int boundary = folds ? std::min(from, to) : (forward ? from : to);
    const model::PipelineHop& between = spec_.hops[boundary];
    return forward ? between.activation.ns : between.gradient.ns;
  }

  void add_compute(int stage) {
    std::size_t before = source_;
    std::map<char, std::size_t> send_lane;
    for (const model::Task& task : orders_[stage]) {
      const std::size_t node = add_span(name(stage, task), duration(stage, task));
      after(before, node);
      before = node;
      int other = 0;
      model::Task next;
      if (!consumer(stage, task, other, next) || other == stage) {
        continue;
      }
      const bool forward = task.kind == model::TaskKind::Forward;
      const std::size_t send =
          add_span(name(stage, "send " + to_text(task)), hop(stage, other, forward));
      after(node, send);
      if (spec_.overlap_p2p) {
        const char lane = forward ? 'F' : 'B';
        if (send_lane.count(lane) != 0) {
          after(send_lane[lane], send);
        }
        send_lane[lane] = send;
      } else {
        before = send;
      }
    }
    last_in_lane_.push_back(before);
  }

  void add_messages(int stage) {
    for (const model::Task& task : orders_[stage]) {
      const std::size_t node = nodes_.at(name(stage, task));
      int other = 0;
      model::Task next;
      if (consumer(stage, task, other, next)) {
        const std::string sent = name(stage, "send " + to_text(task));
        after(other == stage ? node : nodes_.at(sent), nodes_.at(name(other, next)));
      }
      model::Task needs = task;
      if (task.kind == model::TaskKind::BackwardWeight) {
        needs.kind = model::TaskKind::BackwardInput;
      } else if (task.kind != model::TaskKind::Forward) {
        needs.kind = model::TaskKind::Forward;
      } else {
        continue;
      }
      after(nodes_.at(name(stage, needs)), node);
    }
  }

  void add_data_parallel(int stage) {
    std::vector<std::size_t> gathers;
    for (const model::ChunkCost& chunk : spec_.stages[stage].chunks) {
      gathers.push_back(add_span(name(stage, "gather " + std::to_string(gathers.size())),
                                 chunk.parameter_gather.ns));
      if (gathers.size() > 1) {
        after(gathers[gathers.size() - 2], gathers.back());
      }
    }
    std::map<int, model::Task> last_of_chunk;
    std::vector<int> finish_order;
    for (const model::Task& task : orders_[stage]) {
      if (task.kind == model::TaskKind::Forward) {
        after(spec_.overlap_param_gather ? gathers[task.chunk.value] : gathers.back(),
              nodes_.at(name(stage, task)));
      } else if (task.kind != model::TaskKind::BackwardInput) {
        std::erase(finish_order, task.chunk.value);
        finish_order.push_back(task.chunk.value);
        last_of_chunk[task.chunk.value] = task;
      }
    }
    std::size_t before = source_;
    for (const int chunk : finish_order) {
      const std::size_t reduce = add_span(name(stage, "reduce " + std::to_string(chunk)),
                                          spec_.stages[stage].chunks[chunk].gradient_reduce.ns);
      const model::Task& trigger =
          spec_.overlap_grad_reduce ? last_of_chunk.at(chunk) : orders_[stage].back();
      after(nodes_.at(name(stage, trigger)), reduce);
      after(before, reduce);
      before = reduce;
    }
    const std::size_t optimizer =
        add_span(name(stage, "optimizer"), spec_.stages[stage].optimizer.ns);
    after(before, optimizer);
    after(last_in_lane_[stage], optimizer);
  }

  void solve() {
    std::vector<std::int64_t> distances(boost::num_vertices(graph_));
    boost::dag_shortest_paths(graph_, source_, boost::distance_map(distances.data()));
    for (const std::int64_t distance : distances) {
      starts_.push_back(-distance);
    }
  }

  const model::ProgramSpec& spec_;
  const Orders& orders_;
  Graph graph_;
  std::size_t source_ = 0;
  std::vector<std::int64_t> weights_;
  std::map<std::string, std::size_t> nodes_;
  std::vector<std::size_t> last_in_lane_;
  std::vector<std::int64_t> starts_;
};

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SIM_LONGEST_PATH_H_
