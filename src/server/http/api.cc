#include "server/http/api.h"

#include <charconv>
#include <utility>

#include "core/strings.h"
#include "server/http/access_log.h"
#include "server/http/metadata_json.h"
#include "server/http/multipart.h"
#include "server/http/routes.h"
#include "server/model/image_file.h"
#include "server/protocol/infer_json.h"
#include "server/protocol/load_json.h"

namespace crema::server {
namespace {

// Longer requests are parsed by the pool, so that they do not delay short ones.
constexpr size_t kLongBody = size_t{64} << 10;
constexpr size_t kSmallBody = size_t{64} << 10;

HttpResponse Json(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse Text(std::string_view type, std::string_view body) {
  HttpResponse response;
  response.content_type = type;
  response.body = body;
  return response;
}

// `first`: members before, with a comma.
HttpResponse Health(std::string_view what, bool good, std::string_view first = "") {
  HttpResponse response = Json(StrCat("{", first, "\"", what, "\":", good ? "true" : "false", "}"));
  response.status = good ? 200 : 503;
  return response;
}

std::optional<ImageTask> ImageTaskOf(Route route) {
  if (route == Route::kClassify) return ImageTask::kClassify;
  if (route == Route::kDetect) return ImageTask::kDetect;
  if (route == Route::kSegment) return ImageTask::kSegment;
  return std::nullopt;
}

std::optional<size_t> HeaderLength(const HttpHead& head) {
  const std::string_view text = head.Find("inference-header-content-length");
  if (text.empty()) return std::nullopt;
  size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size()) {
    Refuse(Cause::kBadRequest, "Inference-Header-Content-Length is not a number");
  }
  return length;
}

HttpResponse InferResponse(const InferRequest& wishes, const InferReply& reply,
                           const std::vector<std::string>& labels) {
  InferBody body = WriteInferReply(wishes, reply, labels);
  HttpResponse response = Json(std::move(body.bytes));
  if (body.header_length) {
    response.content_type = "application/octet-stream";
    response.fields.emplace_back("Inference-Header-Content-Length",
                                 std::to_string(*body.header_length));
  }
  return response;
}

}  // namespace

HttpApi::HttpApi(Service& service, const ApiOptions& options, int log)
    : service_(service),
      options_(options),
      log_(log, options.access_log == AccessLog::kJson ? DroppedLinesJson : DroppedLinesText),
      pool_(options.work_threads, size_t{256}),
      changes_(1, size_t{256}) {}

void HttpApi::Stop() {
  changes_.Stop();
  pool_.Stop();
}

void HttpApi::ReportFailure(const std::exception_ptr& failure) noexcept {
  try {
    service_.Refused(ToRequestError(failure));
  } catch (...) {
    // Not enough memory for an answer.
  }
}

size_t HttpApi::Admit(const HttpHead& head) {
  const RouteMatch match = FindRoute(head.method, head.path);
  const std::string_view authorization = head.Find("authorization");
  switch (match.row->access) {
    case Access::kPublic:
      break;
    case Access::kInference:
      service_.RequireInference(authorization);
      break;
    case Access::kAdmin:
      service_.RequireAdmin(authorization);
      break;
  }
  if (match.row->route != Route::kLive && match.row->route != Route::kReady) {
    service_.RequireNotEnding();
  }
  const std::string_view coding = head.Find("content-encoding");
  if (!coding.empty() && coding != "identity") {
    Refuse(Cause::kMediaType, "compressed bodies are not read");
  }
  if (match.row->method == "GET") return 0;
  // Refuses an unknown model before its body is read.
  if (match.row->route == Route::kInfer) {
    service_.Find(match.model, match.version);
    return service_.limits.body_bytes;
  }
  if (const std::optional<ImageTask> task = ImageTaskOf(match.row->route)) {
    ChooseModel(service_.table, ParseImageQuery(*task, head.query));
    return service_.limits.image_bytes + kMostFormBytes;
  }
  return kSmallBody;
}

void HttpApi::Handle(HttpRequest request, HttpRespond respond) {
  const auto under_way = std::make_shared<InFlight>(service_);
  const HttpRespond answered = [under_way, respond = std::move(respond)](HttpResponse response) {
    respond(std::move(response));
    under_way->End();
  };
  try {
    Answer(request, FindRoute(request.head.method, request.head.path), answered);
  } catch (...) {
    answered(Explain(ToRequestError(std::current_exception())));
  }
}

HttpResponse HttpApi::Explain(const RequestError& error) {
  HttpResponse response = Json(ErrorJson(error.message()));
  response.status = HttpStatus(error.cause());
  if (response.status == 503) response.fields.emplace_back("Retry-After", "1");
  if (response.status == 401) response.fields.emplace_back("WWW-Authenticate", "Bearer");
  if (!error.allow().empty()) response.fields.emplace_back("Allow", error.allow());
  service_.Refused(error);
  return response;
}

void HttpApi::Log(const HttpLogEntry& entry) {
  service_.metrics.Answered("http", entry.status);
  if (options_.access_log == AccessLog::kNone) return;
  log_.Write(options_.access_log == AccessLog::kJson ? AccessLineJson(entry)
                                                     : AccessLineText(entry));
}

void HttpApi::Answer(const HttpRequest& request, const RouteMatch& match,
                     const HttpRespond& respond) {
  switch (match.row->route) {
    case Route::kInfer:
      return Infer(request, match, respond);
    case Route::kClassify:
    case Route::kDetect:
    case Route::kSegment:
      return AnswerImage(request, *ImageTaskOf(match.row->route), respond);
    case Route::kLoad:
    case Route::kUnload:
      return LoadOrUnload(request, match, respond);
    default:
      return respond(AnswerNow(request, match));
  }
}

HttpResponse HttpApi::AnswerNow(const HttpRequest& request, const RouteMatch& match) {
  switch (match.row->route) {
    case Route::kPage:
      return PageResponse();
    case Route::kOpenApi:
      return Text("application/json", OpenApiText());
    case Route::kMetrics:
      return Text("text/plain; version=0.0.4", service_.metrics.Text());
    case Route::kLive:
      return Health("live", true);
    case Route::kReady:
      return Health("ready", service_.ready);
    case Route::kServer:
      return Json(ServerMetadataJson(service_.version));
    case Route::kModels:
      return Json(ModelsJson(service_.table.AllReady()));
    case Route::kAllStatistics:
      return Json(StatisticsJson(service_.table.AllReady()));
    case Route::kIndex:
      return Json(IndexJson(service_.table.Status(), AsksForReady(*request.body)));
    default:
      return AnswerModel(match);
  }
}

HttpResponse HttpApi::AnswerModel(const RouteMatch& match) {
  if (match.row->route == Route::kModelReady) {
    // Names that are found need no escapes.
    const std::string name = StrCat("\"name\":\"", match.model, "\",");
    try {
      service_.Find(match.model, match.version);
      return Health("ready", true, name);
    } catch (const RequestError& error) {
      if (error.cause() == Cause::kUnavailable) return Health("ready", false, name);
      throw;
    }
  }
  const std::shared_ptr<ModelVersion> model = service_.Find(match.model, match.version);
  switch (match.row->route) {
    case Route::kModel:
      return Json(ModelMetadataJson(*model, service_.table.ReadyVersions(match.model)));
    case Route::kConfig:
      return Json(ModelConfigJson(*model));
    default:
      return Json(StatisticsJson(std::span(&model, 1)));
  }
}

std::function<void()> HttpApi::Guarded(const HttpRespond& respond, std::function<void()> work) {
  return [this, respond, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      respond(Explain(ToRequestError(std::current_exception())));
    }
  };
}

void HttpApi::Aside(WorkPool& pool, const HttpRespond& respond, std::function<void()> work) {
  pool.Submit(Guarded(respond, std::move(work)));
}

void HttpApi::LoadOrUnload(const HttpRequest& request, const RouteMatch& match,
                           const HttpRespond& respond) {
  Repository& repository = service_.RepositoryOrRefuse();
  if (match.row->route == Route::kLoad) CheckLoadBody(*request.body);
  Aside(changes_, respond, [&repository, match, respond] {
    if (match.row->route == Route::kLoad) {
      repository.Load(match.model);
    } else {
      repository.Unload(match.model);
    }
    respond(Json("{}"));
  });
}

void HttpApi::Infer(const HttpRequest& request, const RouteMatch& match,
                    const HttpRespond& respond) {
  // Only the header of a body with a header length is JSON.
  const size_t json = HeaderLength(request.head).value_or(request.body->size());
  if (json <= kLongBody) return StartInfer(request, match, respond);
  Aside(pool_, respond, [this, request, match, respond] { StartInfer(request, match, respond); });
}

void HttpApi::StartInfer(const HttpRequest& request, const RouteMatch& match,
                         const HttpRespond& respond) {
  const std::shared_ptr<ModelVersion> model = service_.Find(match.model, match.version);
  auto infer = std::make_shared<InferRequest>(
      ParseInferRequest(request.body, HeaderLength(request.head), service_.limits));
  infer->cancelled = request.cancelled;
  if (!HasImages(*infer)) return Run(*model, std::move(*infer), respond);
  Aside(pool_, respond, [this, model, infer, respond] {
    DecodeImages(model->description(), model->batching().max_batch, service_.limits, infer.get());
    Run(*model, std::move(*infer), respond);
  });
}

void HttpApi::Run(ModelVersion& model, InferRequest infer, const HttpRespond& respond) {
  InferRequest wishes;
  wishes.id = infer.id;
  wishes.outputs = infer.outputs;
  wishes.binary_outputs = infer.binary_outputs;
  // `done` must not own the version, which outlives its accepted requests.
  const ModelVersion* asked = &model;
  model.Infer(std::move(infer),
              [this, asked, wishes = std::move(wishes), respond](const InferAnswer& answer) {
                HttpResponse response;
                try {
                  if (answer.failure) throw RequestError(*answer.failure);
                  response = InferResponse(wishes, answer.reply, asked->description().labels);
                } catch (...) {
                  response = Explain(ToRequestError(std::current_exception()));
                }
                respond(std::move(response));
              });
}

void HttpApi::AnswerImage(const HttpRequest& request, ImageTask task, const HttpRespond& respond) {
  Aside(pool_, respond, [this, request, task, respond] {
    const ImageQuery query = ParseImageQuery(task, request.head.query);
    const std::shared_ptr<ModelVersion> model = ChooseModel(service_.table, query);
    const ModelDescription& description = model->description();
    ImageAnswer image{
        .query = query,
        .placed = {},
        .labels = description.labels,
        .detector = description.detector,
        .segmenter = description.segmenter,
        .crops = CropsOf(description.preprocessing),
        .wants_png = request.head.Find("accept").find("image/png") != std::string_view::npos};
    image.CheckConfidence();
    ImageRequest read = ReadImage(
        description, FileOfBody(request.head.Find("content-type"), *request.body), service_.limits);
    read.infer.cancelled = request.cancelled;
    image.placed = read.placed;
    model->Infer(std::move(read.infer),
                 [this, image = std::move(image), respond](const InferAnswer& answer) {
                   WriteImageAnswer(image, answer, respond);
                 });
  });
}

void HttpApi::WriteImageAnswer(const ImageAnswer& image, const InferAnswer& answer,
                               const HttpRespond& respond) {
  try {
    if (answer.failure) throw RequestError(*answer.failure);
    if (image.query.task != ImageTask::kSegment) return respond(image.Write(answer.reply));
    // Encoding a label map is slow, and this thread runs the model. The classes are smaller than
    // the scores.
    auto segments = std::make_shared<const Segments>(image.SegmentsOf(answer.reply));
    pool_.SubmitAccepted(
        Guarded(respond, [image, segments, respond] { respond(image.Write(*segments)); }));
  } catch (...) {
    respond(Explain(ToRequestError(std::current_exception())));
  }
}

}  // namespace crema::server
