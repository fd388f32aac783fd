/* A policy of your own as a shared library: the only header that it needs. Plain C, and stable:
 * what is here keeps its meaning and its place; a change would come under another function name.
 *
 *   #include "policies/megatwin_policy.h"
 *   int32_t megatwin_policy_v1(const megatwin_observation* seen, int64_t* state) { return 0; }
 *
 *   cc -shared -fPIC -I<megatwin> my_policy.c -o my_policy.so      policy: ./my_policy.so
 *
 * The function is asked on each rank whenever a task may be issued. It returns which of seen->ready
 * to issue next, or MEGATWIN_WAIT for the next event. All that it remembers must be in `state`: so
 * its decisions come out of a log again. It must not look at a clock, a file or anything else. Many
 * ranks, and threads, call it at once, each with its own `state`.
 *
 * Two rules keep a task out of seen->ready though all that it needs is there: a forward that does
 * not fit below the memory limit; and a backward (or weight gradient) of a chunk before that of the
 * micro-batch before it. A policy that fills the memory with later micro-batches can so run out of
 * tasks: docs/own-policy.md has one that does not.
 */
#ifndef MEGATWIN_POLICIES_MEGATWIN_POLICY_H_
#define MEGATWIN_POLICIES_MEGATWIN_POLICY_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MEGATWIN_WAIT = -1 };

/* Numbers in `state`, all 0 before the first call of a run. */
enum { MEGATWIN_POLICY_STATE = 64 };

enum {
  MEGATWIN_FORWARD = 0,
  MEGATWIN_BACKWARD = 1,
  MEGATWIN_BACKWARD_INPUT = 2, /* Schedules that split the backward. */
  MEGATWIN_BACKWARD_WEIGHT = 3
};

/* NOLINTBEGIN(modernize-use-using,readability-identifier-naming): C. */
typedef struct megatwin_task {
  int32_t kind;
  int32_t micro_batch;
  int32_t chunk; /* Of this rank; virtual stage = chunk * stages + stage. */
} megatwin_task;

typedef struct megatwin_observation {
  int32_t stage, stages, chunks, micro_batches;
  int32_t num_ready; /* At least 1. By kind, then chunk, then micro-batch. */
  const megatwin_task* ready;
  double memory_used, memory_limit; /* Bytes, as accounted; the limit may be infinite. */
  int32_t in_flight, issue_depth;   /* Tasks issued and not done; at most so many. */
  int32_t receive_slots;            /* A channel; 0 for no limit. */
  const int32_t* free_slots;        /* 4 channels: activations 0 and 1, gradients 2 and 3. */
  /* Moving averages in ns of forwards by chunk, then backwards by chunk (and weight gradients);
   * 0 before the first. In steps of 1/64 octave. */
  int32_t num_durations;
  const int64_t* durations_ns;
} megatwin_observation;
/* NOLINTEND(modernize-use-using,readability-identifier-naming) */

int32_t megatwin_policy_v1(const megatwin_observation* seen, int64_t* state);

#ifdef __cplusplus
}
#endif

#endif /* MEGATWIN_POLICIES_MEGATWIN_POLICY_H_ */
