// The YAML subset that profiles use: nested maps by indentation, one "key: value" a line, comments
// after '#', no lists, no quotes, no anchors. Read here by hand because a profile is read at every
// start and a full parser costs more than everything else the program does before its answer.
#include "scenarios/gpu_profile_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace megatwin::scenarios {
namespace {

using model::Diagnostic;
using model::Diagnostics;
using model::GpuProfile;

enum class Dimension { Number, Seconds, Bytes, FlopPerSecond, BytesPerSecond, Watts };

struct Unit {
  std::string_view text;
  Dimension dimension;
  double factor;
};
constexpr std::array<Unit, 12> kUnits{{{"", Dimension::Number, 1},
                                       {"us", Dimension::Seconds, 1e-6},
                                       {"ms", Dimension::Seconds, 1e-3},
                                       {"s", Dimension::Seconds, 1},
                                       {"B", Dimension::Bytes, 1},
                                       {"KiB", Dimension::Bytes, 1024},
                                       {"MiB", Dimension::Bytes, 1024.0 * 1024},
                                       {"TFLOP/s", Dimension::FlopPerSecond, 1e12},
                                       {"GB/s", Dimension::BytesPerSecond, 1e9},
                                       {"TB/s", Dimension::BytesPerSecond, 1e12},
                                       {"W", Dimension::Watts, 1},
                                       {"kW", Dimension::Watts, 1000}}};

std::string units_of(Dimension dimension) {
  std::string text;
  for (const Unit& unit : kUnits) {
    if (unit.dimension != dimension) continue;
    if (!text.empty()) text += ", ";
    text +=
        unit.text.empty() ? "a number without a unit" : "a number with " + std::string(unit.text);
  }
  return text;
}

struct Field {
  Dimension dimension;
  double* value;
};
using Fields = std::map<std::string, Field, std::less<>>;

void bind_gemm(Fields& fields, const std::string& prefix, model::GemmRate& rate) {
  const auto number = [&](const char* name, double& value) {
    fields[prefix + name] = {Dimension::Number, &value};
  };
  fields[prefix + "sustained"] = {Dimension::FlopPerSecond, &rate.sustained.value};
  fields[prefix + "split_cost"] = {Dimension::Seconds, &rate.split_cost.value};
  fields[prefix + "ramp"] = {Dimension::Seconds, &rate.ramp.value};
  fields[prefix + "grouped_cost"] = {Dimension::Seconds, &rate.grouped_cost.value};
  number("depth_overhead", rate.depth_overhead);
  number("wave_share", rate.wave_share);
  number("half_tile_efficiency", rate.half_tile_efficiency);
  number("quarter_tile_efficiency", rate.quarter_tile_efficiency);
  number("eighth_tile_efficiency", rate.eighth_tile_efficiency);
  number("stream_factor", rate.stream_factor);
  number("data_gradient_factor", rate.data_gradient_factor);
  number("weight_gradient_factor", rate.weight_gradient_factor);
  number("accumulate_factor", rate.accumulate_factor);
  number("grouped_factor", rate.grouped_factor);
  number("weight_blocks_factor", rate.weight_blocks_factor);
  number("row_blocks_factor", rate.row_blocks_factor);
}

void bind_attention(Fields& fields, const std::string& prefix, model::AttentionRate& rate) {
  const auto number = [&](const char* name, double& value) {
    fields[prefix + name] = {Dimension::Number, &value};
  };
  fields[prefix + "forward"] = {Dimension::FlopPerSecond, &rate.forward.value};
  fields[prefix + "backward"] = {Dimension::FlopPerSecond, &rate.backward.value};
  fields[prefix + "forward_ramp"] = {Dimension::Seconds, &rate.forward_ramp.value};
  fields[prefix + "backward_ramp"] = {Dimension::Seconds, &rate.backward_ramp.value};
  number("forward_half_length", rate.forward_half_length);
  number("backward_half_length", rate.backward_half_length);
  number("causal_half_factor", rate.causal_half_factor);
  number("head_dim_64_factor", rate.head_dim_64_factor);
  number("head_dim_96_factor", rate.head_dim_96_factor);
  number("head_dim_192_factor", rate.head_dim_192_factor);
  number("head_dim_256_factor", rate.head_dim_256_factor);
  number("backward_64_factor", rate.backward_64_factor);
  number("backward_96_factor", rate.backward_96_factor);
  number("backward_192_factor", rate.backward_192_factor);
  number("backward_256_factor", rate.backward_256_factor);
  number("backward_causal_factor", rate.backward_causal_factor);
  number("padding_factor", rate.padding_factor);
  number("query_tile", rate.query_tile);
  number("backward_tile", rate.backward_tile);
  number("wave_share", rate.wave_share);
  number("backward_wave_share", rate.backward_wave_share);
}

void bind_ramp(Fields& fields, const std::string& prefix, model::BandwidthRamp& ramp) {
  fields[prefix + "efficiency"] = {Dimension::Number, &ramp.efficiency};
  fields[prefix + "half_size"] = {Dimension::Bytes, &ramp.half_size.value};
  fields[prefix + "exponent"] = {Dimension::Number, &ramp.exponent};
}

constexpr std::array<std::pair<std::string_view, model::DataType>, 6> kTypes{
    {{"fp32", model::DataType::Fp32},
     {"tf32", model::DataType::Tf32},
     {"fp16", model::DataType::Fp16},
     {"bf16", model::DataType::Bf16},
     {"fp8", model::DataType::Fp8},
     {"fp4", model::DataType::Fp4}}};
constexpr std::array<std::pair<std::string_view, model::AttentionKernel>, 3> kKernels{
    {{"flash_attention_2", model::AttentionKernel::FlashAttention2},
     {"flash_triton", model::AttentionKernel::FlashTriton},
     {"cudnn", model::AttentionKernel::Cudnn}}};
constexpr std::array<std::pair<std::string_view, model::CollectiveKind>, 6> kCollectives{
    {{"all_reduce", model::CollectiveKind::AllReduce},
     {"all_gather", model::CollectiveKind::AllGather},
     {"reduce_scatter", model::CollectiveKind::ReduceScatter},
     {"all_to_all", model::CollectiveKind::AllToAll},
     {"broadcast", model::CollectiveKind::Broadcast},
     {"send_receive", model::CollectiveKind::SendReceive}}};

// Every key of the format and where its value goes. Rates of formats and kernels are created.
Fields bind(GpuProfile& profile) {
  Fields fields;
  const auto set = [&](const char* key, Dimension dimension, double& value) {
    fields[key] = {dimension, &value};
  };
  model::MeasuredPart& part = profile.measured_on;
  set("measured_on.num_sms", Dimension::Number, part.num_sms);
  set("measured_on.peak_half", Dimension::FlopPerSecond, part.peak_half.value);
  set("measured_on.peak_fp8", Dimension::FlopPerSecond, part.peak_fp8.value);
  set("measured_on.peak_fp4", Dimension::FlopPerSecond, part.peak_fp4.value);
  set("measured_on.memory_bandwidth", Dimension::BytesPerSecond, part.memory_bandwidth.value);
  set("measured_on.power_max", Dimension::Watts, part.power_max.value);
  set("memory.stream", Dimension::BytesPerSecond, profile.memory.stream.value);
  set("memory.ramp", Dimension::Seconds, profile.memory.ramp.value);
  set("memory.fused_share", Dimension::Number, profile.memory.fused_share);
  set("long_run_share", Dimension::Number, profile.long_run_share);
  set("kernel_gap", Dimension::Seconds, profile.kernel_gap.value);
  set("host_launch", Dimension::Seconds, profile.host_launch.value);
  set("silicon_spread", Dimension::Number, profile.silicon_spread);
  set("gemm_in_step", Dimension::Number, profile.gemm_in_step);
  set("attention_in_step", Dimension::Number, profile.attention_in_step);
  set("adam_per_parameter", Dimension::Seconds, profile.adam_per_parameter.value);
  set("accumulate_hidden_depth", Dimension::Number, profile.accumulate_hidden_depth);
  set("unaligned_factor", Dimension::Number, profile.unaligned_factor);
  set("odd_factor", Dimension::Number, profile.odd_factor);
  set("communication_sm_slowdown", Dimension::Number, profile.communication_sm_slowdown);
  set("nic_efficiency", Dimension::Number, profile.nic_efficiency);
  model::EagerFloor& eager = profile.eager;
  set("eager.element_wise", Dimension::Seconds, eager.element_wise.value);
  set("eager.gemm", Dimension::Seconds, eager.gemm.value);
  set("eager.grouped_gemm", Dimension::Seconds, eager.grouped_gemm.value);
  set("eager.gemm_fp8", Dimension::Seconds, eager.gemm_fp8.value);
  set("eager.one_way_send", Dimension::Seconds, eager.one_way_send.value);
  set("eager.split_factor", Dimension::Number, eager.split_factor);
  set("eager.norm_ramp", Dimension::Seconds, eager.norm_ramp.value);
  set("eager.gelu_share", Dimension::Number, eager.gelu_share);
  set("eager.layer_norm_share", Dimension::Number, eager.layer_norm_share);
  set("eager.rms_norm_share", Dimension::Number, eager.rms_norm_share);
  set("eager.attention_forward", Dimension::Seconds, eager.attention_forward.value);
  set("eager.attention_backward", Dimension::Seconds, eager.attention_backward.value);
  for (const auto& [name, kind] : kCollectives) {
    fields["eager.collective." + std::string(name)] = {Dimension::Seconds,
                                                       &eager.collective[kind].value};
  }
  for (const auto& [name, type] : kTypes) {
    bind_gemm(fields, "gemm." + std::string(name) + ".", profile.gemm[type]);
  }
  for (const auto& [name, kernel] : kKernels) {
    bind_attention(fields, "attention." + std::string(name) + ".", profile.attention[kernel]);
  }
  bind_ramp(fields, "nvlink.ring.", profile.nvlink_ring);
  bind_ramp(fields, "nvlink.multicast.", profile.nvlink_nvls);
  bind_ramp(fields, "nvlink.gather.", profile.nvlink_gather);
  bind_ramp(fields, "nvlink.all_to_all.", profile.nvlink_all_to_all);
  bind_ramp(fields, "nvlink.send.", profile.nvlink_send);
  return fields;
}

// Formats, kernels and floors that the file did not name are taken out again.
void drop_empty(GpuProfile& profile) {
  std::erase_if(profile.gemm, [](const auto& entry) { return entry.second.sustained.value <= 0; });
  std::erase_if(profile.attention,
                [](const auto& entry) { return entry.second.forward.value <= 0; });
  std::erase_if(profile.eager.collective,
                [](const auto& entry) { return entry.second.value <= 0; });
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

// The next line of `text`, without its end; `text` is moved past it.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// Digits with at most one point, up to 15 of them: mantissa over a power of ten, both exact, is the
// nearest double. libstdc++'s from_chars for doubles is ten times slower, and tables are long.
std::optional<double> short_decimal(std::string_view text) {
  constexpr std::array<double, 16> kPowers{1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                           1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  if (text.empty() || text.size() > 16) return std::nullopt;
  std::int64_t mantissa = 0;
  std::size_t digits = 0, decimals = 0;
  bool point = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      mantissa = 10 * mantissa + (c - '0');
      ++digits;
      decimals += point ? 1 : 0;
    } else {
      return std::nullopt;
    }
  }
  if (digits == 0 || digits > 15) return std::nullopt;
  return static_cast<double>(mantissa) / kPowers[decimals];
}

std::optional<double> number_of(std::string_view text) {
  if (const std::optional<double> value = short_decimal(text)) return value;
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// "735 TFLOP/s" in the field's dimension.
std::optional<double> quantity_of(std::string_view text, Dimension dimension) {
  const std::size_t space = text.find(' ');
  const std::optional<double> number = number_of(text.substr(0, space));
  const std::string_view unit_text =
      space == std::string_view::npos ? std::string_view{} : trim(text.substr(space));
  if (!number) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (unit.dimension == dimension && unit.text == unit_text) return *number * unit.factor;
  }
  return std::nullopt;
}

// One line of a profile, with its place.
struct Line {
  std::string_view file, text, key, value;
  int number = 0;
  std::size_t indent = 0;
};

Diagnostic complaint(const Line& line, std::string key, std::string message, std::string allowed) {
  return {.file = std::string(line.file),
          .line = line.number,
          .column = static_cast<int>(line.indent) + 1,
          .length = static_cast<int>(line.key.size()),
          .key = std::move(key),
          .message = std::move(message),
          .allowed = std::move(allowed),
          .source_line = std::string(line.text)};
}

void set_field(const Line& line, const std::string& key, const Fields& fields, GpuProfile& profile,
               Diagnostics& diagnostics) {
  if (key == "gpu") {
    profile.gpu_name = std::string(line.value);
    return;
  }
  constexpr std::string_view kSources = "sources.";
  if (key.starts_with(kSources)) {
    profile.sources[key.substr(kSources.size())] = std::string(line.value);
    return;
  }
  const auto field = fields.find(key);
  if (field == fields.end()) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : fields) names.push_back(name);
    const std::string nearest = model::nearest_word(key, names);
    diagnostics.push_back(
        complaint(line, key, "unknown key",
                  nearest.empty() ? "keys of docs/constants.md" : "such as '" + nearest + "'"));
    return;
  }
  const std::optional<double> value = quantity_of(line.value, field->second.dimension);
  if (!value) {
    diagnostics.push_back(complaint(line, key, "cannot read '" + std::string(line.value) + "'",
                                    units_of(field->second.dimension)));
    return;
  }
  *field->second.value = *value;
}

// Cells of one CSV line; no quotes. More than the array holds are counted, not kept.
struct CsvLine {
  std::array<std::string_view, 8> cells;
  std::size_t size = 0;
};

CsvLine cells_of(std::string_view line) {
  CsvLine row;
  for (;;) {
    const std::size_t comma = line.find(',');
    if (row.size < row.cells.size()) row.cells[row.size] = trim(line.substr(0, comma));
    ++row.size;
    if (comma == std::string_view::npos) return row;
    line.remove_prefix(comma + 1);
  }
}

// Calls `take(cells, numbers)` for every data row whose cells, after `num_words` words, are
// numbers.
template <class Take>
Diagnostics read_table(std::string_view text, const std::string& file, std::size_t num_words,
                       std::size_t num_numbers, const Take& take) {
  Diagnostics diagnostics;
  int number = 0;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    ++number;
    if (number == 1 || trim(line).empty() || line.front() == '#') continue;
    const CsvLine row = cells_of(line);
    std::array<double, 8> numbers{};
    bool good = row.size == num_words + num_numbers;
    for (std::size_t i = 0; good && i < num_numbers; ++i) {
      const std::optional<double> value = number_of(row.cells[num_words + i]);
      good = value.has_value() && *value > 0;
      if (good) numbers[i] = *value;
    }
    if (!good || !take(row.cells, numbers)) {
      diagnostics.push_back({.file = file,
                             .line = number,
                             .column = 1,
                             .message = "not a row of this table",
                             .allowed = std::to_string(num_words) + " words and " +
                                        std::to_string(num_numbers) + " numbers",
                             .source_line = std::string(line)});
    }
  }
  return diagnostics;
}

std::int64_t whole(double value) { return std::llround(value); }

}  // namespace

model::Result<GpuProfile> parse_gpu_profile(std::string_view text, const std::string& file) {
  GpuProfile profile;
  const Fields fields = bind(profile);
  Diagnostics diagnostics;
  std::vector<std::pair<std::size_t, std::string>> parents;  // Indentation and dotted path.
  int number = 0;
  while (!text.empty()) {
    Line line{.file = file, .text = next_line(text), .number = ++number};
    std::string_view body = line.text;
    if (const std::size_t comment = body.find('#'); comment != std::string_view::npos) {
      body = body.substr(0, comment);
    }
    if (trim(body).empty()) continue;
    line.indent = body.find_first_not_of(' ');
    const std::size_t colon = body.find(':');
    if (colon == std::string_view::npos) {
      line.key = trim(body);
      diagnostics.push_back(complaint(line, "", "not a 'key: value' line", "key: value"));
      continue;
    }
    line.key = trim(body.substr(0, colon));
    line.value = trim(body.substr(colon + 1));
    while (!parents.empty() && parents.back().first >= line.indent) parents.pop_back();
    const std::string key =
        (parents.empty() ? "" : parents.back().second + ".") + std::string(line.key);
    if (line.value.empty()) {
      parents.emplace_back(line.indent, key);
    } else {
      set_field(line, key, fields, profile, diagnostics);
    }
  }
  if (!diagnostics.empty()) return model::fail(std::move(diagnostics));
  drop_empty(profile);
  return profile;
}

Diagnostics parse_measured_gemms(std::string_view text, const std::string& file,
                                 std::vector<model::MeasuredGemm>& rows) {
  return read_table(text, file, 2, 4, [&](const auto& cells, const auto& numbers) {
    model::MeasuredGemm row;
    const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const auto& entry) { return entry.first == cells[1]; });
    if (type == kTypes.end()) return false;
    if (cells[0] == "NN") {
      row.shape.layout = model::GemmLayout::DataGradient;
    } else if (cells[0] == "NT") {
      row.shape.layout = model::GemmLayout::WeightGradient;
    } else if (cells[0] != "TN") {
      return false;
    }
    row.shape.type = type->second;
    row.shape.m = whole(numbers[0]);
    row.shape.n = whole(numbers[1]);
    row.shape.k = whole(numbers[2]);
    row.time = {numbers[3] * 1e-6};
    rows.push_back(row);
    return true;
  });
}

Diagnostics parse_measured_attentions(std::string_view text, const std::string& file,
                                      std::vector<model::MeasuredAttention>& rows) {
  return read_table(text, file, 1, 7, [&](const auto& cells, const auto& numbers) {
    if (cells[0] != "causal" && cells[0] != "full") return false;
    model::MeasuredAttention row;
    row.shape.causal = cells[0] == "causal";
    row.shape.batch = whole(numbers[0]);
    row.shape.heads = whole(numbers[1]);
    row.shape.key_value_heads = whole(numbers[2]);
    row.shape.query_length = row.shape.key_length = whole(numbers[3]);
    row.shape.qk_dim = row.shape.v_dim = whole(numbers[4]);
    row.forward = {numbers[5] * 1e-6};
    row.backward = {numbers[6] * 1e-6};
    rows.push_back(row);
    return true;
  });
}

}  // namespace megatwin::scenarios
