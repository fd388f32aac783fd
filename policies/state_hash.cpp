#include "policies/state_hash.h"

#include <bit>

namespace megatwin::policies {
namespace {

// FNV-1a (Fowler, Noll, Vo), 64 bits, fed byte by byte with the low byte first.
class Hash {
 public:
  void add_byte(std::uint8_t byte) {
    value_ ^= byte;
    value_ *= 0x100000001b3u;
  }
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      add_byte(static_cast<std::uint8_t>(number >> shift));
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace

std::uint64_t state_hash(const Observation& observation, std::string_view state_line) {
  Hash hash;
  hash.add(observation.ready.size());
  for (const model::TaskId task : observation.ready) {
    hash.add(static_cast<std::uint64_t>(task.value));
  }
  hash.add(std::bit_cast<std::uint64_t>(observation.memory_used.value));
  hash.add(std::bit_cast<std::uint64_t>(observation.memory_limit.value));
  hash.add(static_cast<std::uint64_t>(observation.receive_slots));
  for (const std::int32_t slots : observation.free_slots) {
    hash.add(static_cast<std::uint64_t>(slots));
  }
  hash.add(static_cast<std::uint64_t>(observation.in_flight));
  hash.add(static_cast<std::uint64_t>(observation.issue_depth));
  for (const model::QuantisedDuration duration : observation.durations) {
    hash.add(duration);
  }
  for (const char c : state_line) {
    hash.add_byte(static_cast<std::uint8_t>(c));
  }
  return hash.value();
}

}  // namespace megatwin::policies
