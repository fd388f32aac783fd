#include "sim/search/search_space.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "model/assert.h"
#include "model/precision_names.h"
#include "model/rank_layout.h"
#include "model/stage_sites.h"
#include "sim/search/decided_plans.h"

namespace megatwin::sim {
namespace {

using model::ExpertDispatcher;
using model::Framework;
using model::Job;
using model::Plan;
using model::Precision;
using model::RecomputeKind;
using model::ScheduleKind;

constexpr std::array<std::string_view, kNumSpaceKeys> kNames = {"tensor",
                                                                "pipeline",
                                                                "model_chunks",
                                                                "context",
                                                                "expert",
                                                                "expert_tensor",
                                                                "data",
                                                                "micro_batch",
                                                                "global_batch",
                                                                "sequence_parallel",
                                                                "zero",
                                                                "recompute",
                                                                "precision",
                                                                "dispatcher",
                                                                "schedule",
                                                                "overlap_grad_reduce",
                                                                "overlap_param_gather",
                                                                "overlap_tensor_parallel",
                                                                "overlap_p2p",
                                                                "rank_order",
                                                                "layers_per_stage"};

// Larger sizes are legal, yet nobody gains by them; `search:` can name them.
constexpr std::int64_t kTensorMax = 64;
constexpr std::int64_t kMicroBatchMax = 64;
// A context rank with fewer tokens than this spends its time in the exchange.
constexpr std::int64_t kContextTokensMin = 512;

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t max) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 1; i <= std::min(number, max); ++i) {
    if (number % i == 0) all.push_back(i);
  }
  return all;
}

std::vector<int> small_divisors(std::int64_t number, std::int64_t max) {
  const auto all = divisors(number, max);
  return {all.begin(), all.end()};
}

template <class Value>
void add(std::vector<Value>& values, const Value& value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

// Whether the stack's code has the overlap switches of Megatron-Core, to be turned at will.
bool has_overlap_switches(Framework framework) {
  return framework == Framework::Megatwin || framework == Framework::MegatronCore;
}

// As it is, and switched on.
std::vector<bool> and_on(bool value) {
  return value ? std::vector<bool>{true} : std::vector<bool>{false, true};
}

// The file's, and Megatron-Core's two: replicas inside the pipeline, or the pipeline inside them.
// On one machine all are the same.
std::vector<std::string> placements(const Job& job) {
  std::vector<std::string> orders = {job.plan.rank_order};
  if (!has_overlap_switches(job.software.framework)) return orders;
  if (job.cluster.groups.size() == 1 && job.cluster.groups.front().count == 1) return orders;
  add(orders, Plan{}.rank_order);
  add(orders, std::string("tp-cp-ep-pp-dp"));
  return orders;
}

std::vector<RecomputeChoice> recompute_choices(const Job& job) {
  std::vector<RecomputeChoice> choices = {
      {RecomputeKind::None}, {RecomputeKind::Selective}, {RecomputeKind::Full}};
  if (job.software.framework == Framework::Fsdp2) choices.push_back({RecomputeKind::PerOp});
  for (const int layers : {1, 2, 4, 8}) {
    if (layers < job.transformer.num_layers) choices.push_back({RecomputeKind::Full, layers});
  }
  add(choices, {job.plan.recompute, job.plan.recompute_layers});
  return choices;
}

template <class Value>
using Names = std::vector<std::pair<std::string_view, Value>>;

const Names<RecomputeKind>& recompute_names() {
  static const Names<RecomputeKind> names = {{"none", RecomputeKind::None},
                                             {"selective", RecomputeKind::Selective},
                                             {"full", RecomputeKind::Full},
                                             {"per-op", RecomputeKind::PerOp}};
  return names;
}
const Names<Precision>& precision_names() {
  static const auto words = model::precision_words<Names<Precision>::value_type>();
  static const Names<Precision> names(words.begin(), words.end());
  return names;
}
const Names<ExpertDispatcher>& dispatcher_names() {
  static const Names<ExpertDispatcher> names = {{"all-to-all", ExpertDispatcher::AllToAll},
                                                {"all-gather", ExpertDispatcher::AllGather},
                                                {"deep-ep", ExpertDispatcher::DeepEp}};
  return names;
}
const Names<ScheduleKind>& schedule_names() {
  static const Names<ScheduleKind> names = {{"gpipe", ScheduleKind::GPipe},
                                            {"1f1b", ScheduleKind::OneForwardOneBackward},
                                            {"interleaved", ScheduleKind::Interleaved},
                                            {"zb-h1", ScheduleKind::ZeroBubbleH1},
                                            {"zb-v", ScheduleKind::ZeroBubbleV},
                                            {"dpp", ScheduleKind::DynamicAdaptive},
                                            {"dpp-depth", ScheduleKind::DynamicDepthFirst},
                                            {"dpp-breadth", ScheduleKind::DynamicBreadthFirst},
                                            {"fbd", ScheduleKind::Decoupled}};
  return names;
}

const Names<LayerSplit>& split_names() {
  static const Names<LayerSplit> names = {
      {"even", LayerSplit::Even}, {"ends", LayerSplit::Ends}, {"auto", LayerSplit::Auto}};
  return names;
}

template <class Value>
std::string word_of(const Names<Value>& names, Value value) {
  for (const auto& [name, other] : names) {
    if (other == value) return std::string(name);
  }
  return "order-file";
}

std::string word_of(const RecomputeChoice& choice) {
  const std::string kind = word_of(recompute_names(), choice.kind);
  return choice.layers > 0 ? kind + ":" + std::to_string(choice.layers) : kind;
}

// "even", "ends", or the layers of the virtual stages: "7 ×2, 8 ×5, 6".
std::string split_text(const Plan& plan) {
  if (plan.layers_per_virtual_stage.empty()) {
    if (plan.embedding_as_layer && plan.head_as_layer) return "ends";
    if (plan.embedding_as_layer) return "embedding as a layer";
    return plan.head_as_layer ? "head as a layer" : "even";
  }
  const std::vector<int>& layers = plan.layers_per_virtual_stage;
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(layers[i]);
    if (end - i > 1) text += " ×" + std::to_string(end - i);
    i = end;
  }
  return text;
}

template <class Value>
std::string list_of(const Names<Value>& names) {
  std::string list;
  for (const auto& [name, value] : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

// Reads the values of one key; what it cannot read becomes a Diagnostic.
class ValueReader {
 public:
  using Places = std::map<std::string, model::Diagnostics>;
  ValueReader(const std::string& file, const Places& places, model::Diagnostics& faults)
      : file_(file), places_(places), faults_(faults) {}

  template <class Integer>
  void integers(SpaceKey key, const std::vector<std::string>& texts, std::int64_t min,
                std::int64_t max, std::vector<Integer>& values) {
    read(key, texts, "a whole number from " + std::to_string(min) + " to " + std::to_string(max),
         values, [&](const std::string& text) -> std::optional<Integer> {
           const auto number = integer(text);
           if (!number || *number < min || *number > max) return std::nullopt;
           return static_cast<Integer>(*number);
         });
  }

  void switches(SpaceKey key, const std::vector<std::string>& texts, std::vector<bool>& values) {
    read(key, texts, "true, false", values, [](const std::string& text) -> std::optional<bool> {
      if (text == "true") return true;
      if (text == "false") return false;
      return std::nullopt;
    });
  }

  template <class Value>
  void words(SpaceKey key, const std::vector<std::string>& texts, const Names<Value>& names,
             std::vector<Value>& values) {
    read(key, texts, list_of(names), values, [&](const std::string& text) -> std::optional<Value> {
      for (const auto& [name, value] : names) {
        if (name == text) return value;
      }
      return std::nullopt;
    });
  }

  void rank_orders(const std::vector<std::string>& texts, std::vector<std::string>& values) {
    read(SpaceKey::RankOrder, texts,
         "tp, cp, ep, dp and pp once each, joined by '-', fastest first: tp-cp-ep-pp-dp", values,
         [](const std::string& text) -> std::optional<std::string> {
           if (!model::rank_order_from_text(text)) return std::nullopt;
           return text;
         });
  }

  void recompute(const std::vector<std::string>& texts, std::vector<RecomputeChoice>& values) {
    read(SpaceKey::Recompute, texts, list_of(recompute_names()) + ", full:N for the first N layers",
         values, [&](const std::string& text) -> std::optional<RecomputeChoice> {
           for (const auto& [name, kind] : recompute_names()) {
             if (name == text) return RecomputeChoice{kind};
           }
           if (!text.starts_with("full:")) return std::nullopt;
           const auto layers = integer(text.substr(5));
           if (!layers || *layers < 1 || *layers > 10'000) return std::nullopt;
           return RecomputeChoice{RecomputeKind::Full, static_cast<int>(*layers)};
         });
  }

  // `place`: 0 for the key's own value, n for the nth of its list.
  void fault(SpaceKey key, std::size_t place, std::string message, const std::string& allowed) {
    model::Diagnostic diagnostic{.file = file_, .key = "search." + std::string(name_of(key))};
    const auto known = places_.find(std::string(name_of(key)));
    if (known != places_.end() && !known->second.empty()) {
      // A single value without brackets is the list, too.
      diagnostic = known->second[place < known->second.size() ? place : 0];
    }
    diagnostic.message = std::move(message);
    diagnostic.allowed = allowed;
    faults_.push_back(std::move(diagnostic));
  }

 private:
  static std::optional<std::int64_t> integer(const std::string& text) {
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || rest != end) return std::nullopt;
    return number;
  }

  template <class Value, class Convert>
  void read(SpaceKey key, const std::vector<std::string>& texts, const std::string& allowed,
            std::vector<Value>& values, Convert convert) {
    values.clear();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::optional<Value> value = convert(texts[i]);
      if (value) {
        add(values, *value);
      } else {
        fault(key, i + 1, "'" + texts[i] + "' is no value of it", allowed);
      }
    }
    if (texts.empty()) fault(key, 0, "lists no value", allowed);
  }

  const std::string& file_;
  const Places& places_;
  model::Diagnostics& faults_;
};

// Fixed orders are a dimension; the others take their sizes, so that there are always some.
void take_decided(SearchSpace& space) {
  space.decided.clear();
  std::vector<ScheduleKind> fixed;
  for (const ScheduleKind kind : space.schedule) {
    (is_decided(kind) ? space.decided : fixed).push_back(kind);
  }
  if (fixed.empty()) {
    fixed = {ScheduleKind::OneForwardOneBackward, ScheduleKind::Interleaved};
  }
  space.schedule = std::move(fixed);
}

void read_values(ValueReader& reader, SpaceKey key, const std::vector<std::string>& texts,
                 SearchSpace& space) {
  constexpr std::int64_t kSizeMax = 1'000'000;
  switch (key) {
    case SpaceKey::Tensor:
      return reader.integers(key, texts, 1, kSizeMax, space.tensor);
    case SpaceKey::Pipeline:
      return reader.integers(key, texts, 1, kSizeMax, space.pipeline);
    case SpaceKey::ModelChunks:
      return reader.integers(key, texts, 1, 1000, space.model_chunks);
    case SpaceKey::Context:
      return reader.integers(key, texts, 1, kSizeMax, space.context);
    case SpaceKey::Expert:
      return reader.integers(key, texts, 1, kSizeMax, space.expert);
    case SpaceKey::ExpertTensor:
      return reader.integers(key, texts, 0, kSizeMax, space.expert_tensor);
    case SpaceKey::Data:
      return reader.integers(key, texts, 1, kSizeMax, space.data);
    case SpaceKey::MicroBatch:
      return reader.integers(key, texts, 1, 1'000'000'000, space.micro_batch);
    case SpaceKey::GlobalBatch:
      return reader.integers(key, texts, 1, 1'000'000'000, space.global_batch);
    case SpaceKey::SequenceParallel:
      return reader.switches(key, texts, space.sequence_parallel);
    case SpaceKey::Zero:
      return reader.integers(key, texts, 0, 3, space.zero);
    case SpaceKey::Recompute:
      return reader.recompute(texts, space.recompute);
    case SpaceKey::Precision:
      return reader.words(key, texts, precision_names(), space.precision);
    case SpaceKey::Dispatcher:
      return reader.words(key, texts, dispatcher_names(), space.dispatcher);
    case SpaceKey::Schedule:
      reader.words(key, texts, schedule_names(), space.schedule);
      return take_decided(space);
    case SpaceKey::OverlapGradReduce:
      return reader.switches(key, texts, space.overlap_grad_reduce);
    case SpaceKey::OverlapParamGather:
      return reader.switches(key, texts, space.overlap_param_gather);
    case SpaceKey::OverlapTensorParallel:
      return reader.switches(key, texts, space.overlap_tensor_parallel);
    case SpaceKey::OverlapP2p:
      return reader.switches(key, texts, space.overlap_p2p);
    case SpaceKey::RankOrder:
      return reader.rank_orders(texts, space.rank_order);
    case SpaceKey::Layers:
      return reader.words(key, texts, split_names(), space.layers);
  }
}

}  // namespace

std::string_view name_of(SpaceKey key) { return kNames[static_cast<std::size_t>(key)]; }

std::string value_text(const Plan& plan, SpaceKey key) {
  const auto on = [](bool value) { return std::string(value ? "true" : "false"); };
  switch (key) {
    case SpaceKey::Tensor:
      return std::to_string(plan.tensor);
    case SpaceKey::Pipeline:
      return std::to_string(plan.pipeline);
    case SpaceKey::ModelChunks:
      return std::to_string(plan.model_chunks);
    case SpaceKey::Context:
      return std::to_string(plan.context);
    case SpaceKey::Expert:
      return std::to_string(plan.expert);
    case SpaceKey::ExpertTensor:
      return std::to_string(plan.effective_expert_tensor());
    case SpaceKey::Data:
      return std::to_string(plan.data);
    case SpaceKey::MicroBatch:
      return std::to_string(plan.micro_batch);
    case SpaceKey::GlobalBatch:
      return std::to_string(plan.global_batch);
    case SpaceKey::SequenceParallel:
      return on(plan.sequence_parallel);
    case SpaceKey::Zero:
      return std::to_string(plan.zero_stage);
    case SpaceKey::Recompute:
      return word_of(RecomputeChoice{plan.recompute, plan.recompute_layers});
    case SpaceKey::Precision:
      return word_of(precision_names(), plan.precision);
    case SpaceKey::Dispatcher:
      return word_of(dispatcher_names(), plan.dispatcher);
    case SpaceKey::Schedule:
      return std::string(model::name_of(plan.schedule));
    case SpaceKey::OverlapGradReduce:
      return on(plan.overlap_grad_reduce);
    case SpaceKey::OverlapParamGather:
      return on(plan.overlap_param_gather);
    case SpaceKey::OverlapTensorParallel:
      return on(plan.overlap_tensor_parallel);
    case SpaceKey::OverlapP2p:
      return on(plan.overlap_p2p);
    case SpaceKey::RankOrder:
      return plan.rank_order;
    case SpaceKey::Layers:
      return split_text(plan);
  }
  MEGATWIN_ASSERT(false, "unknown key");
}

void copy_value(const Plan& from, SpaceKey key, Plan& to) {
  const auto copy = [&](auto member) { to.*member = from.*member; };
  switch (key) {
    case SpaceKey::Tensor:
      return copy(&Plan::tensor);
    case SpaceKey::Pipeline:
      return copy(&Plan::pipeline);
    case SpaceKey::ModelChunks:
      return copy(&Plan::model_chunks);
    case SpaceKey::Context:
      return copy(&Plan::context);
    case SpaceKey::Expert:
      return copy(&Plan::expert);
    case SpaceKey::ExpertTensor:
      return copy(&Plan::expert_tensor);
    case SpaceKey::Data:
      return copy(&Plan::data);
    case SpaceKey::MicroBatch:
      return copy(&Plan::micro_batch);
    case SpaceKey::GlobalBatch:
      return copy(&Plan::global_batch);
    case SpaceKey::SequenceParallel:
      return copy(&Plan::sequence_parallel);
    case SpaceKey::Zero:
      return copy(&Plan::zero_stage);
    case SpaceKey::Recompute:
      copy(&Plan::recompute);
      return copy(&Plan::recompute_layers);
    case SpaceKey::Precision:
      return copy(&Plan::precision);
    case SpaceKey::Dispatcher:
      return copy(&Plan::dispatcher);
    case SpaceKey::Schedule:
      return copy(&Plan::schedule);
    case SpaceKey::OverlapGradReduce:
      return copy(&Plan::overlap_grad_reduce);
    case SpaceKey::OverlapParamGather:
      return copy(&Plan::overlap_param_gather);
    case SpaceKey::OverlapTensorParallel:
      return copy(&Plan::overlap_tensor_parallel);
    case SpaceKey::OverlapP2p:
      return copy(&Plan::overlap_p2p);
    case SpaceKey::RankOrder:
      return copy(&Plan::rank_order);
    case SpaceKey::Layers:
      copy(&Plan::layers_per_virtual_stage);
      copy(&Plan::embedding_as_layer);
      return copy(&Plan::head_as_layer);
  }
}

SearchSpace whole_space(const Job& job) {
  const Plan& plan = job.plan;
  const std::int64_t gpus = job.cluster.num_gpus();
  const std::int64_t layers = job.transformer.num_layers;
  const std::int64_t experts = job.transformer.experts ? job.transformer.experts->num_experts : 1;
  SearchSpace space;
  space.tensor = small_divisors(gpus, kTensorMax);
  // Two more than layers: embedding and head may stand alone.
  space.pipeline = small_divisors(gpus, layers + 2);
  for (int chunks = 1; chunks <= layers; ++chunks) space.model_chunks.push_back(chunks);
  space.context = small_divisors(
      gpus, std::max<std::int64_t>(1, job.transformer.sequence_length / kContextTokensMin));
  space.expert = small_divisors(experts, gpus);
  space.expert_tensor = {plan.expert_tensor};
  if (job.transformer.experts) add(space.expert_tensor, 1);
  space.micro_batch = divisors(plan.global_batch, kMicroBatchMax);
  space.global_batch = {plan.global_batch};
  space.sequence_parallel = {false, true};
  space.zero = {0, 1, 2, 3};
  space.recompute = recompute_choices(job);
  space.precision = {plan.precision};
  space.dispatcher = {plan.dispatcher};
  space.schedule = {ScheduleKind::OneForwardOneBackward, ScheduleKind::Interleaved,
                    ScheduleKind::GPipe, ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV};
  const bool is_searched = is_decided(plan.schedule) && plan.schedule != ScheduleKind::UserPolicy;
  if (is_searched) space.decided = {plan.schedule};
  const bool turns = has_overlap_switches(job.software.framework);
  const auto overlap = [&](bool value) { return turns ? and_on(value) : std::vector<bool>{value}; };
  space.overlap_grad_reduce = overlap(plan.overlap_grad_reduce);
  space.overlap_param_gather = overlap(plan.overlap_param_gather);
  space.overlap_tensor_parallel = overlap(plan.overlap_tensor_parallel);
  space.overlap_p2p = overlap(plan.overlap_p2p);
  space.rank_order = placements(job);
  space.layers = {LayerSplit::Even, LayerSplit::Ends, LayerSplit::Auto};
  add(space.tensor, plan.tensor);
  add(space.context, plan.context);
  add(space.micro_batch, plan.micro_batch);
  return space;
}

namespace {

// Prices of a search are those of one kind of machine and of equal ranks.
void refuse_mixed(const Job& job, model::Diagnostics& faults) {
  const Plan& plan = job.plan;
  if (model::is_mixed(job.cluster)) {
    faults.push_back({.file = job.name,
                      .key = "cluster.nodes",
                      .message = "holds machines of different kinds, which search does not cover",
                      .allowed = "one kind; simulate takes several, and finds the layers with "
                                 "plan.layers_per_stage: auto"});
  }
  const bool own_sizes = !plan.tensor_per_stage.empty() ||
                         !plan.micro_batches_per_replica.empty() || plan.layers_by_cost ||
                         plan.micro_batches_by_cost;
  if (own_sizes) {
    faults.push_back({.file = job.name,
                      .key = "plan",
                      .message = "has sizes that differ by stage or replica, or are to be found",
                      .allowed = "equal sizes, or layers_per_stage as a list"});
  }
  if (plan.receive_slots > 0) {
    faults.push_back({.file = job.name,
                      .key = "policy.receive_slots",
                      .message = "limits messages under way, which search and plan do not cover",
                      .allowed = "0; simulate and train take more"});
  }
  if (plan.live_activations > 0) {
    faults.push_back({.file = job.name,
                      .key = "policy.live_activations",
                      .message = "bounds what a rank holds, which search and plan do not cover",
                      .allowed = "no such key; simulate and train take it"});
  }
}

}  // namespace

model::Result<SearchSpace> search_space(const Job& job, const scenarios::SearchRequest& request) {
  model::Diagnostics faults;
  refuse_mixed(job, faults);
  if (!faults.empty()) return model::fail(std::move(faults));
  SearchSpace space = whole_space(job);
  ValueReader reader(job.name, request.places, faults);
  for (int i = 0; i < kNumSpaceKeys; ++i) {
    const auto key = static_cast<SpaceKey>(i);
    const std::string name(name_of(key));
    const auto listed = request.candidates.find(name);
    const bool fixed =
        std::find(request.fixed.begin(), request.fixed.end(), name) != request.fixed.end();
    if (fixed && listed != request.candidates.end()) {
      reader.fault(key, 0, "is fixed and listed at once", "one of the two");
    } else if (fixed && key == SpaceKey::ExpertTensor) {
      space.expert_tensor = {job.plan.expert_tensor};  // As written: 0 goes on following.
    } else if (fixed && key == SpaceKey::Layers) {
      space.layers = {LayerSplit::Even};  // The file's, where its shape is kept.
    } else if (fixed) {
      read_values(reader, key, {value_text(job.plan, key)}, space);
    } else if (listed != request.candidates.end()) {
      read_values(reader, key, listed->second, space);
    }
  }
  const bool wants_sides = std::find(space.decided.begin(), space.decided.end(),
                                     ScheduleKind::Decoupled) != space.decided.end();
  if (wants_sides && job.plan.schedule != ScheduleKind::Decoupled) {
    faults.push_back({.file = job.name,
                      .key = "search.schedule",
                      .message = "fbd needs the two sides of the file",
                      .allowed = "policy: {schedule: fbd, forward: {…}, backward: {…}}"});
  }
  if (!faults.empty()) return model::fail(std::move(faults));
  return space;
}

}  // namespace megatwin::sim
