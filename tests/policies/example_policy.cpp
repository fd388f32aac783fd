// An example of a policy of one's own, docs/own-policy.md explains it: gradients first, then the
// forward of the oldest micro-batch that is furthest through the model. Could as well be plain C.
#include "policies/megatwin_policy.h"

extern "C" int32_t megatwin_policy_v1(const megatwin_observation* seen, int64_t* state) {
  int32_t best = 0;
  for (int32_t i = 1; i < seen->num_ready; ++i) {
    const megatwin_task* a = &seen->ready[i];
    const megatwin_task* b = &seen->ready[best];
    const int a_gradient = a->kind == MEGATWIN_BACKWARD || a->kind == MEGATWIN_BACKWARD_INPUT;
    const int b_gradient = b->kind == MEGATWIN_BACKWARD || b->kind == MEGATWIN_BACKWARD_INPUT;
    if (a_gradient != b_gradient) {
      if (a_gradient) best = i;
    } else if (a->micro_batch != b->micro_batch) {
      if (a->micro_batch < b->micro_batch) best = i;
    } else if (a->chunk > b->chunk) {
      best = i;
    }
  }
  ++state[0];  // Tasks picked on this rank: what is remembered must be in here.
  return best;
}
