// Reads whole files with a size limit; maps files; writes files atomically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace crema {

// The largest file that is read whole: protobuf cannot parse more at once. For larger weights, see
// RandomFile.
inline constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 31) - 1;

// Returns " (did you mean 'x'?)" if a name similar to `path` exists; else nothing.
std::string DidYouMeanPath(const std::string& path);

// Reads the whole file. Throws kNotFound (suggesting a similar file), kInvalidArgument for a
// folder, a device and a pipe with a name, kIoFailure, or kDataLoss above kMaxFileBytes.
std::string ReadFile(const std::string& path);

// Reads the first bytes of a file of any size, to detect its format. Throws like ReadFile.
std::string ReadFileStart(const std::string& path, size_t most_bytes);

// A file of any size, read in parts. Throws like ReadFile; refuses pipes. Thread safety: one
// thread.
class RandomFile {
 public:
  explicit RandomFile(const std::string& path);
  ~RandomFile();
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // Reads up to `most` bytes from `offset`; fewer only at the end of the file.
  std::string Read(uint64_t offset, size_t most) const;

 private:
  std::string path_;
  uint64_t size_ = 0;
  int descriptor_ = -1;
};

// Announces that the whole file will be read soon, so that the system reads ahead. Ignores errors,
// which the reader will meet.
void AnnounceReading(const std::string& path);

// A file that appears under its name only when it is complete and on disk. Writes to
// TemporaryPath(path) in the same folder; Commit flushes and renames it. Without Commit, removes
// the temporary file and leaves an existing file untouched. All functions throw kIoFailure with the
// reason. With two writers of one path, the last Commit wins. Thread safety: one thread.
class AtomicFile {
 public:
  // `expected_bytes` is for the message about a full disk; 0: unknown.
  explicit AtomicFile(std::string path, uint64_t expected_bytes = 0);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // For libraries that write by file name. The file exists, and may be truncated but not replaced.
  const std::string& temporary() const { return temporary_; }
  void Write(std::string_view bytes);
  // Overwrites bytes from `offset` on; does not move the position of Write.
  void WriteAt(int64_t offset, std::string_view bytes);
  void Commit();

 private:
  std::string path_;
  std::string temporary_;
  uint64_t expected_bytes_;
  int descriptor_ = -1;
  bool committed_ = false;
};

void WriteFileAtomically(const std::string& path, std::string_view bytes);

// Throws kIoFailure: `path` cannot be written because of the errno value `error`.
[[noreturn]] void FailWrite(const std::string& path, int error, uint64_t needed_bytes);

// Temporary files of AtomicFile, including those of killed processes.
//
// Returns "<path>.tmp.<host>.<pid>-<random>", unpredictable and different each time.
std::string TemporaryPath(const std::string& path);

// Locks the file until the descriptor is closed, which marks it as being written for other
// processes, also in other containers. Does nothing if the file system has no locks.
void MarkAsBeingWritten(int descriptor);

// Returns the name, without folder, of the target file if `path` is a temporary file of a process
// that has ended; otherwise empty. A locked file is being written. A process elsewhere (network
// mount, container) counts as ended after a day without a change of the file. Files with this
// process's number count as abandoned, since containers may reuse it. Requires: this process is not
// writing the file. Also accepts "<path>.tmp.<host>.<pid>" of earlier versions.
std::string NameOfAbandoned(const std::string& path);

// Removes abandoned temporary files of exactly this file. Ignores errors.
void RemoveAbandoned(const std::string& path);

// A regular file, mapped read-only: pages are loaded on first access and shared between processes.
// If the file is written or truncated while mapped, its contents change or the process ends
// (SIGBUS). Replace such files by renaming, as AtomicFile does. Thread safety: const.
class MappedFile {
 public:
  // Throws like RandomFile; kIoFailure if mapping fails.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  std::string path_;
  void* data_ = nullptr;  // null: an empty file
  size_t size_ = 0;
};

}  // namespace crema
