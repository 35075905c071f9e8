// Which path asks for what.
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
  kClassify,
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
  std::string model;    // checked by IsModelName; empty: the pattern has none
  int64_t version = 0;  // 0: the pattern has none
};

// HEAD counts as GET. Throws kNotFound, kMethodNotAllowed, and kBadRequest for a name of a model or
// a version that can be none.
RouteMatch FindRoute(std::string_view method, std::string_view path);

// Whether a probe asks for health. Throws as FindRoute.
bool AsksForHealth(std::string_view method, std::string_view path);

// The value of `key` in "a=1&b=2"; empty where it is not there. Nothing is decoded: values that
// need it are none of ours.
std::string_view QueryValue(std::string_view query, std::string_view key);

}  // namespace crema::server
