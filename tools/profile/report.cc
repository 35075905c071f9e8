#include "profile/report.h"

namespace crema::tools {

double FlopShare(const PassProfile& pass, const Roofline& peak) {
  return peak.gflops > 0 ? pass.gflops() / peak.gflops : 0;
}

double MemoryShare(const PassProfile& pass, const Roofline& peak) {
  return peak.gbs > 0 ? pass.gbs() / peak.gbs : 0;
}

std::string ImplementationName(const PlannedLayer& layer) {
  return layer.implementation == nullptr ? "none" : layer.implementation->name;
}

std::string OutputShapes(const Plan& plan, const PlannedLayer& layer) {
  std::string text;
  for (int v : layer.outputs) {
    text += (text.empty() ? "" : " ") + ToString(plan.values[static_cast<size_t>(v)].spec.shape);
  }
  return text;
}

}  // namespace crema::tools
