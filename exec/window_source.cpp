#include "exec/window_source.h"

#include <bit>
#include <cmath>

#include "model/assert.h"
#include "model/counted.h"

namespace megatwin::exec {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014) as a hash.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::int64_t held_out_tokens(const WindowSetup& setup) {
  return static_cast<std::int64_t>(
      std::floor(setup.held_out * static_cast<double>(setup.tokens.size())));
}

// Each window shares its last token, a target only, with the next one.
std::int64_t windows_in(std::int64_t tokens, std::int64_t sequence_length) {
  return tokens < 1 ? 0 : (tokens - 1) / sequence_length;
}

}  // namespace

std::int64_t permuted(std::int64_t index, std::int64_t size, std::uint64_t key) {
  MEGATWIN_ASSERT(index >= 0 && index < size, index, " of ", size);
  const auto bits = std::bit_width(static_cast<std::uint64_t>(size - 1));
  const auto half = static_cast<int>((bits + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto value = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = value >> half;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t next = left ^ (mix(key ^ mix(right + (round << 32))) & mask);
      left = right;
      right = next;
    }
    value = left << half | right;
  } while (value >= static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(value);
}

std::vector<std::string> window_problems(const WindowSetup& setup) {
  const std::int64_t held_out = held_out_tokens(setup);
  const std::int64_t rest = setup.tokens.size() - held_out;
  std::vector<std::string> problems;
  const std::string needs =
      "; a sequence of " + std::to_string(setup.sequence_length) + " needs one more";
  if (windows_in(rest, setup.sequence_length) == 0) {
    problems.push_back("there are " + model::counted(rest, "token") + " to train on" + needs);
  }
  if (setup.held_out > 0 && windows_in(held_out, setup.sequence_length) == 0) {
    problems.push_back("the held-out part has " + model::counted(held_out, "token") + needs);
  }
  return problems;
}

WindowSource::WindowSource(const WindowSetup& setup)
    : setup_(setup),
      held_out_from_(setup.tokens.size() - held_out_tokens(setup)),
      num_windows_(windows_in(held_out_from_, setup.sequence_length)),
      num_held_out_(windows_in(setup.tokens.size() - held_out_from_, setup.sequence_length)) {
  MEGATWIN_ASSERT(window_problems(setup).empty(), window_problems(setup).front());
}

std::int64_t WindowSource::window_of(std::int64_t number) const {
  const std::int64_t epoch = number / num_windows_;
  return permuted(number % num_windows_, num_windows_,
                  mix(setup_.seed) ^ static_cast<std::uint64_t>(epoch));
}

TokenBatch WindowSource::batch(const Place& place) const {
  TokenBatch batch;
  const std::int64_t first =
      place.step * setup_.global_batch + place.micro_batch * setup_.micro_batch;
  for (std::int64_t number = first; number < first + setup_.micro_batch; ++number) {
    append(window_of(number) * setup_.sequence_length, batch);
  }
  return batch;
}

TokenBatch WindowSource::training_window(std::int64_t window) const {
  MEGATWIN_ASSERT(window >= 0 && window < num_windows_, window, " of ", num_windows_);
  TokenBatch batch;
  append(window * setup_.sequence_length, batch);
  return batch;
}

TokenBatch WindowSource::held_out_window(std::int64_t window) const {
  MEGATWIN_ASSERT(window >= 0 && window < num_held_out_, window, " of ", num_held_out_);
  TokenBatch batch;
  append(held_out_from_ + window * setup_.sequence_length, batch);
  return batch;
}

void WindowSource::append(std::int64_t first_token, TokenBatch& batch) const {
  for (std::int64_t i = 0; i < setup_.sequence_length; ++i) {
    batch.tokens.push_back(setup_.tokens[first_token + i]);
    batch.targets.push_back(setup_.tokens[first_token + i + 1]);
  }
}

}  // namespace megatwin::exec
