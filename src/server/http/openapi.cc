#include <map>
#include <string_view>

#include "core/json.h"
#include "core/strings.h"
#include "server/http/routes.h"

namespace crema::server {
namespace {

constexpr std::string_view kSchemas = R"json({
"Error":{"type":"object","required":["error"],"properties":{"error":{"type":"string"}}},
"Tensor":{"type":"object","required":["name","datatype","shape"],"properties":{
 "name":{"type":"string"},"datatype":{"type":"string","enum":["BOOL","UINT8","UINT16",
  "UINT32","UINT64","INT8","INT16","INT32","INT64","FP16","BF16","FP32","FP64","BYTES"]},
 "shape":{"type":"array","items":{"type":"integer","format":"int64"}},
 "parameters":{"type":"object"},
 "data":{"type":"array","items":{},"description":"flat or nested, row-major"}}},
"RequestedOutput":{"type":"object","required":["name"],"properties":{
 "name":{"type":"string"},"parameters":{"type":"object","properties":{
  "binary_data":{"type":"boolean"},"classification":{"type":"integer","minimum":0}}}}},
"InferRequest":{"type":"object","required":["inputs"],"properties":{
 "id":{"type":"string","maxLength":256},
 "parameters":{"type":"object","properties":{"binary_data_output":{"type":"boolean"},
  "timeout":{"type":"integer","description":"microseconds to wait in the queue at most"}}},
 "inputs":{"type":"array","items":{"$ref":"#/components/schemas/Tensor"}},
 "outputs":{"type":"array","items":{"$ref":"#/components/schemas/RequestedOutput"}}}},
"InferResponse":{"type":"object","properties":{
 "model_name":{"type":"string"},"model_version":{"type":"string"},"id":{"type":"string"},
 "outputs":{"type":"array","items":{"$ref":"#/components/schemas/Tensor"}}}},
"Classes":{"type":"object","properties":{"model":{"type":"string"},"version":{"type":"string"},
 "predictions":{"type":"array","items":{"type":"object","properties":{
  "index":{"type":"integer"},"score":{"type":"number","nullable":true},
  "label":{"type":"string"}}}}}},
"Boxes":{"type":"object","properties":{"model":{"type":"string"},"version":{"type":"string"},
 "width":{"type":"integer"},"height":{"type":"integer"},
 "detections":{"type":"array","items":{"type":"object","properties":{
  "index":{"type":"integer"},"score":{"type":"number"},"label":{"type":"string"},
  "box":{"type":"array","items":{"type":"number"},"minItems":4,"maxItems":4,
   "description":"left, top, right and bottom in pixels of the image"},
  "keypoints":{"type":"array","description":"of models that have them: x and y in pixels",
   "items":{"type":"array","items":{"type":"number"},"minItems":2,"maxItems":2}}}}}}},
"Segments":{"type":"object","properties":{"model":{"type":"string"},"version":{"type":"string"},
 "width":{"type":"integer"},"height":{"type":"integer"},
 "classes":{"type":"array","items":{"type":"object","properties":{
  "index":{"type":"integer"},"share":{"type":"number","description":"of the pixels"},
  "label":{"type":"string"}}}},
 "mask":{"type":"string","format":"byte",
  "description":"PNG of the size of the image, whose pixel values are classes"}}},
"Models":{"type":"object","properties":{"models":{"type":"array","items":{"type":"object",
 "properties":{"name":{"type":"string"},"version":{"type":"string"},
  "task":{"type":"string","nullable":true,"enum":["classify","detect","segment",null]},
  "inputs":{"type":"array","items":{"$ref":"#/components/schemas/Tensor"}},
  "outputs":{"type":"array","items":{"$ref":"#/components/schemas/Tensor"}},
  "image":{"type":"object","properties":{"channels":{"type":"integer"},
   "height":{"type":"integer"},"width":{"type":"integer"},
   "colors":{"type":"string","enum":["gray","BGR","RGB"]},
   "fit":{"type":"string","enum":["stretch","crop","letterbox","reshape"]}}},
  "confidence":{"type":"number"},"problem":{"type":"string"}}}}}}})json";

struct Description {
  std::string_view summary;
  std::string_view request;   // schema of the body; "*": any bytes; empty: no body
  std::string_view response;  // schema, "*" for JSON without one, a media type otherwise
};

Description Describe(Route route) {
  switch (route) {
    case Route::kPage:
      return {"A page on which an image is dropped", "", "text/html"};
    case Route::kOpenApi:
      return {"This description", "", "*"};
    case Route::kMetrics:
      return {"Numbers for Prometheus", "", "text/plain"};
    case Route::kLive:
      return {"Whether the process answers", "", "*"};
    case Route::kReady:
      return {"Whether requests are welcome: 200 or 503", "", "*"};
    case Route::kServer:
      return {"Name, version and extensions of the server", "", "*"};
    case Route::kModel:
      return {"Inputs and outputs of a model", "", "*"};
    case Route::kModelReady:
      return {"Whether a model answers: 200 or 503", "", "*"};
    case Route::kInfer:
      return {"Runs a model", "InferRequest", "InferResponse"};
    case Route::kConfig:
      return {"How a model is served, as Triton says it", "", "*"};
    case Route::kStatistics:
      return {"Counts and times of a model", "", "*"};
    case Route::kAllStatistics:
      return {"Counts and times of all models", "", "*"};
    case Route::kIndex:
      return {"All models, versions and their states", "*", "*"};
    case Route::kLoad:
      return {"Loads the newest version of a model", "*", "*"};
    case Route::kUnload:
      return {"Unloads a model", "*", "*"};
    case Route::kModels:
      return {"The models with their tasks and inputs", "", "Models"};
    case Route::kClassify:
      return {"Classes of an image", "image", "Classes"};
    case Route::kDetect:
      return {"Objects in an image", "image", "Boxes"};
    case Route::kSegment:
      return {"The class of each pixel of an image", "image", "Segments"};
  }
  return {};
}

std::string Schema(std::string_view name) {
  return name == "*" ? std::string("{}")
                     : StrCat(R"({"$ref":"#/components/schemas/)", name, R"("})");
}

std::string RequestBody(const Description& description) {
  if (description.request.empty()) return {};
  if (description.request == "image") {
    return R"("requestBody":{"required":true,"content":{"image/*":{"schema":{"type":"string","format":"binary"}},)"
           R"("multipart/form-data":{"schema":{"type":"object","properties":{"file":{"type":"string","format":"binary"}}}}}},)";
  }
  return StrCat(R"("requestBody":{"content":{"application/json":{"schema":)",
                Schema(description.request), "}}},");
}

std::string Responses(const Description& description) {
  const std::string_view png =
      description.response == "Segments"
          ? R"(,"image/png":{"schema":{"type":"string","format":"binary"}})"
          : "";
  const bool media = description.response.find('/') != std::string_view::npos;
  const std::string good =
      media ? StrCat('"', description.response, R"(":{"schema":{"type":"string"}})")
            : StrCat(R"("application/json":{"schema":)", Schema(description.response), "}");
  return StrCat(R"("responses":{"200":{"description":"Answer","content":{)", good, png,
                R"(}},"default":{"description":"Refused","content":{"application/json":)",
                R"({"schema":{"$ref":"#/components/schemas/Error"}}}}})");
}

std::string Parameters(const RouteRow& row) {
  std::string list;
  const auto add = [&](std::string_view name, std::string_view where, std::string_view schema) {
    if (!list.empty()) list += ',';
    list += StrCat(R"({"name":")", name, R"(","in":")", where, R"(","required":)",
                   where == "path" ? "true" : "false", R"(,"schema":)", schema, "}");
  };
  if (row.pattern.find("{model}") != std::string_view::npos) {
    add("model", "path", R"({"type":"string","pattern":"^[A-Za-z0-9_.-]{1,128}$"})");
  }
  if (row.pattern.find("{version}") != std::string_view::npos) {
    add("version", "path", R"({"type":"integer","format":"int64","minimum":1})");
  }
  if (Describe(row.route).request == "image") {
    add("model", "query", R"({"type":"string"})");
    add("version", "query", R"({"type":"integer","format":"int64"})");
  }
  if (row.route == Route::kDetect) {
    add("confidence", "query", R"({"type":"number","minimum":0,"maximum":1})");
  }
  if (row.route == Route::kClassify) {
    add("k", "query", R"({"type":"integer","minimum":1,"maximum":1000,"default":5})");
  }
  return list.empty() ? std::string() : StrCat(R"("parameters":[)", list, "],");
}

std::string Operation(const RouteRow& row) {
  const Description description = Describe(row.route);
  return StrCat(row.method == "GET" ? "\"get\":{" : "\"post\":{", R"("summary":)",
                JsonString(description.summary), ",",
                row.access == Access::kPublic ? "" : R"("security":[{"token":[]}],)",
                Parameters(row), RequestBody(description), Responses(description), "}");
}

std::string Make() {
  std::map<std::string_view, std::string> paths;
  for (const RouteRow& row : Routes()) {
    if (row.pattern.size() > 1 && row.pattern.ends_with('/')) continue;
    paths[row.pattern] = Operation(row);
  }
  std::string text =
      R"({"openapi":"3.0.3","info":{"title":"Crema: Open Inference Protocol v2","version":"2"},)"
      R"("paths":{)";
  bool first = true;
  for (const auto& [path, operation] : paths) {
    text += StrCat(first ? "" : ",\n", JsonString(path), ":{", operation, "}");
    first = false;
  }
  return StrCat(text, "},\n\"components\":{\"securitySchemes\":{\"token\":",
                R"({"type":"http","scheme":"bearer"}},"schemas":)", kSchemas, "}}\n");
}

}  // namespace

const std::string& OpenApiText() {
  static const std::string text = Make();
  return text;
}

}  // namespace crema::server
