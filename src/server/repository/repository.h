// Keeps the model table in sync with the repository folder.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/log.h"
#include "server/repository/model_table.h"
#include "server/repository/repository_scan.h"

namespace crema::server {

struct RepositoryOptions {
  std::string path;
  std::chrono::milliseconds poll{1000};    // 0: only on request
  std::chrono::milliseconds settle{2000};  // files unchanged for this long are complete
  std::chrono::milliseconds first_wait{
      30000};  // at startup, for files that keep changing; then a warning
  std::chrono::milliseconds first_retry{1000};  // after a temporary failure; doubles each time
  size_t keep_versions = 1;                     // newest loadable versions to keep
  BatcherOptions batching;
};

// Throws Error if the files cannot be loaded.
using LoadExecutable = std::function<std::shared_ptr<const Executable>(const std::string& model,
                                                                       const VersionFiles& files)>;

// A thread that polls the folder. A new version is loaded and warmed before it replaces the old
// one. A version that failed is retried only when its files change, except after temporary failures
// such as lack of memory. An unreadable folder leaves its models unchanged. Thread safety: any
// number of threads.
class Repository {
 public:
  Repository(RepositoryOptions options, LoadExecutable load, ModelTable& table, LogSink& log);
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  // Returns when everything loadable is ready; waits for files that may still be being copied.
  // Throws kNotFound if the folder is missing.
  void Start();
  void Stop();

  // Loads the newest versions of a model immediately. Throws kNotFound for an unknown model,
  // kUnavailable if its folder cannot be read, kBadRequest with the reasons if a version cannot be
  // loaded, even if an older one is in use.
  void Load(const std::string& model);
  // Unloads a model until it is loaded by name again. Throws kNotFound.
  void Unload(const std::string& model);
  // Polls the folder once, like the thread.
  void Poll();

 private:
  using Versions = std::map<int64_t, VersionFiles>;
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::string loaded;                            // signature of the files in use; empty: none
    std::string failed;                            // signature of files that cannot be loaded
    std::chrono::milliseconds wait{0};             // delay after a temporary failure; 0: permanent
    Clock::time_point retry;                       // end of that delay
    std::string seen;                              // signature at the last poll
    Clock::time_point since;                       // first poll with that signature
    std::optional<Clock::time_point> waits_since;  // first poll that found it unsettled
    bool IsNews(const VersionFiles& files) const;
  };

  void Watch();
  void Pass(bool settled_only);
  void Warn(std::vector<std::string> warnings);
  void KeepUnloaded(const std::string& model, const Versions& found);
  void ForgetMissing(const std::string& model, const Versions& found);
  // Adds a version that is not in the table as unavailable.
  void List(const std::string& model, int64_t version, const std::string& reason);
  void Update(const std::string& model, const Versions& found, bool settled_only);
  void Try(const std::string& model, int64_t version, const VersionFiles& files);
  void Remove(const std::string& model, int64_t version);
  // Returns true if the files have been unchanged for long enough, by a monotonic clock.
  bool IsSettled(const VersionFiles& files, Known* state) const;
  void WarnOfWaiting(const std::string& model, int64_t version, Known* state);
  void Failed(const VersionFiles& files, bool passes, Known* state) const;
  void RefuseFailed(const std::string& model) const;

  const RepositoryOptions options_;
  const LoadExecutable load_;
  ModelTable& table_;
  LogSink& log_;
  std::mutex passes_;  // serializes polls; guards the members up to mutex_
  std::map<std::string, std::map<int64_t, Known>> known_;
  std::set<std::string> unloaded_;     // unloaded by name, until loaded by name
  std::vector<std::string> warned_;    // at the last poll
  std::vector<std::string> warnings_;  // of the poll in progress
  Clock::time_point look_;             // start of that poll
  bool unsettled_ = false;  // a model is not served because its files may still be being copied
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace crema::server
