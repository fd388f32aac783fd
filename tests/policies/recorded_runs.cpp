#include "tests/policies/recorded_runs.h"

#include <istream>
#include <ostream>

#include "model/assert.h"
#include "model/fnv_hash.h"
#include "policies/adaptive_pipeline.h"
#include "policies/dynamic_pipeline.h"

namespace megatwin::tests {

using model::Bytes;
using model::DecisionRecord;
using model::ExecutorEvent;
using model::ExecutorEventKind;
using model::ExecutorLog;
using model::ScheduleKind;

policies::PolicyFactory policy_of(const OrderChoice& choice) {
  const int most = choice.live_activations_max;
  if (choice.decides == ScheduleKind::DynamicAdaptive) {
    return policies::adaptive_pipeline_factory({.live_activations_max = most});
  }
  if (!model::is_dynamic(choice.decides)) {
    return {};
  }
  const bool deep = choice.decides == ScheduleKind::DynamicDepthFirst;
  return policies::dynamic_pipeline_factory(
      {.traversal = deep ? policies::Traversal::DepthFirst : policies::Traversal::BreadthFirst,
       .live_activations_max = most});
}

namespace {

// Of executor options, only what the recordings vary.
void write_header(std::ostream& out, const RecordedRun& run) {
  const model::ProgramSpec& spec = run.spec;
  out << "run " << static_cast<int>(run.choice.shape) << ' ' << static_cast<int>(run.choice.decides)
      << ' ' << run.choice.live_activations_max << ' ' << run.choice.executor.issue_depth << ' '
      << run.choice.executor.receive_slots << ' ' << run.choice.executor.gradients_in_order << ' '
      << spec.pipeline << ' ' << spec.model_chunks << ' ' << spec.micro_batches << ' '
      << spec.overlap_p2p << spec.overlap_grad_reduce << spec.overlap_param_gather;
  if (spec.schedule == ScheduleKind::Decoupled) {
    out << ' ' << static_cast<int>(spec.side) << ' ' << static_cast<int>(spec.feed) << ' '
        << spec.crossing(0).fed_max;
  }
  out << '\n';
}

void write_log(std::ostream& out, const model::StageCost& stage, const ExecutorLog& log) {
  const Bytes fixed =
      stage.parameters + stage.gradients + stage.optimizer_state + stage.buffers + stage.overhead;
  out << "memory " << static_cast<std::int64_t>(fixed.value);
  for (const model::ChunkCost& chunk : stage.chunks) {
    out << ' ' << static_cast<std::int64_t>(chunk.activation.value) << ' '
        << static_cast<std::int64_t>(chunk.weight_gradient_input.value);
  }
  out << "\nevents " << log.events.size();
  for (const ExecutorEvent& event : log.events) {
    out << ' ' << static_cast<int>(event.kind) << ':' << event.id << ':' << event.duration;
  }
  out << "\ndecisions " << log.decisions.size();
  for (const DecisionRecord& decision : log.decisions) {
    out << ' ' << decision.task << ':' << decision.after_event;
  }
  out << "\nhash " << std::hex << hash_of(log.decisions) << std::dec << '\n';
}

template <class Number>
Number next(std::istream& in) {
  Number number{};
  in >> number;
  MEGATWIN_ASSERT(!in.fail(), "the recorded runs end early or hold no number");
  return number;
}

void skip(std::istream& in, const std::string& word) {
  const auto found = next<std::string>(in);
  MEGATWIN_ASSERT(found == word, found, " where the recorded runs should say ", word);
}

void skip_colon(std::istream& in) { MEGATWIN_ASSERT(in.get() == ':', "no colon"); }

RecordedRun read_header(std::istream& in) {
  RecordedRun run;
  run.choice.shape = static_cast<ScheduleKind>(next<int>(in));
  run.choice.decides = static_cast<ScheduleKind>(next<int>(in));
  run.choice.live_activations_max = next<int>(in);
  run.choice.executor.issue_depth = next<int>(in);
  run.choice.executor.receive_slots = next<int>(in);
  run.choice.executor.gradients_in_order = next<int>(in) != 0;
  run.spec.schedule = run.choice.shape;
  run.spec.pipeline = next<int>(in);
  run.spec.model_chunks = next<int>(in);
  run.spec.micro_batches = next<int>(in);
  const auto overlaps = next<std::string>(in);
  run.spec.overlap_p2p = overlaps.at(0) == '1';
  run.spec.overlap_grad_reduce = overlaps.at(1) == '1';
  run.spec.overlap_param_gather = overlaps.at(2) == '1';
  if (run.spec.schedule == ScheduleKind::Decoupled) {
    run.spec.side = static_cast<model::PipelineSide>(next<int>(in));
    run.spec.feed = static_cast<model::SideFeed>(next<int>(in));
    run.spec.crossings.assign(static_cast<std::size_t>(run.spec.pipeline),
                              {.feed = {}, .fed_max = next<int>(in)});
  }
  return run;
}

void read_log(std::istream& in, RecordedRun& run) {
  skip(in, "memory");
  model::StageCost stage;
  stage.parameters = {static_cast<double>(next<std::int64_t>(in))};
  for (int chunk = 0; chunk < run.spec.model_chunks; ++chunk) {
    model::ChunkCost cost;
    cost.activation = {static_cast<double>(next<std::int64_t>(in))};
    cost.weight_gradient_input = {static_cast<double>(next<std::int64_t>(in))};
    stage.chunks.push_back(cost);
  }
  run.spec.stages.push_back(stage);
  ExecutorLog log;
  skip(in, "events");
  for (int left = next<int>(in); left > 0; --left) {
    ExecutorEvent event;
    event.kind = static_cast<ExecutorEventKind>(next<int>(in));
    skip_colon(in);
    event.id = next<std::int32_t>(in);
    skip_colon(in);
    event.duration = next<model::QuantisedDuration>(in);
    log.events.push_back(event);
  }
  skip(in, "decisions");
  for (int left = next<int>(in); left > 0; --left) {
    DecisionRecord decision;
    decision.task = next<std::int32_t>(in);
    skip_colon(in);
    decision.after_event = next<std::uint32_t>(in);
    log.decisions.push_back(decision);
  }
  skip(in, "hash");
  std::uint64_t hash = 0;
  in >> std::hex >> hash >> std::dec;
  run.hashes.push_back(hash);
  run.logs.push_back(std::move(log));
}

}  // namespace

std::uint64_t hash_of(const std::vector<DecisionRecord>& decisions) {
  model::FnvHash hash;
  for (const DecisionRecord& decision : decisions) {
    hash.add_bytes_of(decision.state_hash);
  }
  return hash.value();
}

void write_runs(std::ostream& out, const std::vector<RecordedRun>& runs) {
  for (const RecordedRun& run : runs) {
    write_header(out, run);
    for (std::size_t stage = 0; stage < run.logs.size(); ++stage) {
      write_log(out, run.spec.stages[stage], run.logs[stage]);
    }
  }
}

std::vector<RecordedRun> read_runs(std::istream& in) {
  std::vector<RecordedRun> runs;
  std::string word;
  while (in >> word) {
    MEGATWIN_ASSERT(word == "run", word);
    RecordedRun run = read_header(in);
    for (int stage = 0; stage < run.spec.pipeline; ++stage) {
      read_log(in, run);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace megatwin::tests
