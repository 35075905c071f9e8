// Which models and versions there are, and what they are doing.
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
std::string_view ToString(VersionState state);  // "READY", as Triton says it

struct VersionStatus {
  std::string model;
  int64_t version = 0;
  VersionState state = VersionState::kUnavailable;
  std::string reason;  // why the files last looked at are not what answers; without paths
};

// Names are looked up here, and nowhere else. A version that is replaced or withdrawn answers what
// it has accepted, and is destroyed by Reap().
// Thread safety: any number of threads.
class ModelTable {
 public:
  explicit ModelTable(ServerMetrics& metrics) : metrics_(metrics) {}
  ~ModelTable();
  ModelTable(const ModelTable&) = delete;
  ModelTable& operator=(const ModelTable&) = delete;

  // Version 0: the highest that is ready. Throws kNotFound for what is not there, kUnavailable for
  // what is not ready.
  std::shared_ptr<ModelVersion> Find(std::string_view model, int64_t version) const;
  // Of one model, or of all with an empty name. Throws kNotFound for an unknown model.
  std::vector<VersionStatus> Status(std::string_view model = {}) const;
  // Ascending, in whatever state; none of an unknown model.
  std::vector<int64_t> Versions(std::string_view model) const;
  // Those that are ready.
  std::vector<int64_t> ReadyVersions(std::string_view model) const;
  std::vector<std::shared_ptr<ModelVersion>> AllReady() const;

  // Series of the model, made with the first call.
  std::shared_ptr<ModelMetrics> MetricsOf(const std::string& model);
  void SetLoading(const std::string& model, int64_t version);
  // What was there under that version, if anything, goes on.
  void SetFailed(const std::string& model, int64_t version, const std::string& reason);
  // Takes the place of what was there under that version.
  void Publish(std::shared_ptr<ModelVersion> version);
  void Withdraw(const std::string& model, int64_t version, const std::string& reason);
  void Forget(const std::string& model, int64_t version);  // and the model with its last version

  // Destroys what nobody uses any more and gives its memory back; returns how many are left.
  size_t Reap();
  // Answers what waits with kUnavailable.
  void CancelAll();
  // Destroys all versions, those in use too: requires that nobody asks any more.
  void Clear();

 private:
  struct Slot {
    VersionState state = VersionState::kUnavailable;
    std::string reason;
    bool failed = false;  // the files last looked at
    std::shared_ptr<ModelVersion> loaded;
  };
  struct Entry {
    std::shared_ptr<ModelMetrics> metrics;
    std::map<int64_t, Slot> versions;
  };

  Entry& EntryOf(const std::string& model);
  void Retire(std::shared_ptr<ModelVersion> version);
  static void UpdateMetrics(const Entry& entry);

  ServerMetrics& metrics_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, Entry, std::less<>> models_;
  std::vector<std::shared_ptr<ModelVersion>> retired_;
};

}  // namespace crema::server
