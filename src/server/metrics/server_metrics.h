// What the server counts, for Prometheus.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/request_error.h"

namespace crema::server {

// Numbers of one model; labels are its name only, so that many versions make no new series.
// Thread safety: any number of threads.
class ModelMetrics {
 public:
  virtual ~ModelMetrics() = default;
  virtual void Succeeded(double queue_seconds, double compute_seconds, double total_seconds) = 0;
  virtual void Failed(Cause cause) = 0;
  virtual void Ran(int64_t samples) = 0;         // a batch
  virtual void SetVersion(int64_t version) = 0;  // the one that answers by default; 0: none
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

  // Series of a model, until the last pointer to them is gone.
  std::shared_ptr<ModelMetrics> ForModel(const std::string& model);

  // `protocol`: "http" or "grpc". Of requests that ended; `status` of HTTP, or the code of gRPC.
  void Answered(std::string_view protocol, int status);
  void Refused(Cause cause);  // before a model was known
  void AddInFlight(int change);
  void AddConnections(int change);
  void SetReady(bool ready);

  // Adds crema_gpu_memory_used_bytes, which `used` gives each time that Text() is called, by any
  // thread; it does not throw. At most once.
  void WatchGpu(std::function<int64_t()> used);

  // The exposition format of Prometheus, as of now; with the process's memory and descriptors.
  std::string Text();

 private:
  class Series;
  std::unique_ptr<Series> series_;
};

// Resident bytes of this process; 0 where the system does not say.
int64_t ResidentBytes();

}  // namespace crema::server
