#include "server/security/file_watch.h"

#include <sys/stat.h>

#include <exception>
#include <new>
#include <utility>

#include "core/strings.h"

namespace crema::server {
namespace {

std::string SignatureOf(const std::vector<std::string>& paths) {
  std::string signature;
  for (const std::string& path : paths) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      signature += "gone;";
    } else if (S_ISREG(status.st_mode)) {
      signature += StrCat(status.st_dev, ":", status.st_ino, ":", status.st_size, ":",
                          status.st_mode, ":", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec,
                          ":", status.st_ctim.tv_sec, ".", status.st_ctim.tv_nsec, ";");
    }
  }
  return signature;
}

}  // namespace

FileWatch::FileWatch(std::vector<WatchedFiles> files, std::chrono::milliseconds poll, LogSink& log)
    : poll_(poll), log_(log) {
  for (WatchedFiles& each : files) {
    std::string seen = SignatureOf(each.paths);
    entries_.push_back({std::move(each), std::move(seen)});
  }
  if (!entries_.empty()) thread_ = std::thread([this] { Watch(); });
}

FileWatch::~FileWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void FileWatch::Watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, poll_, [&] { return stopping_; })) {
    lock.unlock();
    for (Entry& entry : entries_) {
      try {
        Look(&entry);
      } catch (const std::bad_alloc&) {
        entry.changed = true;  // retried in the next iteration
      }
    }
    lock.lock();
  }
}

void FileWatch::Look(Entry* entry) {
  const std::string names = Join(entry->files.paths, " and ");
  try {
    std::string now = SignatureOf(entry->files.paths);
    if (now != entry->seen) {
      entry->seen = std::move(now);
      entry->changed = true;  // and may be changing still
      return;
    }
    if (!std::exchange(entry->changed, false)) return;
    entry->files.reload();
    log_.Write(Severity::kInfo, StrCat(names, ": read again"));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    log_.Write(Severity::kError, StrCat(names, " changed and cannot be used: ", error.what(),
                                        "; the version read before stays in use"));
  }
}

}  // namespace crema::server
