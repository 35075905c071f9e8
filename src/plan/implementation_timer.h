// Measures implementations, for whoever plans.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/implementation.h"

namespace crema {

// Thread safety: any number of threads may plan with one.
class ImplementationTimer {
 public:
  virtual ~ImplementationTimer() = default;

  // Seconds that each of these implementations takes for one forward pass of the layer, and for the
  // backward pass too where `query.backward`, in the order of `implementations`. `layer` is a text
  // on one line, the same for layers that must take the same time. Empty: not measured, estimates
  // decide. Each implementation supports the query; the memory formats of its blobs are its own.
  virtual std::vector<double> Measure(const std::string& layer, const OpDesc& query,
                                      std::span<const Implementation* const> implementations) = 0;

  // Seconds that engines of a library take for a piece of work, in the order of their names;
  // `measure(i)` runs number i and is infinite where it cannot be had. `work` is a text on one line
  // that says what, on what, and with which version. Empty: not measured, the first will do.
  virtual std::vector<double> MeasureEngines(const std::string& /*work*/,
                                             std::span<const std::string> /*engines*/,
                                             const std::function<double(size_t)>& /*measure*/) {
    return {};
  }

  // All layers of a plan were asked about: what was measured can be stored.
  virtual void Keep() {}
};

}  // namespace crema
