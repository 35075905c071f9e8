// Reloads files when they change.
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

// A group of files and its reload function. If `reload` throws, the previous contents stay in use,
// and the error is logged.
struct WatchedFiles {
  std::vector<std::string> paths;
  std::function<void()> reload;
};

// A thread that polls files, and reloads those that have changed and then remained unchanged for
// one poll. Ignores everything but regular files. Thread safety: one thread.
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
    std::string seen;  // signature at the last poll
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
  std::thread thread_;  // last: it uses the other members
};

}  // namespace crema::server
