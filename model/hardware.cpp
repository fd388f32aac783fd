#include "model/hardware.h"

namespace megatwin::model {

FlopPerSecond Gpu::peak_of(DataType type) const {
  switch (type) {
    case DataType::Fp32:
      return peak.fp32;
    case DataType::Tf32:
      return peak.tf32;
    case DataType::Fp16:
      return peak.fp16;
    case DataType::Bf16:
      return peak.bf16;
    case DataType::Fp8:
      return peak.fp8;
    case DataType::Fp4:
      return peak.fp4;
  }
  return {};
}

FabricRouting routing_of(const Fabric& fabric, const Node& node) {
  return fabric.routing.value_or(node.static_routes ? FabricRouting::Ecmp : FabricRouting::Spray);
}

FabricRouting routing_of(const Cluster& cluster) {
  for (const NodeGroup& group : cluster.groups) {
    if (routing_of(cluster.fabric, group.node) == FabricRouting::Ecmp) return FabricRouting::Ecmp;
  }
  return FabricRouting::Spray;
}

}  // namespace megatwin::model
