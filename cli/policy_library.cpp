#include "cli/policy_library.h"

#include <dlfcn.h>
#include <link.h>

#include "cli/policy_guard.h"
#include "policies/policy_choice.h"
#include "policies/user_policy.h"

namespace megatwin::cli {
namespace {

bool is_data(void* symbol) {
  Dl_info info{};
  void* found = nullptr;
  if (dladdr1(symbol, &info, &found, RTLD_DL_SYMENT) == 0 || found == nullptr) return false;
  const auto* entry = static_cast<const ElfW(Sym)*>(found);
  return ELF64_ST_TYPE(entry->st_info) == STT_OBJECT;  // The same bits in 32-bit files.
}

}  // namespace

model::Result<policies::PolicyFactory> load_policy(const std::string& path) {
  const auto fault = [&](const std::string& message, const std::string& allowed) {
    return model::fail({{.file = path, .message = message, .allowed = allowed}});
  };
  // A name without a slash would be looked for in the system's folders.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* library = nullptr;
  {
    const PolicyCall call(kept_name(path), PolicyCall::kLoading, 0);
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return fault(std::string("the policy cannot be loaded: ") + dlerror(),
                 "a shared library, built as policies/megatwin_policy.h says");
  }
  void* symbol = dlsym(library, "megatwin_policy_v1");
  if (symbol == nullptr || is_data(symbol)) {
    return fault(symbol == nullptr ? "the policy has no function megatwin_policy_v1"
                                   : "megatwin_policy_v1 of the policy is data, not a function",
                 "a library with extern \"C\" int32_t megatwin_policy_v1(const "
                 "megatwin_observation*, int64_t*)");
  }
  return guarded(
      policies::user_policy_factory(reinterpret_cast<policies::UserPolicyFunction>(symbol)), path);
}

model::Result<policies::PolicyFactory> policy_of(const model::Plan& plan) {
  if (!plan.policy_library.empty()) return load_policy(plan.policy_library);
  return policies::policy_of(plan);
}

std::string policy_setting(const std::string& name) {
  return (name.ends_with(".so") ? "policy=" : "policy.schedule=") + name;
}

std::string policy_setting_of_log(const std::string& name) {
  return name == "list" || name == name_of(model::ScheduleKind::UserPolicy) ? ""
                                                                            : policy_setting(name);
}

}  // namespace megatwin::cli
