// Runs and times nets for compare_runner.
#pragma once

#include <memory>
#include <string>

#include "compare/runner_options.h"
#include "graph/registry.h"

namespace crema::compare {

// Thread safety: one thread.
class Racer {
 public:
  virtual ~Racer() = default;

  // One pass or training step, inputs copied; its loss (0 for inference without one).
  virtual double Run() = 0;
  // Writes the inputs, and the outputs of the last run, into an existing folder; a JSON list of
  // what was written.
  virtual std::string WriteInputs(const std::string& folder) const = 0;
  virtual std::string WriteOutputs(const std::string& folder) const = 0;
  // The net with its blobs as they are now, a caffemodel.
  virtual void WriteWeights(const std::string& path) = 0;
  // Compares the changes that training made to the weights with those in the net in `path`. Returns
  // the length of their difference divided by the length of the change. Throws kUnsupported for
  // inference.
  virtual double CompareUpdates(const std::string& path) = 0;
};

// Reads net and weights and plans. `registry` must live as long. Throws what these throw.
std::unique_ptr<Racer> MakeRacer(const RunnerOptions& options, const Registry& registry);

// mode=weights: writes options.weights.
void WriteRandomWeights(const RunnerOptions& options, const Registry& registry);

}  // namespace crema::compare
