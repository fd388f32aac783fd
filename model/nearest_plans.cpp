#include "model/nearest_plans.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace megatwin::model {
namespace {

std::string layers_text(const Plan& plan) {
  if (plan.layers_per_virtual_stage.empty()) return "even";
  std::ostringstream out;
  for (std::size_t i = 0; i < plan.layers_per_virtual_stage.size(); ++i) {
    out << (i == 0 ? "[" : ", ") << plan.layers_per_virtual_stage[i];
  }
  out << "]";
  return std::move(out).str();
}

std::string recompute_text(const Plan& plan) {
  std::string text(name_of(plan.recompute));
  if (plan.recompute == RecomputeKind::Full && plan.recompute_layers > 0) {
    text += ", layers " + std::to_string(plan.recompute_layers);
  }
  return text;
}

// How a plan differs from the one that was asked for: in words, by key, and how much.
struct Difference {
  double cost = 0;
  std::vector<std::string> changes;  // "plan.tensor 8 → 4", in the order of the keys.
  std::string keys;                  // Which keys changed, to keep the answers diverse.

  std::string text() const {
    std::string text;
    for (const std::string& change : changes) text += (text.empty() ? "" : ", ") + change;
    return text;
  }

  // Both lists follow the order of the keys, so one that holds the other can be read off in a pass.
  bool includes(const Difference& smaller) const {
    auto next = smaller.changes.begin();
    for (const std::string& change : changes) {
      if (next != smaller.changes.end() && *next == change) ++next;
    }
    return next == smaller.changes.end();
  }
};

class Differ {
 public:
  Differ(const Plan& from, const Plan& to) : from_(from), to_(to) {}

  Difference run() {
    number("plan.tensor", from_.tensor, to_.tensor, 1, 0.5);
    number("plan.pipeline", from_.pipeline, to_.pipeline, 1, 0.5);
    number("plan.model_chunks", from_.model_chunks, to_.model_chunks, 0.5, 0.2);
    number("plan.context", from_.context, to_.context, 1, 0.5);
    number("plan.expert", from_.expert, to_.expert, 1, 0.5);
    number("plan.expert_tensor", from_.expert_tensor, to_.expert_tensor, 0.8, 0.2);
    // The number of replicas follows from the rest and costs little by itself.
    if (from_.data != 0) number("plan.data", from_.data, to_.data, 0.2, 0.2);
    number("plan.micro_batch", from_.micro_batch, to_.micro_batch, 0.8, 0.3);
    // Another global batch is another training run.
    number("plan.global_batch", from_.global_batch, to_.global_batch, 1, 2);
    number("plan.zero", from_.zero_stage, to_.zero_stage, 0.5, 0.2);
    word("plan.sequence_parallel", from_.sequence_parallel ? "true" : "false",
         to_.sequence_parallel ? "true" : "false", 0.3);
    word("plan.overlap_p2p", from_.overlap_p2p ? "true" : "false",
         to_.overlap_p2p ? "true" : "false", 0.3);
    word("plan.recompute", recompute_text(from_), recompute_text(to_), cost_of_recompute());
    word("plan.precision", name_of(from_.precision), name_of(to_.precision), cost_of_precision());
    word("policy.schedule", name_of(from_.schedule), name_of(to_.schedule), 0.6);
    list("plan.tensor_per_stage", from_.tensor_per_stage, to_.tensor_per_stage);
    list("plan.micro_batches_per_replica", from_.micro_batches_per_replica,
         to_.micro_batches_per_replica);
    list("plan.precision_per_group", from_.precision_per_group, to_.precision_per_group);
    word("plan.rank_order", from_.rank_order, to_.rank_order, 0.5);
    word("plan.layers_per_stage", layers_text(from_), layers_text(to_), 0.7);
    if (from_.embedding_as_layer != to_.embedding_as_layer ||
        from_.head_as_layer != to_.head_as_layer) {
      add("embedding and head count as layers", 0.8, "ends");
    }
    return std::move(difference_);
  }

 private:
  // Selective costs least time, some layers in full more, all of them most.
  double cost_of_recompute() const {
    if (to_.recompute != RecomputeKind::Full) return 0.4;
    if (to_.recompute_layers == 0) return 0.6;
    return 0.45 + 0.001 * std::min(to_.recompute_layers, 100);
  }

  // Products in half as many bits are nearer than in a quarter; so is what else is of one kind.
  double cost_of_precision() const {
    const double wider =
        ratio(size_of(gemm_type(to_.precision)) / size_of(gemm_type(from_.precision)));
    const bool same_base = base_type(to_.precision) == base_type(from_.precision);
    return 1 + 0.2 * std::abs(std::log2(wider)) + (same_base ? 0 : 0.1);
  }

  void add(const std::string& change, double cost, std::string_view key) {
    difference_.changes.push_back(change);
    difference_.cost += cost;
    difference_.keys += key;
    difference_.keys += ' ';
  }
  void number(std::string_view key, std::int64_t from, std::int64_t to, double cost,
              double cost_of_doubling) {
    if (from == to) return;
    // Zero and negative sizes can come from the user; they are as far as one from any other.
    const double a = static_cast<double>(std::max<std::int64_t>(from, 1));
    const double b = static_cast<double>(std::max<std::int64_t>(to, 1));
    std::ostringstream out;
    out << key << " " << from << " → " << to;
    add(out.str(), cost + cost_of_doubling * std::abs(std::log2(b / a)), key);
  }
  // Lists are only ever left out.
  template <class Value>
  void list(std::string_view key, const std::vector<Value>& from, const std::vector<Value>& to) {
    if (from != to) add(std::string(key) + " left out", 0.6, key);
  }
  void word(std::string_view key, std::string_view from, std::string_view to, double cost) {
    if (from == to) return;
    std::ostringstream out;
    out << key << " " << from << " → " << to;
    add(out.str(), cost, key);
  }

  const Plan& from_;
  const Plan& to_;
  Difference difference_;
};

std::vector<int> divisors(int number, int max) {
  std::vector<int> result;
  for (int divisor = 1; divisor <= std::min(number, max); ++divisor) {
    if (number % divisor == 0) result.push_back(divisor);
  }
  return result;
}

// Plans one change away from `plan` in one key.
class Neighbours {
 public:
  Neighbours(const Transformer& transformer, const Plan& plan, int num_gpus)
      : transformer_(transformer), plan_(plan), num_gpus_(num_gpus) {}

  std::vector<Plan> of(PlanKey key) {
    switch (key) {
      case PlanKey::Tensor:
        for (const int size : divisors(num_gpus_, 64)) cut(&Plan::tensor, size);
        break;
      case PlanKey::Pipeline:
        for (const int size : divisors(num_gpus_, layers())) cut(&Plan::pipeline, size);
        break;
      case PlanKey::Context:
        for (const int size : divisors(num_gpus_, 64)) cut(&Plan::context, size);
        break;
      case PlanKey::Data:
        cut(&Plan::tensor, plan_.tensor);
        break;
      case PlanKey::ModelChunks:
        for (int chunks = 1; chunks <= 16; ++chunks) set_chunks(chunks);
        break;
      case PlanKey::Expert:
        for (const int size : divisors(num_experts(), num_experts())) set(&Plan::expert, size);
        break;
      case PlanKey::ExpertTensor:
        for (const int size : {1, 2, 4, 8}) set(&Plan::expert_tensor, size);
        break;
      case PlanKey::MicroBatch:
        for (const int size : divisors(64, 64)) set(&Plan::micro_batch, std::int64_t{size});
        break;
      case PlanKey::GlobalBatch:
        change_batch();
        break;
      case PlanKey::SequenceParallel:
        set(&Plan::sequence_parallel, !plan_.sequence_parallel);
        break;
      case PlanKey::Zero:
        for (int stage = 0; stage <= 3; ++stage) set(&Plan::zero_stage, stage);
        break;
      case PlanKey::Recompute:
        set(&Plan::recompute, RecomputeKind::Selective);
        recompute_layers();
        break;
      case PlanKey::Precision:
        set(&Plan::precision, Precision::Bf16);
        set(&Plan::precision, Precision::Fp16);
        set(&Plan::precision, Precision::Fp8PerTensor);
        break;
      case PlanKey::Schedule:
        change_schedule();
        break;
      case PlanKey::Layers:
        change_layers();
        break;
      case PlanKey::Overlap:
        set(&Plan::overlap_p2p, true);
        break;
      case PlanKey::RankOrder:
        set(&Plan::rank_order, std::string("tp-cp-ep-dp-pp"));
        break;
      case PlanKey::Lists:
        leave_out(&Plan::tensor_per_stage);
        leave_out(&Plan::micro_batches_per_replica);
        leave_out(&Plan::precision_per_group);
        break;
      case PlanKey::Other:
        break;
    }
    return std::move(plans_);
  }

 private:
  int layers() const { return static_cast<int>(transformer_.num_layers); }
  int num_experts() const {
    return transformer_.experts ? static_cast<int>(transformer_.experts->num_experts) : 1;
  }

  template <class Value>
  void set(Value Plan::*member, const Value& value) {
    Plan next = plan_;
    next.*member = value;
    plans_.push_back(std::move(next));
  }

  template <class Value>
  void leave_out(std::vector<Value> Plan::*list) {
    if ((plan_.*list).empty()) return;
    Plan next = plan_;
    (next.*list).clear();
    if (next.data == 0) next.data = data_from_gpus(next, num_gpus_).value_or(0);
    plans_.push_back(std::move(next));
  }

  // A size of the dense grid; the number of replicas follows.
  void cut(int Plan::*member, int size) {
    Plan next = plan_;
    next.*member = size;
    const auto data = data_from_gpus(next, num_gpus_);
    if (!data) return;
    next.data = *data;
    if (member == &Plan::pipeline && size != plan_.pipeline) next.layers_per_virtual_stage.clear();
    plans_.push_back(std::move(next));
  }

  void set_chunks(int chunks) {
    Plan next = plan_;
    next.model_chunks = chunks;
    if (chunks != plan_.model_chunks) next.layers_per_virtual_stage.clear();
    plans_.push_back(std::move(next));
  }

  // All layers (0), or a quarter, half and three quarters of what a rank holds of a chunk.
  void recompute_layers() {
    Plan all = plan_;
    all.recompute = RecomputeKind::Full;
    all.recompute_layers = 0;
    plans_.push_back(std::move(all));
    if (plan_.pipeline < 1 || plan_.model_chunks < 1) return;
    const std::int64_t held =
        transformer_.num_layers / (std::int64_t{plan_.pipeline} * plan_.model_chunks);
    for (const std::int64_t quarters : {1, 2, 3}) {
      Plan next = plan_;
      next.recompute = RecomputeKind::Full;
      next.recompute_layers = static_cast<int>(held * quarters / 4);
      if (next.recompute_layers > 0) plans_.push_back(std::move(next));
    }
  }

  // The multiples below and above of what the batch has to divide by.
  void change_batch() {
    // Sizes out of their range are mended first, and would overflow here.
    constexpr std::int64_t kSizeMax = 1'000'000;
    const auto in_range = [](std::int64_t size) { return size >= 1 && size <= kSizeMax; };
    if (!in_range(plan_.micro_batch) || !in_range(plan_.data) || !in_range(plan_.pipeline)) {
      return;
    }
    const std::int64_t unit = plan_.micro_batch * plan_.data;
    for (const std::int64_t multiple : {unit, unit * plan_.pipeline}) {
      const std::int64_t below = plan_.global_batch / multiple * multiple;
      if (below > 0) set(&Plan::global_batch, below);
      set(&Plan::global_batch, below + multiple);
    }
  }

  void change_schedule() {
    Plan next = plan_;
    next.schedule = ScheduleKind::OneForwardOneBackward;
    if (plan_.model_chunks != 1) next.layers_per_virtual_stage.clear();
    next.model_chunks = 1;
    plans_.push_back(next);
    if (plan_.model_chunks > 1) set(&Plan::schedule, ScheduleKind::Interleaved);
  }

  void change_layers() {
    Plan even = plan_;
    even.layers_per_virtual_stage.clear();
    plans_.push_back(even);
    Plan uneven = even;
    uneven.layers_per_virtual_stage = layers_of_virtual_stages(transformer_, even);
    const auto& split = uneven.layers_per_virtual_stage;
    // Where even layers are legal this would be the same plan again.
    if (!is_layer_split_legal(transformer_, even) &&
        std::all_of(split.begin(), split.end(), [](int n) { return n > 0; })) {
      plans_.push_back(uneven);
    }
    even.embedding_as_layer = even.head_as_layer = true;
    plans_.push_back(even);
  }

  const Transformer& transformer_;
  const Plan& plan_;
  int num_gpus_;
  std::vector<Plan> plans_;
};

// Keys that memory depends on, for a plan that is legal and not accepted.
const std::vector<PlanKey>& memory_keys() {
  static const std::vector<PlanKey> keys = {
      PlanKey::Tensor,     PlanKey::Pipeline, PlanKey::Context,   PlanKey::Expert,
      PlanKey::MicroBatch, PlanKey::Zero,     PlanKey::Recompute, PlanKey::SequenceParallel};
  return keys;
}

class NearestSearch {
 public:
  NearestSearch(const Transformer& transformer, const Plan& plan, const Cluster& cluster,
                const SoftwareStack& software, const NearestPlansOptions& options)
      : transformer_(transformer),
        plan_(plan),
        cluster_(cluster),
        software_(software),
        options_(options) {}

  std::vector<NearestPlan> run() {
    push(plan_);
    int checked = 0;
    while (!queue_.empty() && checked < options_.max_checked && asked_ < options_.max_asked &&
           static_cast<int>(found_.size()) < options_.max_plans) {
      const Candidate candidate = std::move(queue_.extract(queue_.begin()).mapped());
      ++checked;
      visit(candidate);
      if (found_.size() == 1 && found_.front().change.empty()) break;
    }
    if (options_.num_checked != nullptr) *options_.num_checked = checked;
    return std::move(found_);
  }

 private:
  struct Candidate {
    Plan plan;
    Difference difference;
  };

  void visit(const Candidate& candidate) {
    const auto problems = check_plan(transformer_, candidate.plan, cluster_, software_);
    if (problems.empty()) {
      // A change on top of one that already suffices helps nobody.
      const bool more_than_needed = std::any_of(
          enough_.begin(), enough_.end(),
          [&](const Difference& enough) { return candidate.difference.includes(enough); });
      if (more_than_needed) return;
      ++asked_;
      if (!options_.accepts || options_.accepts(candidate.plan)) {
        // Two answers that turn the same keys are enough; more layers than needed help nobody.
        const int most = candidate.plan.recompute_layers > plan_.recompute_layers ? 1 : 2;
        if (++answers_by_keys_[candidate.difference.keys] <= most) {
          found_.push_back({candidate.plan, candidate.difference.text()});
        }
        enough_.push_back(candidate.difference);
      } else {
        expand(candidate.plan, memory_keys());
        // Layers given by hand may be what does not fit.
        if (!candidate.plan.layers_per_virtual_stage.empty()) {
          expand(candidate.plan, {PlanKey::Layers});
        }
      }
      return;
    }
    for (const PlanProblem& problem : problems) expand(candidate.plan, problem.keys);
  }

  void expand(const Plan& plan, const std::vector<PlanKey>& keys) {
    for (const PlanKey key : keys) {
      for (Plan& next : Neighbours(transformer_, plan, cluster_.num_gpus()).of(key)) push(next);
    }
  }

  void push(const Plan& plan) {
    Difference difference = Differ(plan_, plan).run();
    std::pair<double, std::string> key{difference.cost, difference.text()};
    if (!seen_.insert(key.second).second) return;
    // The text breaks ties, so that the order never depends on how a plan was reached.
    queue_.emplace(std::move(key), Candidate{plan, std::move(difference)});
  }

  const Transformer& transformer_;
  const Plan& plan_;
  const Cluster& cluster_;
  const SoftwareStack& software_;
  const NearestPlansOptions& options_;
  std::map<std::pair<double, std::string>, Candidate> queue_;
  std::set<std::string> seen_;
  std::map<std::string, int> answers_by_keys_;
  std::vector<Difference> enough_;  // What each legal and accepted plan changes.
  int asked_ = 0;
  std::vector<NearestPlan> found_;
};

}  // namespace

std::vector<NearestPlan> nearest_legal_plans(const Transformer& transformer, const Plan& plan,
                                             const Cluster& cluster, const SoftwareStack& software,
                                             const NearestPlansOptions& options) {
  return NearestSearch(transformer, plan, cluster, software, options).run();
}

}  // namespace megatwin::model
