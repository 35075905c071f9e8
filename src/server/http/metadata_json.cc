#include "server/http/metadata_json.h"

#include <algorithm>

#include "core/json.h"
#include "core/strings.h"
#include "server/protocol/datatype.h"

namespace crema::server {
namespace {

std::string Numbers(std::span<const int64_t> numbers) {
  std::string json = "[";
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) json += ',';
    json += std::to_string(numbers[i]);
  }
  return json + "]";
}

template <typename Range, typename Write>
std::string Array(const Range& items, Write&& write) {
  std::string json = "[";
  for (const auto& item : items) {
    if (json.size() > 1) json += ',';
    json += write(item);
  }
  return json + "]";
}

std::string Tensors(const std::vector<BlobInfo>& blobs) {
  return Array(blobs, [](const BlobInfo& blob) {
    return StrCat(R"({"name":)", JsonString(blob.name), R"(,"datatype":")", DatatypeOf(blob.dtype),
                  R"(","shape":)", Numbers(blob.shape), "}");
  });
}

// Triton omits the first dimension of models that batch.
std::string ConfigTensors(const std::vector<BlobInfo>& blobs, bool batches) {
  return Array(blobs, [&](const BlobInfo& blob) {
    const std::span<const int64_t> dims = blob.shape;
    return StrCat(R"({"name":)", JsonString(blob.name), R"(,"data_type":"TYPE_)",
                  DatatypeOf(blob.dtype), R"(","dims":)", Numbers(batches ? dims.subspan(1) : dims),
                  "}");
  });
}

std::string Duration(int64_t count, int64_t nanoseconds) {
  return StrCat(R"({"count":)", count, R"(,"ns":)", nanoseconds, "}");
}

std::string ImageJson(const ModelDescription& model) {
  const std::vector<int64_t>& dims = ImageInput(model)->shape;
  return StrCat(R"({"channels":)", dims[1], R"(,"height":)", dims[2], R"(,"width":)", dims[3],
                R"(,"colors":")",
                dims[1] == 1              ? "gray"
                : model.preprocessing.rgb ? "RGB"
                                          : "BGR",
                R"(","fit":")", ToString(model.preprocessing.fit), "\"}");
}

std::string ModelJson(const ModelVersion& model) {
  const ModelDescription& description = model.description();
  std::string json = StrCat(
      R"({"name":)", JsonString(model.model()), R"(,"version":")", model.version(), R"(","task":)",
      description.task.empty() ? "null" : JsonString(description.task), R"(,"inputs":)",
      Tensors(description.inputs), R"(,"outputs":)", Tensors(description.outputs));
  if (TakesImage(description)) json += StrCat(R"(,"image":)", ImageJson(description));
  if (description.detector) {
    json += StrCat(R"(,"confidence":)", JsonNumber(description.detector->default_confidence()));
  }
  if (!description.task_problem.empty()) {
    json += StrCat(R"(,"problem":)", JsonString(description.task_problem));
  }
  return json + "}";
}

}  // namespace

std::string ModelsJson(std::span<const std::shared_ptr<ModelVersion>> models) {
  return StrCat(R"({"models":)", Array(models, [](const auto& model) { return ModelJson(*model); }),
                "}");
}

std::string ServerMetadataJson(const std::string& version) {
  return StrCat(R"({"name":"crema","version":)", JsonString(version),
                R"(,"extensions":["binary_tensor_data","classification","model_repository",)",
                R"("model_configuration","statistics"]})");
}

std::string ModelMetadataJson(const ModelVersion& model, std::span<const int64_t> versions) {
  const ModelDescription& description = model.description();
  return StrCat(R"({"name":)", JsonString(model.model()), R"(,"versions":)",
                Array(versions, [](int64_t v) { return StrCat('"', v, '"'); }),
                R"(,"platform":"crema","inputs":)", Tensors(description.inputs), R"(,"outputs":)",
                Tensors(description.outputs), "}");
}

std::string ModelConfigJson(const ModelVersion& model) {
  const ModelDescription& description = model.description();
  const BatcherOptions& batching = model.batching();
  const bool batches = description.batches;
  std::string json =
      StrCat(R"({"name":)", JsonString(model.model()), R"(,"platform":"crema","backend":"crema",)",
             R"("max_batch_size":)", batches ? batching.max_batch : 0, R"(,"input":)",
             ConfigTensors(description.inputs, batches), R"(,"output":)",
             ConfigTensors(description.outputs, batches), R"(,"instance_group":[{"count":)",
             batching.instances, "}]");
  if (batches) {
    json += StrCat(R"(,"dynamic_batching":{"max_queue_delay_microseconds":)", batching.max_delay_us,
                   "}");
  }
  return json + "}";
}

std::string StatisticsJson(std::span<const std::shared_ptr<ModelVersion>> models) {
  return StrCat(R"({"model_stats":)",
                Array(models,
                      [](const auto& model) {
                        const VersionStatistics& s = model->statistics();
                        const int64_t good = s.successes;
                        return StrCat(
                            R"({"name":)", JsonString(model->model()), R"(,"version":")",
                            model->version(), R"(","last_inference":)", s.last_ms.load(),
                            R"(,"inference_count":)", s.samples.load(), R"(,"execution_count":)",
                            s.runs.load(), R"(,"inference_stats":{"success":)",
                            Duration(good, s.total_ns), R"(,"fail":)",
                            Duration(s.failures, s.failed_ns), R"(,"queue":)",
                            Duration(good, s.queue_ns), R"(,"compute_input":)", Duration(good, 0),
                            R"(,"compute_infer":)", Duration(good, s.compute_ns),
                            R"(,"compute_output":)", Duration(good, 0), R"(},"batch_stats":[]})");
                      }),
                "}");
}

std::string IndexJson(std::span<const VersionStatus> rows, bool ready_only) {
  std::vector<const VersionStatus*> shown;
  for (const VersionStatus& row : rows) {
    if (!ready_only || row.state == VersionState::kReady) shown.push_back(&row);
  }
  return Array(shown, [](const VersionStatus* row) {
    return StrCat(R"({"name":)", JsonString(row->model), R"(,"version":")", row->version,
                  R"(","state":")", ToString(row->state), R"(","reason":)", JsonString(row->reason),
                  "}");
  });
}

std::string ErrorJson(std::string_view message) {
  return StrCat(R"({"error":)", JsonString(message), "}");
}

}  // namespace crema::server
