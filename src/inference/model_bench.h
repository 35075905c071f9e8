// How long a model takes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/model.h"
#include "inference/model_batches.h"

namespace crema {

struct BenchOptions {
  int instances = 1;       // runners, each on a thread of its own
  int64_t warmup = 2;      // runs of each that are not counted
  double seconds = 1;      // at least; a run that has begun is ended
  int64_t least_runs = 5;  // of each runner
};

struct BenchResult {
  int64_t runs = 0;                  // of all runners
  double seconds = 0;                // from the first to the end of the last
  double p50 = 0, p90 = 0, p99 = 0;  // seconds of a run
};

// Runs the same inputs again and again. Throws what ModelRunner::Run throws, and kOutOfMemory where
// the system starts no thread for a runner.
BenchResult BenchModel(const std::shared_ptr<const Model>& model,
                       std::span<const NamedTensor> inputs, const BenchOptions& options);

// The smallest value that at least that part of them do not exceed. Requires: some values.
double Percentile(std::vector<double> values, double part);

}  // namespace crema
