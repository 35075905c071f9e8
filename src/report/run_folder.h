// The folder of one run: its description, and files that grow while it runs. docs/run_folder.md
// describes the contents.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/log.h"

namespace crema {

enum class RunStart {
  kFresh,      // starts at the first iteration
  kContinued,  // resumes in the folder of the run
};

// Returns "<prefix>_run". If that holds a run, a fresh start gets the first unused of
// "<prefix>_run_2", "<prefix>_run_3", ...; a continued one gets the last that holds a run.
std::string RunFolderOfPrefix(const std::string& prefix, RunStart start);

// Returns true if a run was recorded in this folder.
bool HoldsRun(const std::string& folder);

// A lock on a file, against other processes. Thread safety: one thread.
class FileLock {
 public:
  FileLock() = default;
  ~FileLock() { Release(); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Creates the file if it is missing. Returns false if another process holds the lock. Returns
  // true, without a lock, if the file cannot be created or the file system has no locks.
  bool Take(const std::string& path);
  void Release();

 private:
  int descriptor_ = -1;
};

// Once open, problems with the folder never end a training: the first one in a run is logged as a
// warning. Recreates a deleted folder. Holds a lock on starts.jsonl, so that no other process
// writes here, unless the file system has no locks. Thread safety: one thread.
class RunFolder {
 public:
  // Creates the folder with its parents and writes `texts` (by file name) to it. `log` must outlive
  // this. Throws kInvalidArgument for a fresh run if `path` holds a run, and if another RunFolder
  // holds the lock; kIoFailure if writing fails.
  RunFolder(std::string path, RunStart start, std::map<std::string, std::string> texts,
            LogSink& log);

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& text(const std::string& name) const { return texts_.at(name); }

  // Throws like the constructor.
  void Recreate();
  void WarnOnce(const std::string& message);

 private:
  void MakeLocked();
  void WriteTexts() const;

  std::string path_;
  std::map<std::string, std::string> texts_;
  LogSink& log_;
  FileLock lock_;
  bool warned_ = false;
};

// An append-only file in a run folder; each piece is written completely or not at all. Recreates a
// deleted file; drops pieces that cannot be written; warns about both. Thread safety: one thread.
class GrowingFile {
 public:
  // Appends to existing contents. `beginning` returns the start of a new file. `folder` must
  // outlive this.
  GrowingFile(RunFolder& folder, const std::string& name, std::function<std::string()> beginning);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  void Append(std::string_view piece);
  // Waits until appended data is on disk.
  void Sync();

 private:
  bool Exists() const;
  void Open();
  void Write(std::string_view bytes);

  RunFolder& folder_;
  std::string path_;
  std::function<std::string()> beginning_;
  int descriptor_ = -1;
};

}  // namespace crema
