#include "runtime/torch_graph.h"

namespace crema {

TorchGraph::TorchGraph(const Plan& plan, const std::vector<TorchModule>& modules)
    : before_(modules.size()) {
  std::vector<int> module_of(plan.layers.size(), -1);
  for (size_t m = 0; m < modules.size(); ++m) {
    for (const int layer : modules[m].layers) {
      module_of[static_cast<size_t>(layer)] = static_cast<int>(m);
    }
  }
  std::vector<std::set<int>> sources(plan.values.size());
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    std::set<int> from;
    for (const int value : plan.layers[i].inputs) {
      const std::set<int>& source = sources[static_cast<size_t>(value)];
      from.insert(source.begin(), source.end());
    }
    const int module = module_of[i];
    if (module >= 0) {
      from.erase(module);
      before_[static_cast<size_t>(module)].insert(from.begin(), from.end());
      from = {module};
    }
    for (const int value : plan.layers[i].outputs) sources[static_cast<size_t>(value)] = from;
  }
}

}  // namespace crema
