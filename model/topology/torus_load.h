// What machines that send to each other at once put on the cables of a torus, in closed form: each
// message goes dimension by dimension, as router.h has it there.
#ifndef MEGATWIN_MODEL_TOPOLOGY_TORUS_LOAD_H_
#define MEGATWIN_MODEL_TOPOLOGY_TORUS_LOAD_H_

#include <vector>

namespace megatwin::model {

// Machine m of sizes (a, b, …) stands at (m mod a, m / a mod b, …). One object belongs to one
// thread.
class TorusLoad {
 public:
  explicit TorusLoad(std::vector<int> sizes);

  // The first dimension first, the shorter way round; where both are as long, by the cable that was
  // added first, which is on from 0 and back from all others. Requires: machines of the torus.
  void send(int from, int to, double amount);
  // On the busiest direction of a cable; 0 before anything is sent.
  double busiest() const;

 private:
  std::vector<int> sizes_;
  std::vector<double> loads_;  // By machine, dimension and direction: of the cable that leaves it.
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TOPOLOGY_TORUS_LOAD_H_
