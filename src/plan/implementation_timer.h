// Interface that measures implementations for the planner.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/implementation.h"

namespace crema {

// Thread safety: any number of threads may plan with one timer.
class ImplementationTimer {
 public:
  virtual ~ImplementationTimer() = default;

  // Returns the seconds of one forward pass of the layer (plus the backward pass if
  // `query.backward`) for each implementation, in the order of `implementations`. `layer` is one
  // line of text, equal for layers that take the same time. An empty result means not measured:
  // estimates decide. Requires: each implementation supports the query. Its own memory formats
  // apply to its blobs.
  virtual std::vector<double> Measure(const std::string& layer, const OpDesc& query,
                                      std::span<const Implementation* const> implementations) = 0;

  // Returns the seconds that engines of a library take for one piece of work, in the order of their
  // names. `measure(i)` runs engine i and returns infinity if it is unavailable. `work` is one line
  // of text with the operation, its operands and the library version. An empty result means not
  // measured: the first engine is used.
  virtual std::vector<double> MeasureEngines(const std::string& /*work*/,
                                             std::span<const std::string> /*engines*/,
                                             const std::function<double(size_t)>& /*measure*/) {
    return {};
  }

  // Called after all layers of a plan were measured. Measurements can be stored now.
  virtual void Save() {}
};

}  // namespace crema
