#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "scenarios/gpu_profile_reader.h"
#include "scenarios/hardware_catalogue.h"
#include "sim/simulate.h"
#include "sim/validate.h"
using namespace megatwin;
int main(int argc, char** argv) {
  auto rows = scenarios::read_measured_rows(argv[1]);
  if (!rows) {
    std::fputs(model::to_text(rows.error()).c_str(), stderr);
    return 2;
  }
  auto cat = scenarios::load_hardware_catalogue();
  sim::ValidateOptions o;
  o.apart = {"NEMOLS", "MEG20", "BSV100"};
  std::set<std::string> without;
  std::string show;
  for (int i = 2; i < argc; ++i) {
    if (!strncmp(argv[i], "-w", 2))
      without.insert(argv[i] + 2);
    else
      show = argv[i];
  }
  o.effects = *sim::effects_without(without);
  auto v = sim::validate_steps(*rows, cat, o);
  for (auto& g : v.groups)
    std::printf("%-9s %3d/%3d med %5.1f p90 %5.1f worst %+6.1f bias %+5.1f rho %.2f%s\n",
                g.group.c_str(), g.scored, g.rows, 100 * g.median_abs_error, 100 * g.p90_abs_error,
                100 * g.worst, 100 * g.bias, g.rank_correlation, g.apart ? " apart" : "");
  std::printf("MEAN %.2f coverage %.3f  memory n=%d med %.1f p90 %.1f bias %+.1f\n",
              100 * v.mean_of_group_medians, v.coverage_fraction, v.memory.scored,
              100 * v.memory.median_abs_error, 100 * v.memory.p90_abs_error, 100 * v.memory.bias);
  for (auto& [r, n] : v.coverage_reasons) std::printf("  %d: %s\n", n, r.c_str());
  if (!show.empty())
    for (size_t i = 0; i < v.rows.size(); ++i) {
      auto& r = v.rows[i];
      if (r.id.rfind(show, 0) != 0) continue;
      auto j = scenarios::job_of((*rows)[i], cat);
      std::printf("%-11s %9.4f %9.4f %+6.1f%% ", r.id.c_str(), r.predicted ? r.predicted->value : 0,
                  r.measured ? r.measured->value : 0, r.error ? 100 * *r.error : 0);
      if (j) {
        auto p = scenarios::gpu_profile(j->cluster.groups[0].gpu);
        j->profile = *p;
        auto a = sim::simulate(*j, {.effects = o.effects, .sensitivities = false});
        const sim::SimulationReport* rep = std::get_if<sim::SimulationReport>(&a);
        if (!rep) {
          auto& x = std::get<sim::PlanRefusal>(a);
          if (x.report)
            rep = &*x.report;
          else
            std::printf("REFUSED %s", x.reasons[0].c_str());
        }
        if (rep) {
          auto& b = rep->breakdown;
          double t = rep->step_time.value;
          std::printf(
              "| c%4.1f tp%4.1f pp%4.1f dp%4.1f ep%4.1f cp%4.1f bub%4.1f opt%4.1f oth%4.1f |",
              100 * b.compute.value / t, 100 * b.exposed_tp.value / t, 100 * b.exposed_pp.value / t,
              100 * b.exposed_dp.value / t, 100 * b.exposed_ep.value / t,
              100 * b.exposed_cp.value / t, 100 * b.bubble.value / t, 100 * b.optimizer.value / t,
              100 * b.other.value / t);
          for (auto& s : rep->compute_shares)
            std::printf(" %.3s %4.1f", s.name.c_str(), 100 * s.time.value / t);
          std::printf(" | mem %.1f/%.1f meas %.1f %s", rep->memory_allocated.value / 1e9,
                      rep->memory_limit.value / 1e9,
                      r.measured_memory ? r.measured_memory->value / 1e9 : 0,
                      rep->fits ? "" : "UNFIT");
        }
      }
      auto& R = (*rows)[i];
      std::printf(" | %s %s x%s t%s p%s v%s c%s e%s d%s mb%s gb%s %s %s s%s\n",
                  R.text("model_name").c_str(), R.text("gpu").c_str(), R.text("gpus").c_str(),
                  R.text("tp").c_str(), R.text("pp").c_str(), R.text("vpp").c_str(),
                  R.text("cp").c_str(), R.text("ep").c_str(), R.text("dp").c_str(),
                  R.text("micro_batch").c_str(), R.text("global_batch").c_str(),
                  R.text("precision").c_str(), R.text("recompute").c_str(),
                  R.text("seq_len").c_str());
    }
}
