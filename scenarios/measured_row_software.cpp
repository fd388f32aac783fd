// The software stack of a measured row, and how its cells are read.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>

#include "scenarios/measured_row_parts.h"

namespace megatwin::scenarios {

using model::Diagnostics;
using model::Framework;
using model::Job;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void problem(const MeasuredRow& row, const std::string& column, const std::string& message,
             Diagnostics& problems) {
  problems.push_back({.line = row.line, .key = row.id() + "." + column, .message = message});
}

std::int64_t leading_number(const std::string& text, std::size_t& at) {
  std::int64_t value = 0;
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) &&
         value < kSizeMax) {
    value = 10 * value + (text[at++] - '0');
  }
  ++at;
  return value;
}

namespace {

// What a framework does from a release on, when the row states its release.
void apply_version(const MeasuredRow& row, Job& job) {
  const std::string version = row.framework_version();
  if (version.empty()) return;
  // torchtitan compiles the loss as well since 2025.
  if (job.software.framework == Framework::Fsdp2 && !is_older(version, "2025") &&
      contains(lower(row.text("overlap")), "compile")) {
    job.software.fused_cross_entropy = true;
  }
  // Megatron-Core hides expert traffic behind another micro-batch from NeMo's container 26.06 on,
  // in its Blackwell recipes.
  const bool blackwell = contains(row.text("gpu"), "B200") || contains(row.text("gpu"), "B300");
  if (job.software.framework == Framework::MegatronCore && blackwell &&
      !is_older(version, "26.06")) {
    job.software.overlap_expert_parallel = true;
    if (!row.text("moe").empty()) {
      job.assumptions.push_back("expert all-to-all overlapped, as in release " + version);
    }
  }
  if (row.text("framework_version").empty()) {
    job.assumptions.push_back("framework release " + version + " taken from the row's title");
  }
}

}  // namespace

bool is_older(const std::string& version, const std::string& than) {
  std::size_t a = 0, b = 0;
  while (b < than.size()) {
    const std::int64_t left = leading_number(version, a), right = leading_number(than, b);
    if (left != right) return left < right;
  }
  return false;
}

void fill_software(const MeasuredRow& row, Job& job, Diagnostics& problems) {
  const auto framework = model::framework_from_name(row.text("framework"));
  if (!framework) {
    problem(row, "framework", "unknown software stack '" + row.text("framework") + "'", problems);
    return;
  }
  job.software = model::software_stack(*framework);
  const std::string overlap = lower(row.text("overlap")), notes = lower(row.text("notes"));
  // torch_train.py compiles blocks only, not the loss, in these two modes.
  if (*framework == Framework::PytorchCompile && (overlap == "fsdp" || overlap == "tp")) {
    job.software.fused_cross_entropy = false;
  }
  apply_version(row, job);
  // torchtitan's asynchronous tensor parallelism refuses to run without torch.compile.
  // Source: its parallelisms/parallelize_llama.py.
  const bool compiled = contains(overlap, "compile") || contains(notes, "compile") ||
                        contains(overlap, "asynctp") || contains(overlap, "async tp");
  if (*framework == Framework::Fsdp2 && compiled) {
    job.software.fusion = model::ElementwiseFusion::FullyFused;
  }
}

}  // namespace megatwin::scenarios
