// The plug-in is loaded and run in a forked child, because SimGrid has one engine a process, takes
// over signals and ends the process on its errors. The ends come back through a pipe.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "model/plugin_path.h"
#include "sim/flow/flow_net.h"
#include "sim/simgrid/plugin.h"

namespace megatwin::sim {
namespace {

using model::Seconds;

constexpr const char* kPluginName = "libmegatwin_simgrid.so";
constexpr int kNoPlugin = 41, kNoAnswer = 42;  // What the child may say besides 0.

// A flow set as the plug-in's plain arrays.
struct PlainProblem {
  std::vector<double> capacity, size, start, latency;
  std::vector<std::int32_t> first_link, links, first_after, after;
  std::vector<double> capacity_at, new_capacity, way_at;
  std::vector<std::int32_t> capacity_link, way_flow, first_new_link, new_links;

  explicit PlainProblem(const FlowSet& flows) {
    for (const model::BytesPerSecond c : flows.capacities()) capacity.push_back(c.value);
    for (FlowIndex i = 0; i < static_cast<FlowIndex>(flows.size()); ++i) {
      const Flow& flow = flows.flows()[static_cast<std::size_t>(i)];
      size.push_back(flow.size.value);
      start.push_back(flow.start.value);
      latency.push_back(flow.latency.value);
      first_link.push_back(static_cast<std::int32_t>(links.size()));
      first_after.push_back(static_cast<std::int32_t>(after.size()));
      for (const std::int32_t link : flows.links_of(i)) links.push_back(link);
      for (const FlowIndex before : flows.after(i)) after.push_back(before);
    }
    first_link.push_back(static_cast<std::int32_t>(links.size()));
    first_after.push_back(static_cast<std::int32_t>(after.size()));
    add_changes(flows);
  }

  void add_changes(const FlowSet& flows) {
    std::multimap<WayIndex, FlowIndex> users;
    if (!flows.changes().empty()) {
      for (FlowIndex i = 0; i < static_cast<FlowIndex>(flows.size()); ++i) {
        users.emplace(flows.flows()[static_cast<std::size_t>(i)].way, i);
      }
    }
    for (const FlowChange& change : flows.changes()) {
      if (change.link >= 0) {
        capacity_at.push_back(change.at.value);
        capacity_link.push_back(change.link);
        new_capacity.push_back(change.capacity.value);
        continue;
      }
      const auto [first, last] = users.equal_range(change.way);
      for (auto user = first; user != last; ++user) {
        way_at.push_back(change.at.value);
        way_flow.push_back(user->second);
        first_new_link.push_back(static_cast<std::int32_t>(new_links.size()));
        for (const std::int32_t link : flows.links_on(change.leads)) new_links.push_back(link);
      }
    }
    first_new_link.push_back(static_cast<std::int32_t>(new_links.size()));
  }

  MegatwinFlowProblem view() const {
    return {.num_links = static_cast<std::int32_t>(capacity.size()),
            .num_flows = static_cast<std::int32_t>(size.size()),
            .capacity = capacity.data(),
            .size = size.data(),
            .start = start.data(),
            .latency = latency.data(),
            .first_link = first_link.data(),
            .links = links.data(),
            .first_after = first_after.data(),
            .after = after.data(),
            .num_capacity_changes = static_cast<std::int32_t>(capacity_at.size()),
            .capacity_at = capacity_at.data(),
            .capacity_link = capacity_link.data(),
            .new_capacity = new_capacity.data(),
            .num_way_changes = static_cast<std::int32_t>(way_at.size()),
            .way_at = way_at.data(),
            .way_flow = way_flow.data(),
            .first_new_link = first_new_link.data(),
            .new_links = new_links.data()};
  }
};

void* load(const std::string& plugin) {
  if (!plugin.empty()) return dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* library = dlopen(model::beside_the_program(kPluginName).c_str(), RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? library : dlopen(kPluginName, RTLD_NOW | RTLD_LOCAL);
}

bool write_all(int file, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = write(file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
  return true;
}

std::size_t read_all(int file, char* bytes, std::size_t count) {
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = read(file, bytes + done, count - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

int run_in_child(const std::string& plugin, const FlowSet& flows, int answer) {
  void* library = load(plugin);
  if (library == nullptr) {
    const char* reason = dlerror();
    write_all(answer, reason, std::strlen(reason));
    return kNoPlugin;
  }
  const auto run = reinterpret_cast<MegatwinSimgridRun>(dlsym(library, MEGATWIN_SIMGRID_SYMBOL));
  if (run == nullptr) return kNoPlugin;
  const PlainProblem plain(flows);
  const MegatwinFlowProblem problem = plain.view();
  std::vector<double> finish(flows.size(), -1);
  if (run(&problem, finish.data()) != 0) return kNoAnswer;
  const auto* bytes = reinterpret_cast<const char*>(finish.data());
  return write_all(answer, bytes, finish.size() * sizeof(double)) ? 0 : kNoAnswer;
}

model::Diagnostic failure(int status, const std::string& said) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoPlugin) {
    return {.message = "SimGrid's plug-in cannot be loaded: " + said,
            .allowed = "network: maxmin, or apt-get install libsimgrid-dev and build again"};
  }
  const std::string how = WIFSIGNALED(status) ? "by signal " + std::to_string(WTERMSIG(status))
                                              : "with code " + std::to_string(WEXITSTATUS(status));
  return {.message = "SimGrid's process ended " + how, .allowed = "network: maxmin"};
}

class SimgridNet : public FlowNet {
 public:
  explicit SimgridNet(std::string plugin) : plugin_(std::move(plugin)) {}
  std::string_view name() const override { return "simgrid"; }

  model::Result<std::vector<Seconds>> finish_times(const FlowSet& flows) const override {
    int ends[2];
    if (pipe(ends) != 0) return model::fail({.message = std::generic_category().message(errno)});
    const pid_t child = fork();
    if (child < 0) return model::fail({.message = std::generic_category().message(errno)});
    if (child == 0) {
      close(ends[0]);
      // The child leaves without the parent's destructors and buffers.
      std::_Exit(run_in_child(plugin_, flows, ends[1]));
    }
    close(ends[1]);
    std::string answer(flows.size() * sizeof(double) + 4096, '\0');
    answer.resize(read_all(ends[0], answer.data(), answer.size()));
    close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) return model::fail(failure(status, answer));
    std::vector<double> finish(flows.size());
    std::memcpy(finish.data(), answer.data(), flows.size() * sizeof(double));
    std::vector<Seconds> result;
    result.reserve(finish.size());
    for (const double end : finish) result.push_back(Seconds{end});
    return result;
  }

 private:
  std::string plugin_;
};

}  // namespace

std::unique_ptr<FlowNet> make_simgrid_net(std::string plugin) {
  return std::make_unique<SimgridNet>(std::move(plugin));
}

}  // namespace megatwin::sim
