#include "policies/collective_coordinator.h"

#include <algorithm>

#include "model/assert.h"

namespace megatwin::policies {

CollectiveCoordinator::CollectiveCoordinator(std::vector<std::vector<model::RankId>> groups) {
  for (std::vector<model::RankId>& members : groups) {
    MEGATWIN_ASSERT(!members.empty(), "a group without members");
    Group group;
    group.members = std::move(members);
    groups_.push_back(std::move(group));
  }
}

CollectiveCoordinator::Group& CollectiveCoordinator::group_of(
    const CollectiveOperation& operation) {
  MEGATWIN_ASSERT(operation.group >= 0 && operation.group < std::ssize(groups_), operation.group);
  return groups_[static_cast<std::size_t>(operation.group)];
}

void CollectiveCoordinator::request(model::RankId rank, const CollectiveOperation& operation) {
  Group& group = group_of(operation);
  const auto member = std::find(group.members.begin(), group.members.end(), rank);
  MEGATWIN_ASSERT(member != group.members.end(), "rank ", rank.value, " is not in group ",
                  operation.group);
  Bits& bits = group.asked[operation.number];
  bits.resize(group.members.size());
  const auto index = static_cast<std::size_t>(member - group.members.begin());
  MEGATWIN_ASSERT(!bits[index], "rank ", rank.value, " asked twice for ", operation.number);
  bits[index] = true;
  if (std::find(bits.begin(), bits.end(), false) == bits.end()) {
    group.asked.erase(operation.number);
    group.complete.push_back(operation.number);
  }
}

std::vector<CollectiveOperation> CollectiveCoordinator::release() {
  std::vector<CollectiveOperation> released;
  for (int index = 0; index < std::ssize(groups_); ++index) {
    Group& group = groups_[static_cast<std::size_t>(index)];
    if (group.running || group.complete.empty()) {
      continue;
    }
    group.running = true;
    group.running_number = group.complete.front();
    group.complete.erase(group.complete.begin());
    released.push_back({index, group.running_number});
  }
  return released;
}

void CollectiveCoordinator::finish(const CollectiveOperation& operation) {
  Group& group = group_of(operation);
  MEGATWIN_ASSERT(group.running && group.running_number == operation.number, "operation ",
                  operation.number, " of group ", operation.group, " does not run");
  group.running = false;
}

std::string CollectiveCoordinator::state_line() const {
  std::string line = "coordinator";
  for (const Group& group : groups_) {
    line += group.running ? " |run " + std::to_string(group.running_number) : " |idle";
    for (const std::int64_t number : group.complete) {
      line += " next " + std::to_string(number);
    }
    for (const auto& [number, bits] : group.asked) {
      line += " " + std::to_string(number) + ":";
      for (const bool bit : bits) {
        line += bit ? '1' : '0';
      }
    }
  }
  return line;
}

}  // namespace megatwin::policies
