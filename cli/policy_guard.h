// Names a policy library when it takes the whole program with it: it crashes, calls exit(), or
// thinks for ever. A policy runs in this process, so none of that can be undone; but who did it can
// be said.
#ifndef MEGATWIN_CLI_POLICY_GUARD_H_
#define MEGATWIN_CLI_POLICY_GUARD_H_

#include <string>

#include "policies/policy.h"

namespace megatwin::cli {

// The same text, where it stays until the program ends. Thread-safe.
const std::string& kept_name(const std::string& library);

// Marks this thread as being inside the library, for as long as it lives. What is told on standard
// error meanwhile:
//   a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT): which library, and where it was asked; the
//     signal then does what it did before;
//   exit(): the same, and exit code kExitMachine instead of the library's own;
//   more than 10 s in one call: that it may never answer; the call goes on.
// Nests not. Thread-safe: each thread marks itself.
class PolicyCall {
 public:
  static constexpr int kLoading = -1;

  // Requires: `library` is from kept_name(). kLoading instead of a stage: while it is loaded.
  PolicyCall(const std::string& library, int stage, int tasks);
  ~PolicyCall();
  PolicyCall(const PolicyCall&) = delete;
  PolicyCall& operator=(const PolicyCall&) = delete;
};

// Policies that are marked while they pick.
policies::PolicyFactory guarded(policies::PolicyFactory factory, const std::string& library);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_POLICY_GUARD_H_
