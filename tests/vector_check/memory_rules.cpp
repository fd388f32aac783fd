#include <cmath>

#include "model/activation_memory.h"
#include "model/collective_cost.h"
#include "model/pipeline_closed_forms.h"
#include "model/state_memory.h"
#include "tests/vector_check/rules.h"

namespace megatwin::vector_check {
namespace {

using model::ActivationSetting;
using model::Bytes;
using model::RecomputeKind;
using model::StateScheme;

model::GptLayerShape shape_from(const Inputs& in) {
  return {.sequence = in.need({"s"}),
          .micro_batch = in.get({"b"}, 1),
          .hidden = in.need({"h"}),
          .heads = in.get({"a", "nh"}, 0)};
}

// Whether sequence-parallel and what is recomputed, from the quantity's words.
ActivationSetting setting_from(const Row& row) {
  ActivationSetting setting{.tensor = row.inputs.get({"t"}, 1)};
  setting.sequence_parallel =
      row.says("_sp") || row.says("eq4") || row.says("eq6") || row.says("sequence");
  if (row.says("selective") || row.says("eq6")) setting.recompute = RecomputeKind::Selective;
  if (row.says("full")) setting.recompute = RecomputeKind::Full;
  if (setting.recompute == RecomputeKind::None) row.inputs.need({"a", "nh"});
  return setting;
}

double layer_activations(const Row& row) {
  return row.in_unit(model::gpt_layer_activations(shape_from(row.inputs), setting_from(row)));
}

double total_activations(const Row& row) {
  const Inputs& in = row.inputs;
  const Bytes layer = model::gpt_layer_activations(shape_from(in), setting_from(row));
  return row.in_unit(model::first_stage_activations(layer, in.need({"L", "l"}), in.get({"p"}, 1),
                                                    in.get({"v"}, 1)));
}

double layer_part(const Row& row) {
  const auto parts = model::gpt_layer_parts(shape_from(row.inputs));
  if (row.says("mlp")) return row.in_unit(parts.feed_forward);
  if (row.says("norm") || row.says("ln")) return row.in_unit(parts.norms);
  row.inputs.need({"a", "nh"});
  return row.in_unit(parts.attention);
}

// Percent in the vectors, whatever the unit column says.
double full_recompute_percent(const Row& row) {
  return 100 * model::full_recompute_fraction(shape_from([&] {
                                                Inputs in = row.inputs;
                                                in.values["b"].number = 1;
                                                return in;
                                              }()),
                                              row.inputs.need({"t"}));
}

double extra_activation(const Row& row) {
  const Inputs& in = row.inputs;
  const auto extra = model::extra_activations(shape_from(in), in.get({"t"}, 1), in.get({"p"}, 1),
                                              in.get({"V", "v"}, 0));
  if (row.says("logit")) return row.in_unit(extra.logits);
  if (row.says("dropout") || row.says("embedding")) return row.in_unit(extra.embedding_dropout);
  if (row.says("norm")) return row.in_unit(extra.final_norm);
  return row.in_unit(extra.head_input);
}

double modern_layer(const Row& row) {
  const Inputs& in = row.inputs;
  const model::ModernLayerShape shape{.sequence = in.need({"s"}),
                                      .micro_batch = in.get({"b"}, 1),
                                      .hidden = in.need({"h"}),
                                      .ffn = in.need({"f"}),
                                      .heads = in.get({"nh", "a", "n_q"}, 1),
                                      .key_value_heads = in.get({"nkv", "n_kv"}, 1),
                                      .tensor = in.get({"t"}, 1),
                                      .context = in.get({"c"}, 1),
                                      .recompute_activation = row.says("swiglu_recompute"),
                                      .recompute_norms = row.says("norm_recompute")};
  return row.in_unit(row.says("megatron") || row.says("estimate")
                         ? model::megatron_estimate_layer_activations(shape)
                         : model::modern_layer_activations(shape));
}

StateScheme scheme_from(const Row& row) {
  const std::string kind = row.quantity + " " + row.inputs.text("dtype") + " " +
                           row.inputs.text("scheme") + " " + row.inputs.text("precision");
  const auto says = [&](const char* word) { return kind.find(word) != std::string::npos; };
  if (says("zero") || says("mixed")) return StateScheme::ZeroMixed;
  if (says("fp16")) return StateScheme::MegatronFp16;
  if (says("fp32_grad") || says("bf16") || says("megatron")) return StateScheme::MegatronBf16;
  if (says("fp32")) return StateScheme::Fp32;
  return says("dist") ? StateScheme::MegatronBf16 : StateScheme::ZeroMixed;
}

double state_size(const Row& row) {
  const Inputs& in = row.inputs;
  const double shards = in.get({"d", "dp", "N", "d_p", "n"}, 1);
  const bool distributed = row.says("dist") || in.text("scheme").find("dist") == 0 ||
                           in.get({"distributed", "dist_opt"}, 0) != 0 || shards > 1;
  const int stage = static_cast<int>(in.get({"stage", "zero"}, distributed ? 1 : 0));
  return row.in_unit(model::state_bytes_per_parameter(scheme_from(row), stage, shards).total());
}

double zero_state(const Row& row) {
  const Inputs& in = row.inputs;
  const double parameters =
      in.has({"P_billion"}) ? 1e9 * in.need({"P_billion"}) : in.need({"P", "params", "Psi"});
  const auto bytes = model::state_bytes_per_parameter(StateScheme::ZeroMixed,
                                                      in.need_int({"stage"}), in.need({"N"}));
  return row.in_unit(parameters * bytes.total());
}

// Layer matrices of a GPT over t·p, in Megatron's bf16 scheme.
double model_state(const Row& row) {
  const Inputs& in = row.inputs;
  const double h = in.need({"h"});
  const double parameters = 12 * in.need({"L", "l"}) * h * h;
  const auto bytes = model::state_bytes_per_parameter(StateScheme::MegatronBf16, 0, 1);
  return row.in_unit(parameters / (in.get({"t"}, 1) * in.get({"p"}, 1)) * bytes.total());
}

double nccl_buffer(const Row& row) {
  const Inputs& in = row.inputs;
  if (row.says("ll128")) {
    return row.in_unit(model::nccl_low_latency_128_buffer(
        {in.get({"elems_per_thread", "elements_per_thread"}, 120),
         in.get({"threads", "max_threads", "nthreads"}, 640),
         in.get({"steps"}, 8),
         {in.get({"elem_bytes", "element_bytes", "bytes", "size"}, 8)}}));
  }
  if (row.says("simple"))
    return row.in_unit(in.has({"bytes"}) ? Bytes{in.need({"bytes"})} : model::nccl_simple_buffer());
  return row.in_unit(model::nccl_low_latency_buffer({in.get({"lines_per_thread"}, 8),
                                                     in.get({"threads"}, 512),
                                                     in.get({"steps"}, 8),
                                                     {in.get({"line_bytes"}, 16)}}));
}

double nccl_buffer_total(const Row& row) {
  const Inputs& in = row.inputs;
  model::NcclBuffers buffers;
  buffers.low_latency = {in.get({"LL"}, buffers.low_latency.value)};
  buffers.low_latency_128 = {in.get({"LL128"}, buffers.low_latency_128.value)};
  buffers.simple = {in.get({"Simple"}, buffers.simple.value)};
  return row.in_unit(in.get({"channels"}, 1) * in.get({"peers"}, 1) * buffers.total());
}

}  // namespace

Rules memory_rules() {
  return {
      {"nccl buffer total|per_connection", nccl_buffer_total},
      {"nccl buffer", nccl_buffer},
      {"zero state|gb|bytes", zero_state},
      {"model_state", model_state},
      {"bytes|optimizer|state param|per_param|optimizer", state_size},
      {"activation full_recompute pct|percent", full_recompute_percent},
      {"activation total|stage0", total_activations},
      {"activation modern|swiglu|llama|megatron_estimate|estimate", modern_layer},
      {"activation attention|mlp|norm", layer_part},
      {"activation extra|logit|dropout|output", extra_activation},
      {"logits|embedding_dropout|output_tensor|head_input memory|bytes|act", extra_activation},
      {"activation eq5", total_activations},
      {"activation", layer_activations},
      {"interleaved memory|activation|factor",
       [](const Row& row) {
         return model::interleaved_memory_factor(row.inputs.need({"p"}), row.inputs.need({"v"}));
       }},
      {"checkpoints optimal",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         const double intermediate = in.has({"A_int_over_A_in"})
                                         ? in.need({"A_int_over_A_in"})
                                         : in.need({"A_int"}) / in.need({"A_in"});
         return model::optimal_checkpoints(in.need({"l", "L"}), intermediate);
       }},
  };
}

}  // namespace megatwin::vector_check
