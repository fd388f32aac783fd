// The loss on text that is never trained on, computed on whole weights by one rank's worth of code:
// the same bits whatever plan the weights were trained under.
#ifndef MEGATWIN_EXEC_HELD_OUT_H_
#define MEGATWIN_EXEC_HELD_OUT_H_

#include <memory>
#include <vector>

#include "exec/model_state.h"
#include "exec/window_source.h"
#include "model/transformer.h"

namespace megatwin::exec {

class HeldOutLoss {
 public:
  // `sequences` of the held-out windows, evenly spread, or all when there are fewer; on as many
  // threads as `threads`. Requires: source.num_held_out() > 0; the source is borrowed.
  struct Setup {
    const model::Transformer& transformer;
    const WindowSource& source;
    int sequences = 1;
    int threads = 1;
  };
  explicit HeldOutLoss(const Setup& setup);
  ~HeldOutLoss();

  // Mean nats per token. Requires: state_problems() is empty.
  double of(const ModelState& state);
  std::int64_t num_tokens() const;

 private:
  struct Worker;

  const WindowSource& source_;
  std::vector<std::int64_t> windows_;
  std::int64_t sequence_length_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// How well counting does: each byte predicted from the two before it, by the counts of the bytes up
// to `from`, backed off to one byte, none, and chance.
// Source: Witten and Bell, IEEE Transactions on Information Theory 37 (1991), method C.
// Mean nats per byte over the bytes from there on. Requires: tokens below 256; 2 <= from < size.
double byte_trigram_loss(const Tokens& tokens, std::int64_t from);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_HELD_OUT_H_
