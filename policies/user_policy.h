// A policy that a user wrote, behind the C function of policies/megatwin_policy.h. Who has loaded
// the library gives the function; nothing is loaded here.
#ifndef MEGATWIN_POLICIES_USER_POLICY_H_
#define MEGATWIN_POLICIES_USER_POLICY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "policies/megatwin_policy.h"
#include "policies/policy.h"

namespace megatwin::policies {

using UserPolicyFunction = std::int32_t (*)(const megatwin_observation*, std::int64_t*);

// The function returned something that is no answer.
class UserPolicyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class UserPolicy : public Policy {
 public:
  // Requires: the function is there as long as this object.
  explicit UserPolicy(UserPolicyFunction function) : function_(function) {}

  // Errors: throws UserPolicyError.
  std::optional<model::TaskId> pick(const Observation& observation) override;
  // The numbers of the state, up to the last that is not 0.
  std::string state_line() const override;

 private:
  UserPolicyFunction function_;
  // Numbers behind the state that stay 0, so that a function that writes past its end is found out.
  static constexpr std::size_t kBehind = 4;

  std::array<std::int64_t, MEGATWIN_POLICY_STATE + kBehind> state_{};
  std::int64_t picks_ = 0;            // Tasks, over all steps.
  std::vector<megatwin_task> ready_;  // Kept from call to call for its memory only.
  std::vector<std::int64_t> durations_;
};

PolicyFactory user_policy_factory(UserPolicyFunction function);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_USER_POLICY_H_
