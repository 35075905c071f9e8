#include "server/repository/model_version.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/printable.h"
#include "core/strings.h"
#include "server/protocol/check_request.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

int64_t Nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

int64_t UnixMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The crops of an image are one request.
BatcherOptions WithCrops(BatcherOptions options, const ModelDescription& model) {
  options.max_batch = std::max(options.max_batch, CropsOf(model.preprocessing));
  return options;
}

}  // namespace

ModelVersion::ModelVersion(std::string model, int64_t version,
                           std::shared_ptr<const Executable> executable,
                           const BatcherOptions& options, std::shared_ptr<ModelMetrics> metrics)
    : model_(std::move(model)),
      version_(version),
      executable_(std::move(executable)),
      metrics_(std::move(metrics)),
      batcher_(executable_, WithCrops(options, executable_->description())) {}

void ModelVersion::Infer(InferRequest request, std::function<void(InferAnswer)> done) {
  const auto start = std::chrono::steady_clock::now();
  try {
    const int64_t samples = FitRequest(description(), batching().max_batch, &request);
    batcher_.Submit(
        std::move(request), samples, [this, start, done = std::move(done)](InferOutcome outcome) {
          const double total =
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
          Count(outcome, total);
          done({{model_, version_, std::move(outcome.outputs)}, outcome.failure});
        });
  } catch (...) {
    metrics_->Failed(ToFailure(std::current_exception())->cause());
    ++statistics_.failures;
    throw;
  }
}

void ModelVersion::Count(const InferOutcome& outcome, double total_seconds) {
  if (outcome.batch_samples > 0) {
    metrics_->Ran(outcome.batch_samples);
    ++statistics_.runs;
  }
  if (outcome.failure) {
    metrics_->Failed(outcome.failure->cause());
    ++statistics_.failures;
    statistics_.failed_ns += Nanoseconds(total_seconds);
    return;
  }
  metrics_->Succeeded(outcome.queue_seconds, outcome.compute_seconds, total_seconds);
  ++statistics_.successes;
  statistics_.samples += outcome.samples;
  statistics_.total_ns += Nanoseconds(total_seconds);
  statistics_.queue_ns += Nanoseconds(outcome.queue_seconds);
  statistics_.compute_ns += Nanoseconds(outcome.compute_seconds);
  statistics_.last_ms = UnixMilliseconds();
}

std::string ReadyLine(const ModelVersion& model) {
  constexpr size_t kMostText = 128;  // of a text from the file
  const ModelDescription& description = model.description();
  std::string line = StrCat(
      "model ", model.model(), ": version ", model.version(),
      " is ready: ", description.task.empty() ? "tensors" : Printable(description.task, kMostText));
  const bool fails = !description.task.empty() && !description.task_problem.empty();
  if (fails) line += StrCat(" (", Printable(description.task_problem), ")");
  line += description.inputs.size() == 1 ? "; input " : "; inputs ";
  for (size_t i = 0; i < description.inputs.size(); ++i) {
    const BlobInfo& input = description.inputs[i];
    std::vector<std::string> dims;
    for (const int64_t dim : input.shape) dims.push_back(std::to_string(dim));
    line +=
        StrCat(i == 0 ? "" : ", ", Printable(input.name, kMostText), " [", Join(dims, ","), "]");
  }
  const BlobInfo* image = ImageInput(description);
  if (image != nullptr && image->shape[1] == 3) {
    line += description.preprocessing.rgb ? ", RGB" : ", BGR";
  }
  return line;
}

}  // namespace crema::server
