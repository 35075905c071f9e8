// Measures the run time of a model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/model.h"
#include "inference/model_batches.h"

namespace crema {

struct BenchOptions {
  int instances = 1;       // runners, each on its own thread
  int64_t warmup = 2;      // uncounted runs per runner
  double seconds = 1;      // minimum; a started run is finished
  int64_t least_runs = 5;  // per runner
};

struct BenchResult {
  int64_t runs = 0;                  // of all runners
  double seconds = 0;                // from the first start to the last end
  double p50 = 0, p90 = 0, p99 = 0;  // seconds per run
};

// Runs the same inputs repeatedly. Throws what ModelRunner::Run throws, and kOutOfMemory if a
// thread cannot be started.
BenchResult BenchModel(const std::shared_ptr<const Model>& model,
                       std::span<const NamedTensor> inputs, const BenchOptions& options);

// Returns the smallest value that at least this share of the values does not exceed. Requires: not
// empty.
double Percentile(std::vector<double> values, double part);

}  // namespace crema
