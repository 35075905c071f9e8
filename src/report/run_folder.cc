#include "report/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunFile = "run.json";
constexpr const char* kLockedFile = "starts.jsonl";
constexpr mode_t kMode = 0666;  // minus the umask

}  // namespace

bool HoldsRun(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / kRunFile, ignored);
}

std::string RunFolderOfPrefix(const std::string& prefix, RunStart start) {
  const std::string first = prefix + "_run";
  std::string last = first;
  std::string next = first;
  for (int i = 2; HoldsRun(next); ++i) {
    last = next;
    next = StrCat(first, "_", i);
  }
  return start == RunStart::kFresh ? next : last;
}

bool FileLock::Take(const std::string& path) {
  Release();
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, kMode);
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
    return true;
  }
  Release();
  return false;
}

void FileLock::Release() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

RunFolder::RunFolder(std::string path, RunStart start, std::map<std::string, std::string> texts,
                     LogSink& log)
    : path_(std::move(path)), texts_(std::move(texts)), log_(log) {
  MakeLocked();
  if (start == RunStart::kFresh && HoldsRun(path_)) {
    Fail(ErrorCode::kInvalidArgument,
         "the folder holds a run already; name another one, or resume that run", {.file = path_});
  }
  WriteTexts();
}

void RunFolder::Recreate() {
  MakeLocked();
  WriteTexts();
}

void RunFolder::MakeLocked() {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) {
    Fail(ErrorCode::kIoFailure, "the folder cannot be made: " + error.message(), {.file = path_});
  }
  if (lock_.Take(File(kLockedFile))) return;
  Fail(ErrorCode::kInvalidArgument,
       "another process is training in this folder: wait until it ends, or give this run a "
       "snapshot_prefix and a folder (--run) of its own",
       {.file = path_});
}

void RunFolder::WriteTexts() const {
  for (const auto& [name, text] : texts_) WriteFileAtomically(File(name), text);
}

void RunFolder::WarnOnce(const std::string& message) {
  if (warned_) return;
  warned_ = true;
  log_.Write(Severity::kWarning, message + "; the run continues (this is reported once)");
}

GrowingFile::GrowingFile(RunFolder& folder, const std::string& name,
                         std::function<std::string()> beginning)
    : folder_(folder), path_(folder.File(name)), beginning_(std::move(beginning)) {
  try {
    Open();
  } catch (const Error& error) {
    folder_.WarnOnce(error.what());
  }
}

GrowingFile::~GrowingFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// Writes to the descriptor of a deleted file succeed but are lost.
bool GrowingFile::Exists() const {
  struct stat by_name {};
  struct stat opened {};
  return descriptor_ >= 0 && ::stat(path_.c_str(), &by_name) == 0 &&
         ::fstat(descriptor_, &opened) == 0 && by_name.st_ino == opened.st_ino &&
         by_name.st_dev == opened.st_dev;
}

void GrowingFile::Open() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode);
  if (descriptor_ < 0) FailWrite(path_, errno, 0);
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && status.st_size == 0) Write(beginning_());
}

void GrowingFile::Write(std::string_view bytes) {
  struct stat before {};
  if (::fstat(descriptor_, &before) != 0) FailWrite(path_, errno, 0);
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      // An incomplete row would corrupt the next one.
      if (::ftruncate(descriptor_, before.st_size) != 0) ::close(std::exchange(descriptor_, -1));
      FailWrite(path_, error, 0);
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void GrowingFile::Sync() {
  // EINVAL: a pipe, or a file system without sync.
  if (descriptor_ < 0 || ::fdatasync(descriptor_) == 0 || errno == EINVAL) return;
  try {
    FailWrite(path_, errno, 0);
  } catch (const Error& error) {
    folder_.WarnOnce(error.what());
  }
}

void GrowingFile::Append(std::string_view piece) {
  try {
    if (!Exists()) {
      folder_.WarnOnce(StrCat("'", path_,
                              "' was deleted while the run writes to it; it is made "
                              "anew, without what it held"));
      folder_.Recreate();
      Open();
    }
    Write(piece);
  } catch (const Error& error) {
    folder_.WarnOnce(error.what());
  }
}

}  // namespace crema
