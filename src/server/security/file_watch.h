// Reads files again when they change.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/log.h"

namespace crema::server {

// Files that belong together, and what reads them again. `reload` may throw; then what it replaces
// stays, and the log says why.
struct WatchedFiles {
  std::vector<std::string> paths;
  std::function<void()> reload;
};

// A thread that looks at the files each `poll`, and reads those again that have changed and then
// stayed the same for one poll. Only regular files are looked at. Thread safety: one thread.
class FileWatch {
 public:
  // `log` must outlive this.
  FileWatch(std::vector<WatchedFiles> files, std::chrono::milliseconds poll, LogSink& log);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  struct Entry {
    WatchedFiles files;
    std::string seen;  // signature of the last look
    bool changed = false;
  };

  void Watch();
  void Look(Entry* entry);

  std::vector<Entry> entries_;
  const std::chrono::milliseconds poll_;
  LogSink& log_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace crema::server
