#include "plan/graph_capture_support.h"

#include "core/strings.h"
#include "plan/host_implementation.h"

namespace crema {

bool IsHostSource(const PlannedLayer& layer) {
  return layer.implementation == nullptr && layer.inputs.empty() && layer.forward &&
         layer.type->name != "Input";  // a program sets its outputs
}

size_t FirstLayerAfterSources(const Plan& plan) {
  size_t first = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (IsHostSource(plan.layers[i])) first = i + 1;
  }
  return first;
}

// Host work of a pass is not repeated when a captured graph is launched.
std::string WhyNoGraphCapture(const Plan& plan) {
  for (size_t i = FirstLayerAfterSources(plan); i < plan.layers.size(); ++i) {
    const PlannedLayer& layer = plan.layers[i];
    const char* reason = layer.implementation == &HostImplementation() ? "runs on the CPU"
                         : layer.info.dynamic_outputs ? "chooses its shape as it runs"
                                                      : nullptr;
    if (reason != nullptr) return StrCat("layer \"", layer.name(), "\" ", reason);
  }
  return "";
}

}  // namespace crema
