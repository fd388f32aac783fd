// The cluster of a job as a graph, once as it should be and once as disturbed, with a router for
// each; and what the disturbances are to ranks. One object belongs to one thread.
#ifndef MEGATWIN_SIM_JOB_NETWORK_H_
#define MEGATWIN_SIM_JOB_NETWORK_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"
#include "model/rank_layout.h"
#include "model/result.h"
#include "model/topology/router.h"
#include "model/topology/topology.h"

namespace megatwin::sim {

class JobNetwork {
 public:
  // As it is at `now` of the step. Rank r of the job is GPU r of the cluster, machines filled in
  // order.
  // Errors: what build_topology() refuses; a disturbance of a part that the cluster does not have.
  static model::Result<std::unique_ptr<JobNetwork>> build(const model::Job& job,
                                                          model::Instant now = {});

  const model::Topology& topology() const { return disturbed_; }
  const model::Topology& planned() const { return pristine_; }  // The same links, all up.
  // The way as it is, and what its narrowest link would give without disturbances. Links of which
  // closed forms know nothing do not count: those between switches, and inside a described machine.
  struct Way {
    model::Route route;
    model::BytesPerSecond undisturbed;
  };
  model::Result<Way> way(const model::FlowKey& key);
  // Of the graph as it is and as it should be; of a way on the latter, what `undisturbed` is.
  model::Router& router() { return *router_; }
  model::Router& pristine_router() { return *pristine_router_; }
  model::BytesPerSecond undisturbed_rate(const model::Route& plain) const;
  // Whether a link inside this machine is not as it should be, or as a file has it.
  bool disturbed_inside(int machine) const { return disturbed_machines_.contains(machine); }
  bool links_disturbed() const { return links_disturbed_; }

  // Of a dead adapter: which GPUs leave by which other one, and how far that is from them. Empty
  // where it serves nobody of the job, `num_ranks` GPUs.
  std::string detour(const std::string& nic, int num_ranks);

  struct Background {
    model::Route route;
    model::BytesPerSecond rate;
    model::RankId from;
    std::size_t disturbance = 0;  // Of the job.
  };
  const std::vector<Background>& background() const { return background_; }
  // Into how many equal parts, with a FlowKey::adapter each, the traffic of a GPU is dealt over the
  // adapters that it has to itself; 1 where it has one or a part of one.
  int adapter_lanes(model::RankId rank) const;
  int machine_of(model::RankId rank) const {
    return disturbed_.vertex(disturbed_.gpu(rank)).machine;
  }

 private:
  JobNetwork() = default;
  model::Diagnostics apply(const model::Disturbance& disturbance);
  // What flaps at `now`, all of a cable at once: where one is down, nothing else counts.
  model::Diagnostics apply_flaps(const model::Job& job, model::Instant now);
  void narrow(model::LinkId link, double factor);
  // Both ways of the cable that it names, none where there is no such cable. As planned: its
  // adapter may be dead now, and then nothing is left to slow.
  std::vector<model::LinkId> planned_cable(const model::Disturbance& disturbance) const;

  // The narrowest link but those between switches and inside described machines.
  model::BytesPerSecond rate_at_ends(const model::Topology& topology,
                                     const model::Route& route) const;

  model::Topology pristine_, disturbed_;
  std::unique_ptr<model::Router> router_, pristine_router_;
  std::set<int> disturbed_machines_;
  std::set<int> described_machines_;  // By a file of their own, of which closed forms know nothing.
  std::vector<Background> background_;
  bool links_disturbed_ = false, adapters_fail_ = false;
};

// The network from one change of the disturbances to the next, the start of the step first.
class ChangingNetwork {
 public:
  // Errors: as JobNetwork::build().
  static model::Result<ChangingNetwork> build(const model::Job& job);

  const std::vector<model::Instant>& starts() const { return starts_; }
  std::size_t size() const { return starts_.size(); }
  JobNetwork& at(std::size_t stretch) { return *networks_[stretch]; }
  // The first stretch that has the same network, at most itself.
  std::size_t first_like(std::size_t stretch) const {
    std::size_t first = 0;
    while (networks_[first] != networks_[stretch]) ++first;
    return first;
  }
  // One of each stretch.
  model::Result<std::vector<JobNetwork::Way>> ways(const model::FlowKey& key);

 private:
  std::vector<model::Instant> starts_;
  std::vector<std::shared_ptr<JobNetwork>> networks_;
};

// When the disturbances are others than before, ascending: the start of the step, then each instant
// at which one begins or ends.
std::vector<model::Instant> stretch_starts(const model::Job& job);

// The number of the GPU of this name in the cluster, or nothing.
std::optional<model::RankId> gpu_of_name(const model::Cluster& cluster, std::string_view name);

// Slow GPUs that the cluster does not have.
model::Diagnostics missing_gpus(const model::Job& job);

// By rank: how many times as long its kernels take at `now`, 1 where nothing is wrong. Slow GPUs
// multiply;
// jitter draws 1 + deviation · z, z normal by Box and Muller, for each rank in order, at least a
// half. Requires: names of slow GPUs are the cluster's.
std::vector<double> compute_factors(const model::Job& job, model::Instant now = {});

// Whether the step has to be laid out over the network, rank by rank.
bool needs_network(const model::Job& job);

// What the step is laid out by: the job's own network, but fair shares instead of closed forms when
// a disturbance strikes links. There flows meet that are alone in the closed forms.
model::NetworkKind network_of(const model::Job& job);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_JOB_NETWORK_H_
