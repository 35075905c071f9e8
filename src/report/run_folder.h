// The folder of one run: what ran, and files that grow while it runs. docs/run_folder.md says what
// lies in it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/log.h"

namespace crema {

enum class RunStart {
  kFresh,      // from the beginning
  kContinued,  // resumed: goes on in the folder of the run
};

// "<prefix>_run". Where that holds a run already, a fresh one gets the first free of
// "<prefix>_run_2", "<prefix>_run_3", ...; a continued one the last that holds a run.
std::string RunFolderOfPrefix(const std::string& prefix, RunStart start);

// Whether a run was recorded in this folder.
bool HoldsRun(const std::string& folder);

// A lock on a file, against other processes. Thread safety: one thread.
class FileLock {
 public:
  FileLock() = default;
  ~FileLock() { LetGo(); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Makes the file where it is missing. False where another lock is held on it. True also where the
  // file cannot be made, and where the file system has no locks: nobody is kept off then.
  bool Take(const std::string& path);
  void LetGo();

 private:
  int descriptor_ = -1;
};

// Once it is open, nothing that happens to the folder ends a training: the first trouble is
// written to the log as a warning, once a run. A folder that was deleted is made anew. Holds a lock
// on starts.jsonl, so that no other process writes here, unless the file system has no locks.
// Thread safety: one thread.
class RunFolder {
 public:
  // Makes the folder with its parents and writes `texts` (by file name) into it. `log` must outlive
  // this. Throws kInvalidArgument for a fresh run where `path` holds a run, and where another
  // RunFolder holds the lock; kIoFailure where nothing can be written.
  RunFolder(std::string path, RunStart start, std::map<std::string, std::string> texts,
            LogSink& log);

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& text(const std::string& name) const { return texts_.at(name); }

  // Throws as the constructor.
  void MakeAnew();
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

// A file in a run folder that grows piece by piece, each whole or not there. A file that was
// deleted is made anew; what cannot be written is left out; both are warned about.
// Thread safety: one thread.
class GrowingFile {
 public:
  // Goes on behind what is there. `beginning` gives what a new file starts with. `folder` must
  // outlive this.
  GrowingFile(RunFolder& folder, const std::string& name, std::function<std::string()> beginning);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  void Append(std::string_view piece);
  // Waits until what was appended is on the disk.
  void Sync();

 private:
  bool IsThere() const;
  void Open();
  void Write(std::string_view bytes);

  RunFolder& folder_;
  std::string path_;
  std::function<std::string()> beginning_;
  int descriptor_ = -1;
};

}  // namespace crema
