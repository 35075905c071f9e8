#include "server/http/image_tasks.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/json.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "data/image/png.h"
#include "inference/classifier.h"
#include "server/http/routes.h"
#include "server/protocol/names.h"
#include "server/request_error.h"
#include "server/security/tokens.h"

namespace crema::server {
namespace {

constexpr int64_t kMostClasses = 1000;
constexpr std::string_view kSendFile =
    "; send the file itself: curl --data-binary @x.png, "
    "or -F file=@x.png";

struct TaskRow {
  ImageTask task;
  std::string_view name;
  std::string_view does;
};

constexpr TaskRow kTasks[] = {{ImageTask::kClassify, "classify", "classifies images"},
                              {ImageTask::kDetect, "detect", "detects objects"},
                              {ImageTask::kSegment, "segment", "segments images"}};

const TaskRow& RowOf(ImageTask task) { return *std::ranges::find(kTasks, task, &TaskRow::task); }

bool Does(const ModelDescription& model, ImageTask task) {
  return TakesImage(model) && model.task == ToString(task) && model.task_problem.empty();
}

// `name` is for the message.
template <typename T>
T ParseNumber(std::string_view text, std::string_view name, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= least && value <= most)) {
    Refuse(Cause::kBadRequest,
           StrCat(name, " is '", text.substr(0, 40), "'; use ", least, " to ", most));
  }
  return value;
}

// Refuses parameters that do not exist, have no value or are given twice.
void CheckNames(ImageTask task, std::string_view query) {
  std::vector<std::string> known{"model", "version"};
  if (task == ImageTask::kClassify) known.emplace_back("k");
  if (task == ImageTask::kDetect) known.emplace_back("confidence");
  std::vector<std::string> given;
  if (query.empty()) return;
  for (const std::string& pair : Split(query, '&')) {
    const std::string name = pair.substr(0, pair.find('='));
    if (std::ranges::find(known, name) == known.end()) {
      Refuse(Cause::kBadRequest, StrCat("unknown parameter '", name.substr(0, 40), "'; ",
                                        RowOf(task).name, " takes ", Join(known, ", ")));
    }
    if (name.size() == pair.size()) {
      Refuse(Cause::kBadRequest, StrCat("parameter '", name, "' has no value: ", name, "=VALUE"));
    }
    if (std::ranges::find(given, name) != given.end()) {
      Refuse(Cause::kBadRequest, StrCat("parameter '", name, "' is given twice"));
    }
    given.push_back(name);
  }
}

// Describes a body that cannot be an image; empty for others.
std::string_view OtherThanImage(std::string_view body) {
  const std::string_view text = Trim(body.substr(0, 64));
  if (body.empty()) return "the body is empty";
  if (text.starts_with('{') || text.starts_with('[')) return "the body is JSON, not an image";
  if (text.starts_with("http://") || text.starts_with("https://")) {
    return "the body is an address; images are not fetched";
  }
  // PNG, JPEG and GIF begin so in Base64.
  for (const std::string_view start : {"data:image", "iVBORw0", "/9j/", "R0lGOD"}) {
    if (text.starts_with(start)) return "the body is Base64 text, not an image";
  }
  return "";
}

std::string OnlyModelFor(const ModelTable& table, ImageTask task) {
  std::vector<std::string> names;
  for (const auto& version : table.AllReady()) {
    if (!Does(version->description(), task)) continue;
    if (std::ranges::find(names, version->model()) == names.end())
      names.push_back(version->model());
  }
  const TaskRow& row = RowOf(task);
  if (names.empty()) {
    const bool waits = std::ranges::any_of(table.Status(), [](const VersionStatus& version) {
      return version.state == VersionState::kLoading || version.reason == kUnsettledFiles;
    });
    Refuse(waits ? Cause::kUnavailable : Cause::kNotFound,
           StrCat("no model that ", row.does, " is ready; GET /v1/models lists the models"));
  }
  if (names.size() > 1) {
    constexpr size_t kNamed = 8;
    names.resize(std::min(names.size(), kNamed));
    Refuse(Cause::kBadRequest,
           StrCat("choose one of the models with ?model=NAME: ", Join(names, ", ")));
  }
  return names[0];
}

[[noreturn]] void RefuseTask(const std::string& name, const ModelDescription& model,
                             ImageTask task) {
  for (const TaskRow& row : kTasks) {
    if (!TakesImage(model) || model.task != row.name || row.task == task) continue;
    Refuse(Cause::kBadRequest,
           StrCat("model '", name, "' ", row.does, ": use POST /v1/", row.name, "?model=", name));
  }
  if (!model.task_problem.empty()) {
    Refuse(Cause::kBadRequest,
           StrCat("model '", name, "' cannot answer this: ", model.task_problem));
  }
  Refuse(Cause::kBadRequest,
         StrCat("model '", name, "' takes and gives tensors only: use POST /v2/models/", name,
                "/infer"));
}

std::vector<std::string> OutputsFor(const ModelDescription& model) {
  if (model.detector) return model.detector->outputs();
  return {model.segmenter ? model.segmenter->output() : model.outputs[0].name};
}

InputTensor SizesOf(const ModelDescription& model, const ImagePlacement& place) {
  const auto blob = std::ranges::find(model.inputs, model.sizes_input, &BlobInfo::name);
  InputTensor sizes;
  sizes.name = blob->name;
  sizes.shape = Shape(std::span<const int64_t>(blob->shape));
  sizes.values.resize(3);
  SetSizes(place.input_height, place.input_width, place.scale,
           TensorView(sizes.values.data(), sizes.shape, DType::kF32));
  return sizes;
}

std::string Head(const std::string& model, int64_t version) {
  return StrCat(R"({"model":)", JsonString(model), R"(,"version":")", version, '"');
}

// The fields of a class without braces.
std::string ClassJson(int index, std::string_view number, double value,
                      const std::vector<std::string>& labels) {
  std::string json = StrCat(R"("index":)", index, ",\"", number, "\":", JsonNumber(value));
  const auto at = static_cast<size_t>(index);
  if (at < labels.size()) json += StrCat(R"(,"label":)", JsonString(labels[at]));
  return json;
}

template <typename Range, typename Write>
std::string List(const Range& items, Write&& write) {
  std::string json = "[";
  for (const auto& item : items) json += StrCat(json.size() > 1 ? ",{" : "{", write(item), "}");
  return json + "]";
}

std::string PredictionsJson(const ImageAnswer& answer, const InferReply& reply) {
  const auto most = static_cast<size_t>(answer.query.best);
  const std::vector<float> scores = MeanOfRows(reply.outputs[0].values, answer.crops);
  return StrCat(Head(reply.model, reply.version), R"(,"predictions":)",
                List(BestFirst(scores, most),
                     [&](const Prediction& p) {
                       return ClassJson(p.index, "score", p.score, answer.labels);
                     }),
                "}");
}

std::string SizeJson(const ImageAnswer& answer) {
  return StrCat(R"(,"width":)", answer.placed.width, R"(,"height":)", answer.placed.height);
}

// The field of key points; empty if there are none.
std::string PointsJson(const std::vector<KeyPoint>& points) {
  std::string json;
  for (const KeyPoint& point : points) {
    json += StrCat(json.empty() ? R"(,"keypoints":[)" : ",", "[", JsonNumber(point.x), ",",
                   JsonNumber(point.y), "]");
  }
  return json.empty() ? json : json + "]";
}

std::string DetectionsJson(const ImageAnswer& answer, const InferReply& reply) {
  const double confidence = answer.query.confidence.value_or(answer.detector->default_confidence());
  std::vector<std::span<const float>> values;
  for (const OutputTensor& output : reply.outputs) values.emplace_back(output.values);
  return StrCat(Head(reply.model, reply.version), SizeJson(answer), R"(,"detections":)",
                List(answer.detector->BoxesOf(values, 0, answer.placed.height, answer.placed.width,
                                              answer.placed.place, confidence),
                     [&](const FoundBox& f) {
                       return StrCat(ClassJson(f.label, "score", f.score, answer.labels),
                                     R"(,"box":[)", JsonNumber(f.box.xmin), ",",
                                     JsonNumber(f.box.ymin), ",", JsonNumber(f.box.xmax), ",",
                                     JsonNumber(f.box.ymax), "]", PointsJson(f.keypoints));
                     }),
                "}");
}

// Encodes an indexed picture: the pixels are classes, the palette has their colors.
std::string EncodeLabelMap(const Image& classes) {
  Picture map{.width = classes.width,
              .height = classes.height,
              .channels = 1,
              .pixels = classes.pixels,
              .palette = {}};
  for (int i = 0; i < 256; ++i) map.palette.push_back(ClassColor(i));
  return EncodePng(map);
}

}  // namespace

std::string_view ToString(ImageTask task) { return RowOf(task).name; }

ImageQuery ParseImageQuery(ImageTask task, std::string_view query) {
  CheckNames(task, query);
  ImageQuery parsed;
  parsed.task = task;
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
  if (!best.empty()) parsed.best = ParseNumber<int64_t>(best, "k", 1, kMostClasses);
  const std::string_view confidence = QueryValue(query, "confidence");
  if (!confidence.empty()) {
    parsed.confidence = ParseNumber<double>(confidence, "confidence", 0, 1);
  }
  return parsed;
}

std::shared_ptr<ModelVersion> ChooseModel(const ModelTable& table, const ImageQuery& query) {
  const std::string name = query.model.empty() ? OnlyModelFor(table, query.task) : query.model;
  std::shared_ptr<ModelVersion> version = table.Find(name, query.version);
  if (!Does(version->description(), query.task)) {
    RefuseTask(name, version->description(), query.task);
  }
  return version;
}

ImageRequest ReadImage(const ModelDescription& model, std::string_view file,
                       const RequestLimits& limits) {
  const BlobInfo& blob = *ImageInput(model);
  ImageRequest request;
  InputTensor input;
  input.name = blob.name;
  const std::string_view other = OtherThanImage(file);
  if (!other.empty()) Refuse(Cause::kBadRequest, StrCat(other, kSendFile));
  const std::string refusal = StrCat("cannot decode the request body as an image", kSendFile);
  if (TakesPixels(blob)) {
    request.placed = SetPixelsFromFile(file, refusal, limits, &input, &request.infer);
  } else {
    const int64_t crops = CropsOf(model.preprocessing);
    request.placed = AppendFromFile(model, file, crops, refusal, limits, &input.values);
    const ImagePlacement& place = request.placed.place;
    input.shape = Shape{crops, blob.shape[1], place.input_height, place.input_width};
  }
  request.infer.inputs.push_back(std::move(input));
  if (!model.sizes_input.empty()) {
    request.infer.inputs.push_back(SizesOf(model, request.placed.place));
  }
  for (const std::string& output : OutputsFor(model)) {
    request.infer.outputs.push_back({output, false, 0});
  }
  return request;
}

void ImageAnswer::CheckConfidence() const {
  if (!detector || !query.confidence) return;
  // The threshold of the net is a float.
  if (static_cast<float>(*query.confidence) >= static_cast<float>(detector->least_score())) return;
  Refuse(Cause::kBadRequest, StrCat("confidence is ", *query.confidence,
                                    ", but the model finds no boxes of scores below ",
                                    static_cast<float>(detector->least_score())));
}

HttpResponse ImageAnswer::Write(const InferReply& reply) const {
  HttpResponse response;
  response.body = query.task == ImageTask::kDetect ? DetectionsJson(*this, reply)
                                                   : PredictionsJson(*this, reply);
  return response;
}

Segments ImageAnswer::SegmentsOf(const InferReply& reply) const {
  const OutputTensor& output = reply.outputs[0];
  const ConstTensorView scores(output.values.data(), output.shape, DType::kF32);
  return {reply.model, reply.version, segmenter->ClassesOf(scores, 0, placed.place)};
}

HttpResponse ImageAnswer::Write(const Segments& segments) const {
  const std::string map =
      EncodeLabelMap(ResizeClasses(segments.classes, placed.height, placed.width));
  HttpResponse response;
  if (wants_png) {
    response.content_type = "image/png";
    response.body = map;
    return response;
  }
  response.body = StrCat(
      Head(segments.model, segments.version), SizeJson(*this), R"(,"classes":)",
      List(SharesOf(segments.classes, segmenter->classes()),
           [&](const ClassShare& s) { return ClassJson(s.index, "share", s.share, labels); }),
      R"(,"mask":")", Base64(map), "\"}");
  return response;
}

}  // namespace crema::server
