#include "scenarios/scenario.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <tuple>
#include <utility>

#include "model/assert.h"
#include "model/expert_imbalance.h"
#include "model/stage_sites.h"
#include "scenarios/cluster_reader.h"
#include "scenarios/disturbance_reader.h"
#include "scenarios/failure_reader.h"
#include "scenarios/gpu_profile_reader.h"
#include "scenarios/hardware_catalogue.h"
#include "scenarios/hardware_reader.h"
#include "scenarios/model_reader.h"
#include "scenarios/overrides.h"
#include "scenarios/plan_reader.h"
#include "scenarios/scenario_document.h"
#include "scenarios/software_reader.h"
#include "scenarios/target_reader.h"
#include "scenarios/token_table.h"
#include "scenarios/training_reader.h"

namespace megatwin::scenarios {
namespace {

constexpr std::size_t kSweepPointsMax = 10'000;

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.find_last_of('/');
  return slash == std::string::npos ? std::string()
                                    : file.substr(0, std::max<std::size_t>(slash, 1));
}

// Reports print it as it is.
std::optional<std::string> read_name(MapReader& scenario) {
  std::optional<std::string> name = scenario.text("name");
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (!name || std::none_of(name->begin(), name->end(), is_control)) return name;
  scenario.error_at(*scenario.find("name"), "name", "holds control characters",
                    "printable text on one line");
  return std::nullopt;
}

std::string factor_text(double number) {
  std::ostringstream text;
  text << number;
  return std::move(text).str();
}

model::NetworkKind read_network(MapReader& scenario) {
  using model::NetworkKind;
  return scenario
      .choice<NetworkKind>("network", {{"analytic", NetworkKind::Analytic},
                                       {"simgrid", NetworkKind::Simgrid},
                                       {"maxmin", NetworkKind::MaxMin}})
      .value_or(NetworkKind::Analytic);
}

std::vector<std::string> scalars_of(MapReader& reader, const TreeNode& node, std::string_view key) {
  std::vector<std::string> values;
  if (node.kind == TreeKind::Scalar) values.push_back(node.text);
  for (const TreeNode& item : node.items) {
    if (reader.is_scalar(item, key)) values.push_back(item.text);
  }
  return values;
}

model::Result<double> read_share(std::string_view text, Zero /*zero*/) {
  MEGATWIN_TRY(const double share, parse_fraction(text));
  if (share < 1) return share;
  return model::fail(model::Diagnostic{.message = "leaves no memory", .allowed = "less than 1"});
}

std::optional<int> read_machines(MapReader& reader, const model::Cluster& cluster) {
  const auto count = reader.integer("machines");
  if (!count || cluster.groups.empty()) return std::nullopt;
  const model::NodeGroup& group = cluster.groups.front();
  if (*count <= group.count) return static_cast<int>(*count);
  reader.error_at(*reader.find("machines"), "machines",
                  "the cluster has " + std::to_string(group.count) + " of " + group.node.name,
                  "a whole number from 1 to " + std::to_string(group.count));
  return std::nullopt;
}

std::optional<SearchRequest> read_search(MapReader& scenario, const model::Cluster& cluster) {
  const TreeNode* node = scenario.find("search");
  if (node == nullptr) return std::nullopt;
  MapReader reader(scenario.context(), *node, scenario.path_of("search"));
  SearchRequest request;
  const std::vector<std::string> keys = plan_keys();
  if (const TreeNode* fixed = reader.find("fix")) {
    request.fixed = scalars_of(reader, *fixed, "fix");
    for (const std::string& key : request.fixed) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      reader.error_at(*fixed, "fix", quoted(key) + " is not a key of the plan",
                      allowed_names(key, keys));
    }
  }
  for (const std::string& key : keys) {
    const TreeNode* values = reader.find(key);
    if (values == nullptr) continue;
    request.candidates[key] = scalars_of(reader, *values, key);
    model::Diagnostics& places = request.places[key];
    places.push_back(reader.context().at({values->position, reader.path_of(key), "", ""}));
    for (const TreeNode& item : values->items) {
      places.push_back(reader.context().at({item.position, reader.path_of(key), "", ""}));
    }
  }
  request.memory_margin = reader.read<double>("memory_margin", read_share);
  request.machines = read_machines(reader, cluster);
  reader.finish();
  return request;
}

// One point of the sweep, from its own copy of the tree.
struct Point {
  std::string settings;  // " plan.tensor=4"; empty without a sweep.
  Document document;
};

class ScenarioReader {
 public:
  ScenarioReader(const std::string& file, const ScenarioOptions& options)
      : file_(file),
        folder_(folder_of(file)),
        needs_cluster_(options.needs_cluster),
        plan_varies_(options.plan_varies) {}

  // Appends the point's job, or where it stood when there are problems.
  void read(const Point& point, std::size_t place, Scenario& scenario) {
    ReadContext context(point.document.sources);
    MapReader reader(context, point.document.root, "");
    scenario.jobs.push_back(read_job(reader, scenario.target));
    scenario.jobs.back().name += point.settings;
    scenario.search = read_search(reader, scenario.jobs.back().cluster);
    scenario.data = read_training_data(reader, folder_);
    scenario.training = read_training_settings(reader);
    reader.finish();
    if (!model::has_error(context.diagnostics())) return;
    UnreadPoint unread{.name = std::move(scenario.jobs.back().name),
                       .settings = point.settings.empty() ? "" : point.settings.substr(1),
                       .place = place,
                       .faults = context.diagnostics()};
    scenario.jobs.pop_back();
    sort_by_place(unread.faults, file_);
    scenario.unread.push_back(std::move(unread));
  }

 private:
  model::Job read_job(MapReader& reader, std::optional<model::TrainingWish>& target) {
    model::Job job;
    Remarks remarks;
    job.name = read_name(reader).value_or(file_);
    std::optional<model::HardwareCatalogue> extended;
    if (const TreeNode* hardware = reader.find("hardware")) {
      MapReader nested(reader.context(), *hardware, "hardware");
      add_user_hardware(nested, extended.emplace(shipped_hardware()));
    }
    const model::HardwareCatalogue& catalogue = extended ? *extended : shipped_hardware();
    reader.require("model", "a map with name, hf, or the shape itself");
    if (const TreeNode* model = reader.find("model")) {
      MapReader nested(reader.context(), *model, "model");
      job.transformer = read_model(nested, folder_, remarks);
    }
    if (needs_cluster_) reader.require("cluster", "a map with nodes");
    if (const TreeNode* cluster = reader.find("cluster")) {
      MapReader nested(reader.context(), *cluster, "cluster");
      job.cluster = read_cluster(nested, catalogue, folder_, remarks);
    }
    job.software = read_software(reader, remarks);
    take_runnable_attention(job, remarks);
    job.plan = read_plan(reader, {job.transformer, job.cluster, job.software}, folder_, remarks);
    job.network = read_network(reader);
    remark_closed_forms(job, remarks);
    std::vector<DisturbanceAt> disturbances = read_disturbances(reader, job.cluster, folder_);
    fit_tokens(reader, job, disturbances);
    for (const DisturbanceAt& at : disturbances) job.disturbances.push_back(at.disturbance);
    check_imbalance(reader, job, disturbances, remarks);
    job.seed = static_cast<std::uint64_t>(reader.integer("seed", {.min = 0}).value_or(1));
    job.failures = read_failures(reader, job.cluster, remarks);
    job.facility = read_facility(reader);
    attach_profile(job, remarks);
    Remarks of_target;  // They do not bear on a step.
    const auto wish = read_target(reader, job, catalogue, folder_, of_target);
    if (wish && !target) {
      target = wish;
      target->assumptions = std::move(of_target.assumptions);
    }
    job.assumptions = std::move(remarks.assumptions);
    job.warnings = std::move(remarks.warnings);
    return job;
  }

  static void remark_closed_forms(const model::Job& job, Remarks& remarks) {
    const auto& groups = job.cluster.groups;
    const bool described =
        job.cluster.fabric.graph ||
        std::any_of(groups.begin(), groups.end(),
                    [](const model::NodeGroup& group) { return group.node.inside != nullptr; });
    if (!described || job.network != model::NetworkKind::Analytic) return;
    remarks.warnings.emplace_back(
        "The cluster's topology and from are laid out by network: maxmin or simgrid; analytic goes "
        "by the closed forms of the node type and by how many nodes hang on a leaf.");
  }

  static void fit_tokens(MapReader& scenario, const model::Job& job,
                         std::vector<DisturbanceAt>& disturbances) {
    int tables = 0;
    for (DisturbanceAt& at : disturbances) {
      model::Disturbance& d = at.disturbance;
      if (d.kind != model::DisturbanceKind::ExpertImbalance || d.tokens.empty()) continue;
      MapReader entry(scenario.context(), *at.map, at.path);
      if (++tables > 1) {
        entry.error_at(*entry.find("tokens"), "tokens", "is a second table of the same tokens",
                       "one table");
      } else if (job.transformer.experts) {
        fit_token_table(entry, job.plan, *job.transformer.experts, d);
      }
    }
  }

  // The busiest expert-parallel rank cannot have more tokens than routing can give it. What some
  // number of ranks can have is legal: those that cannot count what they can, so that plans which a
  // search compares under one imbalance are simulated under it as well.
  void check_imbalance(MapReader& scenario, const model::Job& job,
                       const std::vector<DisturbanceAt>& disturbances, Remarks& remarks) const {
    if (!job.transformer.experts || job.transformer.experts->experts_per_token < 1) return;
    const auto& experts = *job.transformer.experts;
    const auto ranks = static_cast<int>(experts.num_experts);
    const double most = model::expert_imbalance_max(experts, ranks);
    double all = job.plan.expert_capacity_imbalance;
    const auto refuse = [&](const TreeNode& map, const std::string& path, const char* key,
                            double own) {
      MapReader reader(scenario.context(), map, path);
      const TreeNode* node = reader.find(key);
      if (node == nullptr) return;
      const double allowed = most * own / all;
      reader.error_at(*node, key,
                      "no rank of " + std::to_string(ranks) +
                          " can have so many of the tokens where " +
                          std::to_string(experts.experts_per_token) + " of " +
                          std::to_string(experts.num_experts) + " experts take each",
                      allowed > 1 ? "1 to " + factor_text(allowed) : "1");
    };
    const TreeNode* plan = scenario.find("plan");
    if (plan != nullptr && all > most) {
      return refuse(*plan, "plan", "expert_capacity_imbalance", all);
    }
    for (const DisturbanceAt& at : disturbances) {
      const model::Disturbance& d = at.disturbance;
      if (d.kind != model::DisturbanceKind::ExpertImbalance) continue;
      all *= d.factor;
      if (all > most) refuse(*at.map, at.path, d.tokens.empty() ? "factor" : "tokens", d.factor);
    }
    const double counted = model::expert_imbalance_max(experts, job.plan.expert);
    if (plan_varies_ || all > most || all <= counted) return;
    remarks.warnings.push_back(
        "no rank of " + std::to_string(job.plan.expert) + " can have " + factor_text(all) +
        " times the mean of the tokens: with plan.expert " + std::to_string(job.plan.expert) +
        " an imbalance of " + factor_text(std::max(counted, 1.0)) + " is counted");
  }

  // Fused attention of today's frameworks needs Ampere; on older GPUs the same framework falls
  // back. In a mixed cluster the stages of each kind are priced by themselves, see StageJobs.
  static void take_runnable_attention(model::Job& job, Remarks& remarks) {
    const auto& groups = job.cluster.groups;
    const auto is_volta = [](const model::NodeGroup& group) {
      return group.gpu.architecture == model::GpuArchitecture::Volta;
    };
    const auto volta = std::find_if(groups.begin(), groups.end(), is_volta);
    if (volta == groups.end() || job.software.attention == model::AttentionKernel::Unfused) return;
    if (std::all_of(groups.begin(), groups.end(), is_volta)) {
      job.software.attention = model::AttentionKernel::Unfused;
    }
    remarks.assumptions.push_back(volta->gpu.name +
                                  " has no fused attention kernel of this kind (it needs Ampere): "
                                  "software.attention unfused is what runs and is priced.");
  }

  // What kernels reach on each kind of GPU; a sweep mostly asks for the same ones.
  void attach_profile(model::Job& job, Remarks& remarks) {
    if (job.cluster.groups.empty()) return;
    std::set<std::string> seen;
    for (const model::NodeGroup& group : job.cluster.groups) {
      const model::GpuProfile& profile = profile_of(group.gpu);
      if (seen.empty()) job.profile = profile;
      if (model::is_mixed(job.cluster)) job.group_profiles.push_back(profile);
      const auto derived = profile.sources.find("derived");
      if (!seen.insert(group.gpu.name).second || derived == profile.sources.end()) continue;
      remarks.assumptions.push_back("No kernel of " + group.gpu.name +
                                    " was measured: " + derived->second + ".");
    }
    if (!model::is_mixed(job.cluster)) return;
    remarks.assumptions.emplace_back(
        "Machines of different kinds hang on different leaf switches of one fabric.");
  }

  const model::GpuProfile& profile_of(const model::Gpu& gpu) {
    const auto found = profiles_.find(gpu.name);
    if (found != profiles_.end()) return found->second;
    model::Result<model::GpuProfile> profile = gpu_profile(gpu);
    MEGATWIN_ASSERT(profile.has_value(), gpu.name, ": ", to_text(profile.error()));
    profile->gpu_name = gpu.name;
    return profiles_.emplace(gpu.name, *std::move(profile)).first->second;
  }

  std::string file_;
  std::string folder_;
  bool needs_cluster_;
  bool plan_varies_;
  std::map<std::string, model::GpuProfile> profiles_;
};

// Every combination of the sweeps, the last one varying fastest.
model::Result<std::vector<Point>> sweep_points(Point base, const std::vector<std::string>& sweeps) {
  std::vector<Point> points;
  points.push_back(std::move(base));
  std::set<std::string> keys;
  for (const std::string& sweep : sweeps) {
    MEGATWIN_TRY(const std::vector<Setting> settings, parse_sweep(sweep));
    if (!settings.empty() && !keys.insert(settings.front().path).second) {
      return model::fail(model::Diagnostic{.file = "--sweep",
                                           .key = settings.front().path,
                                           .message = "is swept twice",
                                           .allowed = "all its values in one --sweep"});
    }
    if (points.size() * settings.size() > kSweepPointsMax) {
      return model::fail(model::Diagnostic{
          .file = "--sweep",
          .message = "the sweep has " + std::to_string(points.size() * settings.size()) + " points",
          .allowed = "at most " + std::to_string(kSweepPointsMax)});
    }
    std::vector<Point> next;
    for (const Point& point : points) {
      for (const Setting& setting : settings) {
        Point varied = point;
        model::Diagnostics problems = apply_setting(varied.document, "--sweep", setting);
        if (!problems.empty()) return model::fail(std::move(problems));
        varied.settings += " " + setting.path + "=" + setting.value;
        next.push_back(std::move(varied));
      }
    }
    points = std::move(next);
  }
  return points;
}

bool same(const model::Diagnostic& a, const model::Diagnostic& b) {
  return std::tie(a.file, a.line, a.column, a.key, a.message) ==
         std::tie(b.file, b.line, b.column, b.key, b.message);
}

// Each fault once, of some points: the same mistake of the file would be said again for every one.
// What not all of them have is due to a point's values, which are named where the fault does not.
model::Diagnostics faults_of_all(const std::vector<UnreadPoint>& unread) {
  constexpr std::size_t kPointsTold = 8;
  const auto told = std::span(unread).first(std::min(kPointsTold, unread.size()));
  const auto has = [](const UnreadPoint& point, const model::Diagnostic& fault) {
    return std::any_of(point.faults.begin(), point.faults.end(),
                       [&](const model::Diagnostic& its) { return same(its, fault); });
  };
  model::Diagnostics faults;
  for (auto point = told.begin(); point != told.end(); ++point) {
    for (model::Diagnostic fault : point->faults) {
      const auto is_there = [&](const UnreadPoint& other) { return has(other, fault); };
      if (std::any_of(told.begin(), point, is_there)) continue;
      const bool is_common = std::all_of(told.begin(), told.end(), is_there);
      if (!is_common && fault.file != "--sweep") fault.message += " (with " + point->settings + ")";
      faults.push_back(std::move(fault));
    }
  }
  return faults;
}

}  // namespace

model::Result<Scenario> parse_scenario(const std::string& file, std::string_view text,
                                       const ScenarioOptions& options) {
  MEGATWIN_TRY(Document document, scenario_document(file, text, options));
  if (document.root.kind == TreeKind::Null) {
    return model::fail(model::Diagnostic{
        .file = file, .message = "is empty", .allowed = "a scenario: model, cluster and plan"});
  }
  MEGATWIN_TRY(const std::vector<Point> points,
               sweep_points({"", std::move(document)}, options.sweep));
  ScenarioReader reader(file, options);
  Scenario scenario;
  for (std::size_t i = 0; i < points.size(); ++i) reader.read(points[i], i, scenario);
  if (scenario.jobs.empty()) return model::fail(faults_of_all(scenario.unread));
  return scenario;
}

model::Result<Scenario> load_scenario_file(const std::string& path,
                                           const ScenarioOptions& options) {
  MEGATWIN_TRY(const std::string text, read_file(path));
  return parse_scenario(path, text, options);
}

model::Result<std::vector<model::Job>> load_scenario(const std::string& path,
                                                     const ScenarioOptions& options) {
  MEGATWIN_TRY(Scenario scenario, load_scenario_file(path, options));
  if (!scenario.unread.empty()) return model::fail(std::move(scenario.unread.front().faults));
  return std::move(scenario.jobs);
}

}  // namespace megatwin::scenarios
