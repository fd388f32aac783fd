#include "sim/disturbed_job.h"

#include <algorithm>
#include <utility>

#include "model/numbers.h"

namespace megatwin::sim {
namespace {

using model::Disturbance;
using model::Job;

bool goes_with_tokens(const Disturbance& d) {
  return d.kind == model::DisturbanceKind::ExpertImbalance;
}

}  // namespace

Job undisturbed(Job job) {
  job.disturbances.clear();
  return job;
}

Job on_sound_cluster(Job job) {
  std::erase_if(job.disturbances, [](const Disturbance& d) { return !goes_with_tokens(d); });
  return job;
}

bool has_sound_cluster(const Job& job) {
  return std::all_of(job.disturbances.begin(), job.disturbances.end(), goes_with_tokens);
}

double expert_imbalance(const Job& job) {
  double imbalance = job.plan.expert_capacity_imbalance;
  for (const Disturbance& d : job.disturbances) {
    if (goes_with_tokens(d)) imbalance *= d.factor;
  }
  return imbalance;
}

Job with_imbalance(Job job) {
  job.plan.expert_capacity_imbalance = expert_imbalance(job);
  return job;
}

bool fits_token_tables(const Job& job) {
  return std::all_of(job.disturbances.begin(), job.disturbances.end(), [&](const Disturbance& d) {
    return d.tokens.empty() || d.tokens.size() == model::as_index(job.plan.expert);
  });
}

std::string struck_text(const Job& job) {
  std::string text;
  for (const Disturbance& d : job.disturbances) {
    if (!goes_with_tokens(d)) text += (text.empty() ? "" : ", ") + to_text(d);
  }
  return text;
}

}  // namespace megatwin::sim
