// What a report says of a job whose stages or replicas differ: the classes of replicas as the
// engines take them, the kinds by name, rates over all of them, and one line a stage.
#ifndef MEGATWIN_SIM_MIXED_MIXED_REPORT_H_
#define MEGATWIN_SIM_MIXED_MIXED_REPORT_H_

#include <string>
#include <vector>

#include "model/job.h"
#include "model/program/job_program.h"
#include "sim/pipeline_simulation.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// Whether stages or replicas differ in more than their place and their layers.
bool ranks_differ(const model::Job& job);

// Borrows the programs.
std::vector<ReplicaClass> classes_of(const std::vector<model::JobProgram>& programs);

// "A100-SXM4-80GB and V100-SXM2-32GB", each once, in the order of the cluster.
std::string gpu_names(const model::Cluster& cluster);
std::string node_names(const model::Cluster& cluster);

// Peak rate of all GPUs of the job, each at the precision of its stage's products.
model::FlopPerSecond total_peak(const model::Job& job);

// Fills `stages` when ranks_differ().
// Requires: report.memory is filled, in the order of `result`.
void fill_stages(const model::Job& job, const std::vector<model::JobProgram>& programs,
                 const PipelineResult& result, SimulationReport& report);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_MIXED_MIXED_REPORT_H_
