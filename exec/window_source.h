// Sequences cut from tokens: windows of one sequence and the token after it, side by side. Training
// takes them in an order that is shuffled anew each time all have been seen; the held-out part,
// from the end, is read in place. Every answer follows from the numbers asked with, so a resumed
// run needs no state but its step.
#ifndef MEGATWIN_EXEC_WINDOW_SOURCE_H_
#define MEGATWIN_EXEC_WINDOW_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exec/host_job.h"
#include "exec/token_file.h"

namespace megatwin::exec {

struct WindowSetup {
  const Tokens& tokens;
  double held_out = 0;  // Share of the tokens.
  std::int64_t sequence_length = 0;
  std::int64_t micro_batch = 1;   // Sequences.
  std::int64_t global_batch = 1;  // Sequences.
  std::uint64_t seed = 1;
};

class WindowSource : public TokenSource {
 public:
  // The tokens are borrowed. Requires: window_problems() is empty.
  explicit WindowSource(const WindowSetup& setup);

  TokenBatch batch(const Place& place) const override;

  std::int64_t num_windows() const { return num_windows_; }
  std::int64_t num_held_out() const { return num_held_out_; }
  // Where the held-out tokens begin.
  std::int64_t held_out_from() const { return held_out_from_; }

  // One sequence. Requires: window in [0, num_windows()), or in [0, num_held_out()).
  TokenBatch training_window(std::int64_t window) const;
  TokenBatch held_out_window(std::int64_t window) const;
  // The window that is the `number`-th sequence of the run.
  std::int64_t window_of(std::int64_t number) const;

 private:
  void append(std::int64_t first_token, TokenBatch& batch) const;

  WindowSetup setup_;
  std::int64_t held_out_from_ = 0;
  std::int64_t num_windows_ = 0;
  std::int64_t num_held_out_ = 0;
};

// Why the tokens cannot be cut so, in words for the user; empty when they can.
std::vector<std::string> window_problems(const WindowSetup& setup);

// The image of `index` under a permutation of [0, size) that follows from the key: four rounds of a
// Feistel network over the next even number of bits, walked until it lands inside (Black and
// Rogaway, CT-RSA 2002, sections 4 and 5).
std::int64_t permuted(std::int64_t index, std::int64_t size, std::uint64_t key);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_WINDOW_SOURCE_H_
