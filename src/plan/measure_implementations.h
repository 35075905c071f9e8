// Which implementations can do each layer of a net, and how long they take.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "plan/plan.h"

namespace crema {

// Seconds by layer and implementation. Layers are known by address: it is for graphs that share
// them.
class ImplementationTimes {
 public:
  bool empty() const { return layers_.empty(); }
  bool Has(const Layer& layer) const { return layers_.contains(&layer); }
  // Of one forward pass, and one backward pass too where the layer has one. Nothing: not measured.
  std::optional<double> SecondsOf(const Layer& layer, const Implementation& implementation) const;
  void Set(const Layer& layer, const Implementation& implementation, double seconds) {
    layers_[&layer][&implementation] = seconds;
  }

 private:
  std::map<const Layer*, std::map<const Implementation*, double>> layers_;
};

// Asks the timer of the options about every layer that several implementations can do, equal layers
// once, those first that take the most time in sum by the estimates. Nothing is asked without a
// timer, for deterministic plans, and off the CPU. Requires: no value has a memory format yet.
ImplementationTimes MeasureImplementations(const Graph& graph, const PlanOptions& options);

// What the time of a layer depends on, on one line: type, parameters without names and fillers,
// inputs, and what is asked of it.
std::string DescribeForTiming(const OpDesc& query);

}  // namespace crema
