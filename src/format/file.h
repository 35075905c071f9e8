// Whole files: read with a bound, written so that nobody ever sees half of one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crema {

// The largest file that is read whole: protobuf cannot parse more at once. Weights may be larger,
// see RandomFile.
inline constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 31) - 1;

// " (did you mean 'x'?)", where something beside `path` has nearly its name; or nothing.
std::string DidYouMeanPath(const std::string& path);

// The whole file. Throws kNotFound (naming a similar file of that folder, if there is one),
// kInvalidArgument for a folder, kIoFailure, or kDataLoss if it is larger than kMaxFileBytes.
std::string ReadFile(const std::string& path);

// The first bytes of a file of any size, to see what it is; throws as ReadFile.
std::string ReadFileStart(const std::string& path, size_t most_bytes);

// A file of any size, read in parts. Throws as ReadFile; pipes are refused. Thread safety: one
// thread.
class RandomFile {
 public:
  explicit RandomFile(const std::string& path);
  ~RandomFile();
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // Up to `most` bytes from `offset`: fewer only where the file ends.
  std::string Read(uint64_t offset, size_t most) const;

 private:
  std::string path_;
  uint64_t size_ = 0;
  int descriptor_ = -1;
};

// Tells the system that the whole file will be read soon, so that slow storage works ahead. What is
// wrong with the file is left to the one who reads it.
void AnnounceReading(const std::string& path);

// A file that appears under its name only when it is whole and on the disk: written to
// TemporaryPath(path) in the same folder, flushed, and renamed by Commit. Without Commit the
// temporary file is removed and whatever was under the name stays. Everything throws kIoFailure
// with the reason. Of two writers of one path, the last Commit wins. Thread safety: one thread.
class AtomicFile {
 public:
  // `expected_bytes` is told to the user when the disk is full; 0 means not known.
  explicit AtomicFile(std::string path, uint64_t expected_bytes = 0);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // For libraries that write by file name. It exists, and may be truncated but not replaced.
  const std::string& temporary() const { return temporary_; }
  void Write(std::string_view bytes);
  // Overwrites what is there from `offset` on; Write goes on where it was.
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

}  // namespace crema
