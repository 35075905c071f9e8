// Keeps the table of models as the folder says.
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
  std::chrono::milliseconds poll{1000};    // 0: looked at only when it is told to
  std::chrono::milliseconds settle{2000};  // files that stay the same for so long are whole
  std::chrono::milliseconds first_wait{
      30000};  // for files that change when it starts; then a warning
  std::chrono::milliseconds first_retry{1000};  // after a failure that may pass; then twice as long
  size_t keep_versions = 1;                     // the newest that can be loaded
  BatcherOptions batching;
};

// Throws Error for what cannot be loaded.
using LoadExecutable = std::function<std::shared_ptr<const Executable>(const std::string& model,
                                                                       const VersionFiles& files)>;

// A thread that looks at the folder. A version is loaded and warmed beside the old one, and only
// then takes its place; one that cannot be loaded is not tried again until its files change, but
// for failures that pass, such as lack of memory. What cannot be looked at stays as it is.
// Thread safety: any number of threads.
class Repository {
 public:
  Repository(RepositoryOptions options, LoadExecutable load, ModelTable& table, LogSink& log);
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  // Returns when all that can be loaded is ready; files that may still be copied are waited for.
  // Throws kNotFound where the folder is missing.
  void Start();
  void Stop();

  // Loads the newest versions of a model, now. Throws kNotFound for a model that is not there,
  // kUnavailable where its folder cannot be read, kBadRequest with the reasons where one of them
  // cannot be loaded, though an older one may answer.
  void Load(const std::string& model);
  // Until it is loaded by name again. Throws kNotFound.
  void Unload(const std::string& model);
  // One look at the folder, as the thread takes.
  void Poll();

 private:
  using Versions = std::map<int64_t, VersionFiles>;
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::string loaded;                 // signature of the files that answer; empty: none
    std::string failed;                 // signature of files that cannot be loaded
    std::chrono::milliseconds wait{0};  // of a failure that may pass; 0: it does not
    Clock::time_point retry;            // when that is over
    std::string seen;                   // signature of the last look
    Clock::time_point since;            // of the first look that saw it
    std::optional<Clock::time_point> waits_since;  // of the first look that found it unsettled
    bool IsNews(const VersionFiles& files) const;
  };

  void Watch();
  void Pass(bool settled_only);
  void Warn(std::vector<std::string> warnings);
  void KeepUnloaded(const std::string& model, const Versions& found);
  void ForgetMissing(const std::string& model, const Versions& found);
  void Update(const std::string& model, const Versions& found, bool settled_only);
  void Try(const std::string& model, int64_t version, const VersionFiles& files);
  void Remove(const std::string& model, int64_t version);
  // Whether the files were the same for long enough, by a clock that nobody sets.
  bool IsSettled(const VersionFiles& files, Known* state) const;
  void WarnOfWaiting(const std::string& model, int64_t version, Known* state);
  void Failed(const VersionFiles& files, bool passes, Known* state) const;
  void RefuseFailed(const std::string& model) const;

  const RepositoryOptions options_;
  const LoadExecutable load_;
  ModelTable& table_;
  LogSink& log_;
  std::mutex passes_;  // one look at a time; guards what follows up to mutex_
  std::map<std::string, std::map<int64_t, Known>> known_;
  std::set<std::string> unloaded_;     // by name, until loaded by name
  std::vector<std::string> warned_;    // with the last look
  std::vector<std::string> warnings_;  // of the look in progress
  Clock::time_point look_;             // when that began
  bool unsettled_ = false;  // whether a model answers nothing because its files may still be copied
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace crema::server
