// Prometheus metrics of the server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/request_error.h"

namespace crema::server {

// Metrics of one model. The only label is its name, so that versions add no series. Thread safety:
// any number of threads.
class ModelMetrics {
 public:
  virtual ~ModelMetrics() = default;
  virtual void Succeeded(double queue_seconds, double compute_seconds, double total_seconds) = 0;
  virtual void Failed(Cause cause) = 0;
  virtual void Ran(int64_t samples) = 0;         // a batch
  virtual void SetVersion(int64_t version) = 0;  // the default version; 0: none
  virtual void LoadEnded(bool good) = 0;
  virtual void SetBadVersions(int64_t count) = 0;
};

// Thread safety: any number of threads.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  // Returns the series of a model, which exist until the last pointer to them is destroyed.
  std::shared_ptr<ModelMetrics> ForModel(const std::string& model);

  // Counts a finished request. `protocol`: "http" or "grpc"; `status`: of HTTP, or the code of
  // gRPC.
  void Answered(std::string_view protocol, int status);
  void Refused(Cause cause);  // before the model is known
  void AddInFlight(int change);
  void AddConnections(int change);
  void SetReady(bool ready);

  // Adds crema_gpu_memory_used_bytes. Each Text() calls `used`, on any thread; it must not throw.
  // Call at most once.
  void WatchGpu(std::function<int64_t()> used);

  // Returns the current metrics in Prometheus' exposition format, including memory and descriptors
  // of the process.
  std::string Text();

 private:
  class Series;
  std::unique_ptr<Series> series_;
};

// Resident bytes of this process; 0 if unknown.
int64_t ResidentBytes();

}  // namespace crema::server
