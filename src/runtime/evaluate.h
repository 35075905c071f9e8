// Runs a net over a data set and averages its outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "runtime/compute_device.h"
#include "runtime/epoch_runner.h"
#include "runtime/session.h"
#include "runtime/weights.h"

namespace crema {

struct EvaluationOptions {
  int64_t iterations = 0;  // batches; 0: every sample of the source exactly once
  int threads = 0;
  int level = 0;                    // NetState
  std::vector<std::string> stages;  // NetState
  LogSink* log = nullptr;
  // Called after each batch with the number of its samples, for callers that need more than means.
  std::function<void(const Session&, int64_t)> on_batch = {};
  bool keep_blobs = false;  // keeps every blob readable in on_batch
  ComputeDevice device = {};
  PlanOptions plan = {};  // threads, backward, optimize and device are set from the fields above
};

// Evaluates the TEST phase of a net with the weights of a caffemodel. Without `iterations` the last
// batch may be smaller. Throws kInvalidArgument if `iterations` is not given and the net has no
// finite source, or if the parameters of a layer are missing in the file.
Evaluation Evaluate(const NetFile& net, const NetParameter& model, const std::string& model_path,
                    const Registry& registry, const EvaluationOptions& options);
// The same with several weights files.
Evaluation Evaluate(const NetFile& net, const WeightsFiles& weights, const Registry& registry,
                    const EvaluationOptions& options);

}  // namespace crema
