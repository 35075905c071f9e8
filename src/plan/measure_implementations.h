// Measured times of the implementations of each layer of a net.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "plan/plan.h"

namespace crema {

// Seconds by layer and implementation. Layers are identified by address, so only graphs that share
// them can use one object.
class ImplementationTimes {
 public:
  bool empty() const { return layers_.empty(); }
  bool Has(const Layer& layer) const { return layers_.contains(&layer); }
  // Returns the seconds of one forward pass, plus one backward pass if the layer has one. Nothing
  // means not measured.
  std::optional<double> SecondsOf(const Layer& layer, const Implementation& implementation) const;
  void Set(const Layer& layer, const Implementation& implementation, double seconds) {
    layers_[&layer][&implementation] = seconds;
  }

 private:
  std::map<const Layer*, std::map<const Implementation*, double>> layers_;
};

// Measures, with the timer of the options, every layer that several implementations can compute.
// Equal layers are measured once. Layers with the largest estimated total time come first. Does
// nothing without a timer, for deterministic plans, and off the CPU. Requires: no value has a
// memory format yet.
ImplementationTimes MeasureImplementations(const Graph& graph, const PlanOptions& options);

// Returns one line of text with everything that the time of a layer depends on: type, parameters
// without names and fillers, inputs, and the conditions of the query.
std::string DescribeForTiming(const OpDesc& query);

}  // namespace crema
