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
  // Called after each batch with the number of its samples, for those who want more than means.
  std::function<void(const Session&, int64_t)> on_batch = {};
  bool keep_blobs = false;  // every blob can be looked at in on_batch
  ComputeDevice device = {};
  PlanOptions plan = {};  // threads, backward, optimize and device follow from what is above
};

// Evaluates the TEST phase of a net with the weights of a caffemodel. Without `iterations` the last
// batch is as small as it must be. Throws kInvalidArgument when the net has no source with an end
// and `iterations` is not given, or when a learned layer is missing in the file.
Evaluation Evaluate(const NetFile& net, const NetParameter& model, const std::string& model_path,
                    const Registry& registry, const EvaluationOptions& options);
// The same with the weights of files.
Evaluation Evaluate(const NetFile& net, const WeightsFiles& weights, const Registry& registry,
                    const EvaluationOptions& options);

}  // namespace crema
