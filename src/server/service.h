// State shared by the HTTP and the gRPC interface.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "core/log.h"
#include "server/limits.h"
#include "server/metrics/server_metrics.h"
#include "server/repository/model_table.h"
#include "server/repository/repository.h"
#include "server/security/tokens.h"

namespace crema::server {

// Thread safety: any number of threads.
struct Service {
  Service(const RequestLimits& request_limits, LogSink& sink) : limits(request_limits), log(sink) {}

  const RequestLimits limits;
  LogSink& log;
  ServerMetrics metrics;
  ModelTable table{metrics};
  std::atomic<Repository*> repository{nullptr};  // null: a single fixed model
  SharedTokens inference_tokens;
  SharedTokens admin_tokens;  // empty: loading and unloading is disabled
  std::string version = "0";
  std::atomic<bool> ready{false};     // see SetReady
  std::atomic<bool> ending{false};    // refuse new requests except health
  std::atomic<int64_t> in_flight{0};  // requests in progress

  // The server is ready when its models are, and when gRPC, if enabled, accepts connections.
  void SetReady(bool models_are);
  void SetGrpcAccepts(bool accepts);
  // Calls `changed` now and on each change, until it is set to null. `changed` must not call
  // Service.
  void OnReady(std::function<void(bool ready)> changed);
  // Counts a refused request; logs details that only the operator may see.
  void Refused(const RequestError& error);
  // Throw kUnauthorized or kForbidden. `authorization` is "Bearer ...", or empty.
  void RequireInference(std::string_view authorization) const;
  void RequireAdmin(std::string_view authorization) const;
  // Throws kUnavailable when the server is shutting down.
  void RequireNotEnding() const;
  // Like ModelTable::Find; throws kUnavailable if the model was removed by the shutdown.
  std::shared_ptr<ModelVersion> Find(std::string_view model, int64_t version_number) const;
  // Throws kUnsupported (as kBadRequest) without a repository.
  Repository& RepositoryOrRefuse() const;

 private:
  void UpdateReady();  // requires ready_mutex_

  std::mutex ready_mutex_;
  bool models_are_ready_ = false;
  bool grpc_accepts_ = true;
  std::function<void(bool ready)> ready_changed_;
};

// Counts a request in progress until End() or destruction. Thread safety: one thread at a time.
class InFlight {
 public:
  explicit InFlight(Service& service) : service_(&service) {
    ++service.in_flight;
    service.metrics.AddInFlight(1);
  }
  ~InFlight() { End(); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  void End() {
    if (service_ == nullptr) return;
    service_->metrics.AddInFlight(-1);
    --service_->in_flight;
    service_ = nullptr;
  }

 private:
  Service* service_;
};

}  // namespace crema::server
