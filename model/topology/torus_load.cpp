#include "model/topology/torus_load.h"

#include <algorithm>
#include <utility>

#include "model/assert.h"

namespace megatwin::model {

TorusLoad::TorusLoad(std::vector<int> sizes) : sizes_(std::move(sizes)) {
  std::size_t machines = 1;
  for (const int size : sizes_) machines *= static_cast<std::size_t>(size);
  loads_.assign(machines * sizes_.size() * 2, 0.0);
}

void TorusLoad::send(int from, int to, double amount) {
  MEGATWIN_ASSERT(from >= 0 && to >= 0, from, " ", to);
  int stride = 1;
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    const int size = sizes_[d];
    const int target = to / stride % size;
    int at = from / stride % size;
    const int ahead = (target - at + size) % size;
    const bool on = 2 * ahead < size || (2 * ahead == size && at == 0);
    while (at != target) {
      const std::size_t cable = (static_cast<std::size_t>(from) * sizes_.size() + d) * 2;
      loads_[cable + (on ? 0 : 1)] += amount;
      const int next = (at + (on ? 1 : size - 1)) % size;
      from += (next - at) * stride;
      at = next;
    }
    stride *= size;
  }
}

double TorusLoad::busiest() const {
  return loads_.empty() ? 0 : *std::max_element(loads_.begin(), loads_.end());
}

}  // namespace megatwin::model
