// One loaded version of a model.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/batching/batcher.h"
#include "server/metrics/server_metrics.h"
#include "server/model/executable.h"
#include "server/protocol/infer_message.h"

namespace crema::server {

// Totals since loading.
struct VersionStatistics {
  std::atomic<int64_t> successes{0};
  std::atomic<int64_t> failures{0};
  std::atomic<int64_t> samples{0};
  std::atomic<int64_t> runs{0};
  std::atomic<int64_t> total_ns{0};
  std::atomic<int64_t> failed_ns{0};
  std::atomic<int64_t> queue_ns{0};
  std::atomic<int64_t> compute_ns{0};
  std::atomic<int64_t> last_ms{0};  // Unix time in ms
};

// Either the reply or a failure.
struct InferAnswer {
  InferReply reply;
  SharedFailure failure;
};

// Thread safety: any number of threads.
class ModelVersion {
 public:
  // Warms the model. Throws what warming throws.
  ModelVersion(std::string model, int64_t version, std::shared_ptr<const Executable> executable,
               const BatcherOptions& options, std::shared_ptr<ModelMetrics> metrics);

  const std::string& model() const { return model_; }
  int64_t version() const { return version_; }
  const ModelDescription& description() const { return executable_->description(); }
  const BatcherOptions& batching() const { return batcher_.options(); }
  const VersionStatistics& statistics() const { return statistics_; }

  // Calls `done` once, unless this throws: kBadRequest if the request does not fit the model,
  // kQueueFull, kUnavailable.
  void Infer(InferRequest request, std::function<void(InferAnswer)> done);
  void Cancel() { batcher_.Cancel(); }

 private:
  void Count(const InferOutcome& outcome, double total_seconds);

  const std::string model_;
  const int64_t version_;
  const std::shared_ptr<const Executable> executable_;
  const std::shared_ptr<ModelMetrics> metrics_;
  VersionStatistics statistics_;
  Batcher batcher_;  // last, since its threads use the other members
};

// Returns a line for the log: "model lenet: version 1 is ready: classify; input data [-1,1,28,28]".
std::string ReadyLine(const ModelVersion& model);

}  // namespace crema::server
