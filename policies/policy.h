// What decides: a deterministic function of its state and an observation. One object a rank. It has
// no clock, no thread, no file and no dice, so that its decisions come out again from a log.
#ifndef MEGATWIN_POLICIES_POLICY_H_
#define MEGATWIN_POLICIES_POLICY_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/ids.h"
#include "model/program/program.h"
#include "policies/observation.h"

namespace megatwin::policies {

class Policy {
 public:
  virtual ~Policy() = default;

  // One of observation.ready to issue next, or nothing to wait for the next event. Waiting with
  // nothing in flight and no message under way stops the rank for good.
  virtual std::optional<model::TaskId> pick(const Observation& observation) = 0;

  // The whole state of the policy on one line. Two policies of equal lines decide alike.
  virtual std::string state_line() const = 0;
};

// Makes the policy of one rank.
using PolicyFactory =
    std::function<std::unique_ptr<Policy>(const model::Program& program, model::RankId rank)>;

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_POLICY_H_
