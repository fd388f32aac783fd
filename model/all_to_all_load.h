// What an all-to-all whose pairs send unlike amounts asks of a GPU's links and of the adapters:
// what its closed form (collective_cost.h) needs to know of a table of tokens. Arithmetic only.
#ifndef MEGATWIN_MODEL_ALL_TO_ALL_LOAD_H_
#define MEGATWIN_MODEL_ALL_TO_ALL_LOAD_H_

#include <vector>

namespace megatwin::model {

// [from][to], times the mean pair, which sends 1/n of what a rank sends in the mean; the diagonal
// stays at home.
using PairWeights = std::vector<std::vector<double>>;

// Where a member of the group sits: its machine, and which of the machine's adapters is its own.
struct MemberSite {
  int machine = 0;
  int adapter = 0;
};

// Parts of the bytes that a rank sends in the mean.
struct AllToAllLoad {
  // Of what a GPU sends to, or gets from, others of its machine, the most.
  double inside = 0;
  // Of what one adapter sends or gets, the most: what comes to its GPUs from other machines, and
  // what leaves for others. By PXN that leaves by the adapter beside its destination's, without
  // NVLink by the sender's own.
  double adapter = 0;
  int peers = 0;  // On other machines that one rank sends to or gets from, at most.
};

struct AllToAllPairs {
  const std::vector<MemberSite>& members;
  const PairWeights& weights;  // Of as many rows and columns; empty: all pairs alike.
  bool forwards = true;        // PXN.
};
// Evenly, with l members on each machine that have an adapter each: (l − 1)/n, (n − l)/n and n − l.
AllToAllLoad all_to_all_load(const AllToAllPairs& pairs);

// The number of adapters that the members on the machine with the fewest have as their own.
int fewest_adapters(const std::vector<MemberSite>& members);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_ALL_TO_ALL_LOAD_H_
