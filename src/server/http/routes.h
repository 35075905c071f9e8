// The routes of the HTTP interface.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace crema::server {

enum class Route {
  kPage,
  kOpenApi,
  kMetrics,
  kLive,
  kReady,
  kServer,
  kModel,
  kModelReady,
  kInfer,
  kConfig,
  kStatistics,
  kAllStatistics,
  kIndex,
  kLoad,
  kUnload,
  kModels,
  kClassify,
  kDetect,
  kSegment,
};

enum class Access { kPublic, kInference, kAdmin };

struct RouteRow {
  Route route;
  std::string_view method;
  std::string_view pattern;  // "/v2/models/{model}/versions/{version}/infer"
  Access access;
};

std::span<const RouteRow> Routes();

struct RouteMatch {
  const RouteRow* row = nullptr;
  std::string model;    // checked by IsModelName; empty: not in the pattern
  int64_t version = 0;  // 0: not in the pattern
};

// Treats HEAD as GET. Throws kNotFound, kMethodNotAllowed, and kBadRequest for an invalid model
// name or version.
RouteMatch FindRoute(std::string_view method, std::string_view path);

// Returns true for a health probe. Throws like FindRoute.
bool AsksForHealth(std::string_view method, std::string_view path);

// Returns the value of `key` in "a=1&b=2"; empty if missing. Does not decode: our values need no
// encoding.
std::string_view QueryValue(std::string_view query, std::string_view key);

// GET /openapi.json: returns a description of all routes in OpenAPI 3.0, generated from their
// table.
const std::string& OpenApiText();

}  // namespace crema::server
