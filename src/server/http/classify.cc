#include "server/http/classify.h"

#include <charconv>
#include <utility>

#include "core/json.h"
#include "core/strings.h"
#include "data/image/image_jpeg.h"
#include "inference/classifier.h"
#include "server/http/routes.h"
#include "server/protocol/names.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

constexpr int64_t kMostClasses = 1000;

bool TakesPicture(const ModelDescription& model) {
  if (model.inputs.size() != 1 || model.outputs.empty()) return false;
  const std::vector<int64_t>& dims = model.inputs[0].shape;
  return dims.size() == 4 && (dims[1] == 1 || dims[1] == 3) && dims[2] > 0 && dims[3] > 0;
}

bool Classifies(const ModelDescription& model) {
  return TakesPicture(model) && (model.task.empty() || model.task == "classify");
}

// Checks the size in a JPEG header; other formats are limited when decoded.
void RefuseLargeJpeg(const std::string& picture, int64_t most_pixels) {
#ifdef CREMA_HAVE_JPEG
  if (!IsJpeg(picture)) return;
  const Shape shape = JpegFile(picture, ColorMode::kGray, "the picture").shape();
  if (shape.count() > most_pixels) {
    Refuse(Cause::kTooLarge, StrCat("a picture may have ", most_pixels, " pixels"));
  }
#else
  static_cast<void>(picture);
  static_cast<void>(most_pixels);
#endif
}

}  // namespace

ClassifyQuery ParseClassifyQuery(std::string_view query) {
  ClassifyQuery parsed;
  const std::string_view model = QueryValue(query, "model");
  if (!model.empty() && !IsModelName(model)) {
    Refuse(Cause::kBadRequest, "the name can be none of a model");
  }
  parsed.model = model;
  const std::string_view version = QueryValue(query, "version");
  parsed.version = ParseVersion(version);
  if (!version.empty() && parsed.version == 0) {
    Refuse(Cause::kBadRequest, "the version is not a number from 1 on");
  }
  const std::string_view best = QueryValue(query, "k");
  if (best.empty()) return parsed;
  const auto [end, error] = std::from_chars(best.data(), best.data() + best.size(), parsed.best);
  if (error != std::errc() || end != best.data() + best.size() || parsed.best < 1 ||
      parsed.best > kMostClasses) {
    Refuse(Cause::kBadRequest, StrCat("k is 1 to ", kMostClasses));
  }
  return parsed;
}

std::shared_ptr<ModelVersion> ChooseClassifier(const ModelTable& table,
                                               const ClassifyQuery& query) {
  std::string name = query.model;
  if (name.empty()) {
    for (const auto& version : table.AllReady()) {
      if (version->model() == name || !Classifies(version->description())) continue;
      if (!name.empty()) {
        Refuse(Cause::kBadRequest, "several models classify: choose one with ?model=NAME");
      }
      name = version->model();
    }
    if (name.empty()) Refuse(Cause::kNotFound, "no model that classifies pictures is ready");
  }
  std::shared_ptr<ModelVersion> version = table.Find(name, query.version);
  if (!Classifies(version->description())) {
    Refuse(Cause::kBadRequest, StrCat("model '", name, "' does not classify pictures"));
  }
  return version;
}

InferRequest PictureRequest(const ModelVersion& model, const std::string& picture,
                            int64_t most_pixels) {
  const ModelDescription& description = model.description();
  const BlobInfo& blob = description.inputs[0];
  InferRequest request;
  InputTensor input;
  input.name = blob.name;
  input.shape = Shape{1, blob.shape[1], blob.shape[2], blob.shape[3]};
  input.values.resize(static_cast<size_t>(input.shape.count()));
  try {
    RefuseLargeJpeg(picture, most_pixels);
    FillImageInput(picture, "the picture", description.preprocessing,
                   TensorView(input.values.data(), input.shape, DType::kF32));
  } catch (const RequestError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    // Unsupported by this build, or its module is damaged.
    if (error.code() == ErrorCode::kUnsupported) {
      throw RequestError(Cause::kMediaType,
                         "this server cannot read or scale pictures of this kind", error.what());
    }
    Refuse(Cause::kBadRequest, "cannot decode the request body as an image");
  }
  request.inputs.push_back(std::move(input));
  request.outputs.push_back({description.outputs[0].name, false, 0});
  return request;
}

std::string ClassesJson(const InferReply& reply, const std::vector<std::string>& labels,
                        int64_t best) {
  std::string json = StrCat(R"({"model":)", JsonString(reply.model), R"(,"version":")",
                            reply.version, R"(","predictions":[)");
  bool first = true;
  const auto most = static_cast<size_t>(best);
  for (const Prediction& scored : BestFirst(reply.outputs[0].values, most)) {
    if (!first) json += ',';
    first = false;
    json += StrCat(R"({"index":)", scored.index, R"(,"score":)", JsonNumber(scored.score));
    const auto index = static_cast<size_t>(scored.index);
    if (index < labels.size()) json += StrCat(R"(,"label":)", JsonString(labels[index]));
    json += '}';
  }
  return json + "]}";
}

}  // namespace crema::server
