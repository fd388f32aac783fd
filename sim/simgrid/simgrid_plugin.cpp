// SimGrid 3.32 as an answer to a flow set, by its installed headers only. Its quirks:
//  * Its sharing favours short paths (penalty by latency): every link has latency 0 and each flow
//    pays its latency on a timer before it starts.
//  * LV08, its default, adds 3 % and cross-traffic 5 %: model CM02 without either.
//  * Its default precision merges events within 1e-9 s.
//  * A communication of 0 bytes never starts: such flows never reach SimGrid.
//  * Payloads are whole bytes: a fraction of a byte is scaled away, see kScale.
//  * A communication cannot change its way: it is suspended for good, and another one carries what
//    it had left.
//  * Link::set_bandwidth() in mid-flow left rates that are no fair shares in 2 of 16 random sets of
//    400 flows, by up to 28 % of an end: a link that changes is replaced by another one.
//  * A communication that is let go before its end crashes: kept until all is over.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>

#include "sim/simgrid/plugin.h"

namespace {

namespace s4u = simgrid::s4u;
using simgrid::kernel::routing::NetPoint;
using simgrid::kernel::routing::NetZoneImpl;
using simgrid::kernel::routing::Route;
using simgrid::kernel::timer::Timer;

// Sizes and capacities are both multiplied by it, so that a byte's fraction survives the rounding
// to whole bytes: 2^20 leaves 44 bits for the size.
constexpr double kScale = 1048576;

class FlowZone : public NetZoneImpl {
 public:
  explicit FlowZone(const std::string& name) : NetZoneImpl(name) {}

  // Which links lead away from each host; the destination is always the one sink.
  std::vector<std::vector<simgrid::kernel::resource::StandardLinkImpl*>> links_from;

 protected:
  void get_local_route(const NetPoint* from, const NetPoint*, Route* into, double*) override {
    into->link_list_ = links_from[from->id()];
  }
  void get_graph(const s_xbt_graph_t*, std::map<std::string, xbt_node_t, std::less<>>*,
                 std::map<std::string, xbt_edge_t, std::less<>>*) override {}
};

class FlowRun {
 public:
  FlowRun(const MegatwinFlowProblem& problem, double* finish)
      : problem_(problem), finish_(finish) {}

  int run() {
    char name[] = "megatwin";
    char quiet[] = "--log=root.thresh:warning";
    char* argv[] = {name, quiet, nullptr};
    int argc = 2;
    // Never destroyed: it would warn of what is suspended, and the process ends after it.
    auto& engine = *new s4u::Engine(&argc, argv);
    s4u::Engine::set_config("network/model:CM02");
    s4u::Engine::set_config("network/crosstraffic:0");
    s4u::Engine::set_config("network/TCP-gamma:1e30");
    s4u::Engine::set_config("surf/precision:1e-12");
    s4u::Engine::set_config("maxmin/precision:1e-9");
    build_platform();
    prepare_changes();
    prepare();
    s4u::Activity::on_completion_cb([this](const s4u::Activity& done) { completed(done); });
    engine.run();
    return ended_ == problem_.num_flows ? 0 : 1;
  }

 private:
  static std::size_t as_index(int32_t value) { return static_cast<std::size_t>(value); }

  void build_platform() {
    auto* zone = new FlowZone("flows");  // The engine owns and deletes its zones.
    s4u::NetZone* face = zone->get_iface();
    for (int32_t l = 0; l < problem_.num_links; ++l) {
      s4u::Link* link = face->create_link("l" + std::to_string(l), problem_.capacity[l] * kScale);
      links_.push_back(link->set_latency(0.0)->seal());
    }
    for (int32_t c = 0; c < problem_.num_capacity_changes; ++c) {
      s4u::Link* link =
          face->create_link("c" + std::to_string(c), problem_.new_capacity[c] * kScale);
      later_links_.push_back(link->set_latency(0.0)->seal());
    }
    sink_ = face->create_host("sink", 1.0)->seal();
    for (int32_t f = 0; f < problem_.num_flows; ++f) {
      s4u::Host* host = face->create_host("h" + std::to_string(f), 1.0)->seal();
      hosts_.push_back(host);
      zone->links_from.resize(host->get_netpoint()->id() + 1);
      ways_.emplace_back(problem_.links + problem_.first_link[f],
                         problem_.links + problem_.first_link[f + 1]);
    }
    zone->seal();
    zone_ = zone;
  }

  void prepare_changes() {
    for (int32_t i = 0; i < problem_.num_capacity_changes; ++i) {
      Timer::set(problem_.capacity_at[i], [this, i] { change_capacity(i); });
    }
    for (int32_t i = 0; i < problem_.num_way_changes; ++i) {
      Timer::set(problem_.way_at[i], [this, i] { change_way(i); });
    }
  }

  void change_capacity(int32_t change) {
    const int32_t link = problem_.capacity_link[change];
    links_[as_index(link)] = later_links_[as_index(change)];
    for (int32_t flow = 0; flow < problem_.num_flows; ++flow) {
      const std::vector<int32_t>& way = ways_[as_index(flow)];
      if (std::find(way.begin(), way.end(), link) != way.end()) carry_on(flow);
    }
  }

  void change_way(int32_t change) {
    const int32_t flow = problem_.way_flow[change];
    ways_[as_index(flow)].assign(problem_.new_links + problem_.first_new_link[change],
                                 problem_.new_links + problem_.first_new_link[change + 1]);
    carry_on(flow);
  }

  // A flow under way goes on over its links as they are now.
  void carry_on(int32_t flow) {
    const s4u::CommPtr before = comms_[as_index(flow)];
    if (!before || finish_[flow] >= 0) return;
    const double left = before->get_remaining();
    before->suspend();
    suspended_.push_back(before);
    carry(flow, left);
  }

  void prepare() {
    const std::size_t count = as_index(problem_.num_flows);
    waits_for_.resize(count);
    followers_.resize(count);
    ready_.assign(problem_.start, problem_.start + count);
    comms_.resize(count);
    std::fill(finish_, finish_ + count, -1.0);
    for (int32_t f = 0; f < problem_.num_flows; ++f) {
      waits_for_[as_index(f)] = problem_.first_after[f + 1] - problem_.first_after[f];
      for (int32_t k = problem_.first_after[f]; k < problem_.first_after[f + 1]; ++k) {
        followers_[as_index(problem_.after[k])].push_back(f);
      }
      if (waits_for_[as_index(f)] == 0) wait_and_start(f);
    }
  }

  void wait_and_start(int32_t flow) {
    Timer::set(ready_[as_index(flow)] + problem_.latency[flow], [this, flow] { start(flow); });
  }

  void start(int32_t flow) { carry(flow, problem_.size[flow] * kScale); }

  // `size` of SimGrid's bytes over the flow's links as they are.
  void carry(int32_t flow, double size) {
    const auto payload = static_cast<uint64_t>(std::llround(size));
    if (payload == 0 || ways_[as_index(flow)].empty()) {
      end(flow);
      return;
    }
    auto& links = zone_->links_from[hosts_[as_index(flow)]->get_netpoint()->id()];
    links.clear();
    for (const int32_t link : ways_[as_index(flow)]) {
      links.push_back(links_[as_index(link)]->get_impl());
    }
    s4u::CommPtr comm = s4u::Comm::sendto_init(hosts_[as_index(flow)], sink_);
    comm->set_name(std::to_string(flow));
    comm->set_payload_size(payload);
    comms_[as_index(flow)] = comm;
    comm->vetoable_start();
  }

  void completed(const s4u::Activity& done) {
    const auto& comm = static_cast<const s4u::Comm&>(done);  // Nothing else runs here.
    const auto flow = static_cast<int32_t>(std::stol(comm.get_name()));
    // Not one that was suspended in the moment of its end.
    if (comms_[as_index(flow)].get() == &comm && finish_[flow] < 0) end(flow);
  }

  void end(int32_t flow) {
    const double now = s4u::Engine::get_clock();
    finish_[flow] = now;
    ++ended_;
    for (const int32_t follower : followers_[as_index(flow)]) {
      ready_[as_index(follower)] = std::max(ready_[as_index(follower)], now);
      if (--waits_for_[as_index(follower)] == 0) wait_and_start(follower);
    }
  }

  const MegatwinFlowProblem& problem_;
  double* finish_;
  FlowZone* zone_ = nullptr;
  std::vector<s4u::Link*> links_, later_links_;  // As they are now; one a change.
  std::vector<std::vector<int32_t>> ways_;       // Of each flow, as they are now.
  s4u::Host* sink_ = nullptr;
  std::vector<s4u::Host*> hosts_;
  std::vector<s4u::CommPtr> comms_, suspended_;
  std::vector<int32_t> waits_for_;
  std::vector<std::vector<int32_t>> followers_;
  std::vector<double> ready_;
  int32_t ended_ = 0;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) int megatwin_simgrid_run(
    const MegatwinFlowProblem* problem, double* finish) {
  // Never destroyed: the process ends after it, and so does all that SimGrid still refers to.
  auto* run = new FlowRun(*problem, finish);
  return run->run();
}
