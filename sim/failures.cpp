#include "sim/failures.h"

#include <bit>
#include <cmath>
#include <utility>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

constexpr model::Seconds kDay{86400};

double failures_per_day(const std::vector<PartFailures>& parts) {
  double rate = 0;
  for (const PartFailures& part : parts) rate += part.count * part.per_day;
  return rate;
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15U;
    std::uint64_t x = seed;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    word = x ^ (x >> 31U);
  }
}

std::uint64_t RandomStream::next() {
  const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t shifted = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double RandomStream::uniform() { return static_cast<double>((next() >> 11U) + 1) * 0x1p-53; }

model::Seconds RandomStream::exponential(model::Seconds mean) {
  return -std::log(uniform()) * mean;
}

FailureSource::FailureSource(std::vector<PartFailures> parts, std::uint64_t seed)
    : parts_(std::move(parts)), mean_(sim::mean_time_between_failures(parts_)), random_(seed) {}

Failure FailureSource::next() {
  Failure failure{.after = random_.exponential(mean_)};
  double pick = random_.uniform() * failures_per_day(parts_);
  for (const PartFailures& part : parts_) {
    pick -= part.count * part.per_day;
    if (pick <= 0) break;
    ++failure.part;
  }
  failure.part = std::min(failure.part, static_cast<int>(parts_.size()) - 1);
  return failure;
}

model::Seconds mean_time_between_failures(const std::vector<PartFailures>& parts) {
  const double rate = failures_per_day(parts);
  MEGATWIN_ASSERT(rate > 0, "failures per day: ", rate);
  return kDay / rate;
}

}  // namespace megatwin::sim
