// What the HTTP and the gRPC side share.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "core/log.h"
#include "server/limits.h"
#include "server/metrics/server_metrics.h"
#include "server/repository/model_table.h"
#include "server/repository/repository.h"
#include "server/security/tokens.h"

namespace crema::server {

// Thread safety: but for `repository` and the tokens, which are set before anything listens, any
// number of threads.
struct Service {
  Service(const RequestLimits& request_limits, LogSink& sink) : limits(request_limits), log(sink) {}

  const RequestLimits limits;
  LogSink& log;
  ServerMetrics metrics;
  ModelTable table{metrics};
  Repository* repository = nullptr;  // null: one model, which stays
  TokenSet inference_tokens;
  TokenSet admin_tokens;  // empty: nobody may load and unload
  std::string version = "0";
  std::atomic<bool> ready{false};
  std::atomic<int64_t> in_flight{0};  // requests that are being answered

  void SetReady(bool is_ready) {
    ready = is_ready;
    metrics.SetReady(is_ready);
  }
  void Begin() {
    ++in_flight;
    metrics.AddInFlight(1);
  }
  void End() {
    metrics.AddInFlight(-1);
    --in_flight;
  }
  // Counts a request that is refused; what only the operator may know goes to the log.
  void Refused(const RequestError& error);
  // Throw kUnauthorized or kForbidden. `authorization` is "Bearer ...", or empty.
  void RequireInference(std::string_view authorization) const;
  void RequireAdmin(std::string_view authorization) const;
  // Throws kUnsupported (as kBadRequest) where there is no repository.
  Repository& RepositoryOrRefuse() const;
};

}  // namespace crema::server
