#include "cli/launched.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "cli/files.h"
#include "cli/mpi/plugin.h"
#include "model/plugin_path.h"

namespace megatwin::cli {
namespace {

constexpr int kTagOfAgreement = 32'000;  // Far from those of the work.
constexpr const char* kPluginName = "libmegatwin_mpi.so";

int number_in_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Stays loaded until the program ends. Open MPI's own parts look for its symbols in the whole
// process, hence global. Null when it is not there; dlerror() says why.
void* plugin() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): what dlopen() gives.
  static void* const library = [] {
    const std::string path = model::beside_the_program(kPluginName);
    void* found = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    return found != nullptr ? found : dlopen(kPluginName, RTLD_NOW | RTLD_GLOBAL);
  }();
  return library;
}

std::unique_ptr<model::Processes> join() {
  const char* get = "; apt-get install libopenmpi-dev openmpi-bin and build again";
  if (plugin() == nullptr) {
    throw IoError(std::string("several processes need MPI's plug-in, which cannot be loaded: ") +
                  dlerror() + get);
  }
  auto* const function = reinterpret_cast<MegatwinMpiJoin*>(dlsym(plugin(), MEGATWIN_MPI_JOIN));
  if (function == nullptr) {
    throw IoError(std::string(kPluginName) + " belongs to another version of this program");
  }
  std::unique_ptr<model::Processes> processes(function());
  if (!processes)
    throw IoError("this MPI cannot be called from several threads" + std::string(get));
  return processes;
}

}  // namespace

int launched_rank() {
  return number_in_environment("OMPI_COMM_WORLD_RANK", number_in_environment("PMIX_RANK", 0));
}

bool is_launched_with_others() { return number_in_environment("OMPI_COMM_WORLD_SIZE", 1) > 1; }

int cores_of_this_process() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / std::max(1, number_in_environment("OMPI_COMM_WORLD_LOCAL_SIZE", 1)));
}

Agreement agree(model::Processes& processes, const std::string& saying) {
  const auto bytes_of = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  Agreement agreement;
  if (processes.rank() > 0) {
    processes.send(0, kTagOfAgreement, bytes_of(saying));
    agreement.reached = processes.receive(0, kTagOfAgreement).bytes.empty();
    return agreement;
  }
  for (int rank = 1; rank < processes.size(); ++rank) {
    const auto message = processes.receive(rank, kTagOfAgreement);
    std::string other(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size());
    if (!agreement.reached || other == saying) continue;
    agreement = {.reached = false, .dissenter = rank, .saying = std::move(other)};
  }
  for (int rank = 1; rank < processes.size(); ++rank) {
    processes.send(rank, kTagOfAgreement, bytes_of(agreement.reached ? "" : "no"));
  }
  return agreement;
}

int run_together(Console& console, const std::function<int(model::Processes&)>& body) {
  const std::unique_ptr<model::Processes> processes = join();
  std::string fault;
  try {
    return body(*processes);
  } catch (const IoError& error) {
    fault = error.what();
  } catch (const std::bad_alloc&) {
    fault = "this machine has not enough memory";
  }
  console.err << "megatwin: error: process " << processes->rank() << " of " << processes->size()
              << ": " << fault << std::endl;
  processes->abort(kExitMachine);
  return kExitMachine;
}

std::optional<std::string> mpi_plugin_version() {
  if (plugin() == nullptr) return std::nullopt;
  auto* const function =
      reinterpret_cast<MegatwinMpiVersion*>(dlsym(plugin(), MEGATWIN_MPI_VERSION));
  if (function == nullptr) return std::nullopt;
  return function();
}

}  // namespace megatwin::cli
