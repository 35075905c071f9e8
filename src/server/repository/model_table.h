// The table of models and versions, and their states.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "server/metrics/server_metrics.h"
#include "server/repository/model_version.h"

namespace crema::server {

enum class VersionState { kLoading, kReady, kUnavailable };
std::string_view ToString(VersionState state);  // "READY", as in Triton

// The reason of a version that waits for --settle_seconds.
inline constexpr const char* kUnsettledFiles = "its files may still be being copied";

struct VersionStatus {
  std::string model;
  int64_t version = 0;
  VersionState state = VersionState::kUnavailable;
  std::string reason;  // why the latest files are not in use; without paths
};

// The only place where names are resolved. A replaced or withdrawn version answers its accepted
// requests and is destroyed by Reap(). Thread safety: any number of threads.
class ModelTable {
 public:
  explicit ModelTable(ServerMetrics& metrics) : metrics_(metrics) {}
  ~ModelTable();
  ModelTable(const ModelTable&) = delete;
  ModelTable& operator=(const ModelTable&) = delete;

  // Version 0: the highest ready one. Throws kNotFound if it does not exist, kUnavailable if it is
  // not ready.
  std::shared_ptr<ModelVersion> Find(std::string_view model, int64_t version) const;
  // Status of one model, or of all if `model` is empty. Throws kNotFound for an unknown model.
  std::vector<VersionStatus> Status(std::string_view model = {}) const;
  // Ascending, in any state; empty for an unknown model.
  std::vector<int64_t> Versions(std::string_view model) const;
  // Versions that are ready.
  std::vector<int64_t> ReadyVersions(std::string_view model) const;
  std::vector<std::shared_ptr<ModelVersion>> AllReady() const;

  // Returns the series of the model, created on the first call.
  std::shared_ptr<ModelMetrics> MetricsOf(const std::string& model);
  void SetLoading(const std::string& model, int64_t version);
  // Keeps an existing version in use.
  void SetFailed(const std::string& model, int64_t version, const std::string& reason);
  // Replaces an existing version.
  void Publish(std::shared_ptr<ModelVersion> version);
  void Withdraw(const std::string& model, int64_t version, const std::string& reason);
  // Removes the model with its last version.
  void Forget(const std::string& model, int64_t version);

  // Destroys unused versions and frees their memory; returns the number still in use.
  size_t Reap();
  // Answers waiting requests with kUnavailable.
  void CancelAll();
  // Destroys all versions, including those in use. Requires: no further requests.
  void Clear();

 private:
  struct Slot {
    VersionState state = VersionState::kUnavailable;
    std::string reason;
    bool failed = false;  // the latest files failed to load
    std::shared_ptr<ModelVersion> loaded;
  };
  struct Entry {
    std::shared_ptr<ModelMetrics> metrics;
    std::map<int64_t, Slot> versions;
  };

  Entry& EntryOf(const std::string& model);
  void Retire(std::shared_ptr<ModelVersion>* version);
  static void UpdateMetrics(const Entry& entry);

  ServerMetrics& metrics_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, Entry, std::less<>> models_;
  std::vector<std::shared_ptr<ModelVersion>> retired_;
};

}  // namespace crema::server
