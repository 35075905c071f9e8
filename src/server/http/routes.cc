#include "server/http/routes.h"

#include <array>

#include "core/strings.h"
#include "server/protocol/names.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

// The first match counts.
constexpr std::array<RouteRow, 26> kRoutes = {{
    {Route::kPage, "GET", "/", Access::kPublic},
    {Route::kOpenApi, "GET", "/openapi.json", Access::kPublic},
    {Route::kMetrics, "GET", "/metrics", Access::kInference},
    {Route::kLive, "GET", "/v2/health/live", Access::kPublic},
    {Route::kLive, "GET", "/healthz", Access::kPublic},  // Kubernetes' usual name
    {Route::kReady, "GET", "/v2/health/ready", Access::kPublic},
    {Route::kServer, "GET", "/v2", Access::kInference},
    {Route::kAllStatistics, "GET", "/v2/models/stats", Access::kInference},
    {Route::kModel, "GET", "/v2/models/{model}", Access::kInference},
    {Route::kModel, "GET", "/v2/models/{model}/versions/{version}", Access::kInference},
    {Route::kModelReady, "GET", "/v2/models/{model}/ready", Access::kInference},
    {Route::kModelReady, "GET", "/v2/models/{model}/versions/{version}/ready", Access::kInference},
    {Route::kInfer, "POST", "/v2/models/{model}/infer", Access::kInference},
    {Route::kInfer, "POST", "/v2/models/{model}/versions/{version}/infer", Access::kInference},
    {Route::kConfig, "GET", "/v2/models/{model}/config", Access::kInference},
    {Route::kConfig, "GET", "/v2/models/{model}/versions/{version}/config", Access::kInference},
    {Route::kStatistics, "GET", "/v2/models/{model}/stats", Access::kInference},
    {Route::kStatistics, "GET", "/v2/models/{model}/versions/{version}/stats", Access::kInference},
    {Route::kIndex, "POST", "/v2/repository/index", Access::kInference},
    {Route::kLoad, "POST", "/v2/repository/models/{model}/load", Access::kAdmin},
    {Route::kUnload, "POST", "/v2/repository/models/{model}/unload", Access::kAdmin},
    {Route::kModels, "GET", "/v1/models", Access::kInference},
    {Route::kClassify, "POST", "/v1/classify", Access::kInference},
    {Route::kDetect, "POST", "/v1/detect", Access::kInference},
    {Route::kSegment, "POST", "/v1/segment", Access::kInference},
    {Route::kServer, "GET", "/v2/", Access::kInference},
}};

std::string_view TakeSegment(std::string_view* path) {
  path->remove_prefix(1);
  const size_t end = std::min(path->find('/'), path->size());
  const std::string_view segment = path->substr(0, end);
  path->remove_prefix(end);
  return segment;
}

// Matches a path against a pattern and stores its parameters in `match`.
bool Fits(std::string_view pattern, std::string_view path, std::string_view* model,
          std::string_view* version) {
  while (!pattern.empty() && !path.empty()) {
    const std::string_view wanted = TakeSegment(&pattern);
    const std::string_view given = TakeSegment(&path);
    if (wanted == "{model}") {
      *model = given;
    } else if (wanted == "{version}") {
      *version = given;
    } else if (wanted != given) {
      return false;
    }
  }
  return pattern.empty() && path.empty();
}

RouteMatch Matched(const RouteRow& row, std::string_view model, std::string_view version) {
  RouteMatch match;
  match.row = &row;
  if (row.pattern.find("{model}") != std::string_view::npos) {
    if (!IsModelName(model)) Refuse(Cause::kBadRequest, "the name can be none of a model");
    match.model = model;
  }
  if (row.pattern.find("{version}") != std::string_view::npos) {
    match.version = ParseVersion(version);
    if (match.version == 0) Refuse(Cause::kBadRequest, "the version is not a number from 1 on");
  }
  return match;
}

}  // namespace

std::span<const RouteRow> Routes() { return kRoutes; }

RouteMatch FindRoute(std::string_view method, std::string_view path) {
  if (method == "HEAD") method = "GET";
  std::string allowed;
  for (const RouteRow& row : kRoutes) {
    std::string_view model;
    std::string_view version;
    if (path.empty() || !Fits(row.pattern, path, &model, &version)) continue;
    if (row.method == method) return Matched(row, model, version);
    const std::string_view takes = row.method == "GET" ? "GET, HEAD" : row.method;
    if (allowed.find(takes) == std::string::npos) {
      allowed += StrCat(allowed.empty() ? "" : ", ", takes);
    }
  }
  if (!allowed.empty()) {
    throw RequestError(Cause::kMethodNotAllowed, StrCat("this path takes ", allowed, " only"), "",
                       allowed);
  }
  Refuse(Cause::kNotFound, "there is nothing under this path; GET /openapi.json lists the paths");
}

bool AsksForHealth(std::string_view method, std::string_view path) {
  const Route route = FindRoute(method, path).row->route;
  return route == Route::kLive || route == Route::kReady;
}

std::string_view QueryValue(std::string_view query, std::string_view key) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == key) {
      return pair.substr(equals + 1);
    }
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return {};
}

}  // namespace crema::server
