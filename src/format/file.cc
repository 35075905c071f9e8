#include "format/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/folder.h"
#include "core/machine_limits.h"
#include "core/strings.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

Where In(const std::string& path) { return {.file = path}; }

// Closes a file descriptor at the end of a scope.
class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int value) : value_(value) {}
  ~OwnedDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
  int get() const { return value_; }
  int Release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

fs::path FolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

// Explains a path in a form that is not read; empty for others.
std::string WrongFormOf(std::string_view path) {
  if (path.empty()) return "; the path is empty";
  if (path == "-") return "; standard input is not read here: name a file";
  if (path[0] == '~') return "; '~' is not expanded here: write the whole path";
  if (path[0] == '$') return "; variables are not expanded here: write the whole path";
  if (path.starts_with("http://") || path.starts_with("https://")) {
    return "; it is an address: download the file first";
  }
  if (path.find('*') != std::string_view::npos) {
    return "; patterns are for the shell: leave the quotes out";
  }
  if (path.find('\\') != std::string_view::npos) return "; write '/' in a path, not '\\'";
  return "";
}

[[noreturn]] void FailMissing(const std::string& path) {
  const std::string form = WrongFormOf(path);
  if (!form.empty()) Fail(ErrorCode::kNotFound, "there is no such file" + form, In(path));
  const fs::path folder = FolderOf(path);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    Fail(ErrorCode::kNotFound,
         StrCat("there is no such file: the folder '", folder.string(), "' does not exist"),
         In(path));
  }
  Fail(ErrorCode::kNotFound, "there is no such file" + DidYouMeanPath(path), In(path));
}

[[noreturn]] void FailTooLarge(const std::string& path) {
  Fail(ErrorCode::kDataLoss, "is larger than 2 GiB, which only weights may be", In(path));
}

[[noreturn]] void FailRead(const std::string& path, int error) {
  if (error == EISDIR)
    Fail(ErrorCode::kInvalidArgument, "is a folder; name a file in it", In(path));
  if (error == ENXIO)
    Fail(ErrorCode::kInvalidArgument, "is a socket or a device; give a file", In(path));
  // Not a fault of the file: it must not count as a bad sample.
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {
    Fail(ErrorCode::kOutOfMemory, StrCat("cannot be read: ", std::strerror(error)), In(path));
  }
  Fail(ErrorCode::kIoFailure, StrCat("cannot be read: ", std::strerror(error)), In(path));
}

// Does not wait for the writer of a pipe.
int OpenForReading(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) FailMissing(path);
  if (file < 0) FailRead(path, errno);
  return file;
}

// A pipe can be read only once and in order, and one with a name may never get a writer; a device
// may be endless. `stream_will_do`: accepts the pipe of a running program, as of `<(command)` in a
// shell.
void RefuseDevices(int file, const std::string& path, bool stream_will_do) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return;
  struct statfs system {};
  const bool is_stream =
      S_ISFIFO(status.st_mode) && ::fstatfs(file, &system) == 0 && system.f_type == PIPEFS_MAGIC;
  if (is_stream && stream_will_do) {
    ::fcntl(file, F_SETFL, 0);  // reading waits
    return;
  }
  Fail(ErrorCode::kInvalidArgument, "is a pipe or a device; give a file", In(path));
}

// Returns 0 at the end of the file.
size_t ReadSome(int file, const std::string& path, char* out, size_t most) {
  ssize_t count = 0;
  do {
    count = ::read(file, out, most);
  } while (count < 0 && errno == EINTR);
  if (count < 0) FailRead(path, errno);
  return static_cast<size_t>(count);
}

// Makes the new name survive a crash. Ignores errors: some file systems do not support it.
void SyncFolder(const std::string& path) {
  const OwnedDescriptor folder(::open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

std::string FullDisk(const std::string& path, uint64_t needed_bytes) {
  struct statvfs space {};
  const bool known = ::statvfs(FolderOf(path).c_str(), &space) == 0;
  // File systems without a limit on the number of files report 0 of 0.
  if (known && space.f_files > 0 && space.f_favail == 0) {
    return "the disk has room for no further file (its inodes are used up: df -i); remove some "
           "files or write elsewhere";
  }
  std::string reason = "the disk is full";
  if (needed_bytes > 0) {
    reason += StrCat(": ", needed_bytes, " bytes are needed");
    if (known) reason += StrCat(", ", uint64_t{space.f_bavail} * space.f_frsize, " are free");
  }
  return reason + "; free some space or write elsewhere";
}

constexpr std::string_view kParts[] = {"train", "test", "val"};

std::string_view PartOf(std::string_view name) {
  for (const std::string_view part : kParts) {
    if (name.find(part) != std::string_view::npos) return part;
  }
  return "";
}

std::string DigitsOf(std::string_view name) {
  std::string digits;
  std::ranges::copy_if(name, std::back_inserter(digits),
                       [](char c) { return c >= '0' && c <= '9'; });
  return digits;
}

// Returns true for names of a series (iterations, shards), or of training and test. Suggesting one
// for the other would lead to wrong results instead of an error.
bool IsAnotherOfItsKind(const std::string& name, const std::string& other) {
  const std::string_view part = PartOf(name);
  const std::string_view other_part = PartOf(other);
  if (!part.empty() && !other_part.empty() && part != other_part) return true;
  const std::string digits = DigitsOf(name);
  const std::string other_digits = DigitsOf(other);
  return digits.size() == other_digits.size() && digits != other_digits;
}

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp.";

bool IsRunning(pid_t process) {
  return process != ::getpid() && (::kill(process, 0) == 0 || errno != ESRCH);
}

// Returns false if unknown.
bool IsADayOld(const std::string& path) {
  std::error_code error;
  const auto changed = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - changed > std::chrono::hours(24);
}

// Returns false if unknown.
bool IsBeingWritten(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  const bool locked = ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  return locked;
}

bool IsHex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Parts of a temporary file's name.
struct Temporary {
  std::string_view name;  // name of the target; empty: not a temporary file
  std::string_view host;  // empty: not given
  pid_t process = 0;
};

Temporary ParseTemporary(std::string_view name) {
  const size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = name.substr(at + kMark.size());
  const size_t dot = rest.rfind('.');
  std::string_view digits = dot == std::string_view::npos ? rest : rest.substr(dot + 1);
  const size_t random = digits.rfind('-');
  if (random != std::string_view::npos && IsHex(digits.substr(random + 1))) {
    digits = digits.substr(0, random);
  }
  Temporary parsed{.name = name.substr(0, at), .host = {}, .process = 0};
  if (dot != std::string_view::npos) parsed.host = rest.substr(0, dot);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), parsed.process);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && parsed.process > 0 ? parsed : Temporary();
}

}  // namespace

std::string DidYouMeanPath(const std::string& path) {
  const std::string form = WrongFormOf(path);
  if (!form.empty()) return form;
  const fs::path given(path);
  const fs::path whole = given.has_filename() ? given : given.parent_path();  // "set/" is "set"
  constexpr size_t kEnough = 10000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(FolderOf(whole.string()), error), end; !error && entry != end;
       Advance(entry, error)) {
    names.push_back(entry->path().filename().string());
    if (names.size() == kEnough) break;
  }
  std::sort(names.begin(), names.end());
  // Names of data sets and snapshots differ by little; a more distant name is another file.
  const std::string name = whole.filename().string();
  const size_t most_edits = whole.stem().string().size() < 6 ? 1 : 2;
  std::erase_if(names, [&](const std::string& other) { return IsAnotherOfItsKind(name, other); });
  const std::string near = Nearest(name, names, most_edits);
  if (near.empty()) return "";
  return " (did you mean '" + (whole.parent_path() / near).string() + "'?)";
}

std::string ReadFile(const std::string& path) {
  const OwnedDescriptor file(OpenForReading(path));
  RefuseDevices(file.get(), path, true);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) FailRead(path, errno);
  const bool has_size = S_ISREG(status.st_mode);
  if (has_size && static_cast<uint64_t>(status.st_size) > kMaxFileBytes) FailTooLarge(path);
  // A pipe has no size, and a file may grow: read until the end.
  constexpr size_t kChunk = size_t{1} << 16;
  std::string bytes(has_size ? static_cast<size_t>(status.st_size) + 1 : kChunk, '\0');
  size_t size = 0;
  while (const size_t count =
             ReadSome(file.get(), path, bytes.data() + size, bytes.size() - size)) {
    size += count;
    if (size > kMaxFileBytes) FailTooLarge(path);
    if (size == bytes.size()) bytes.resize(2 * size);
  }
  bytes.resize(size);
  return bytes;
}

std::string ReadFileStart(const std::string& path, size_t most_bytes) {
  const OwnedDescriptor file(OpenForReading(path));
  RefuseDevices(file.get(), path, false);
  std::string bytes(most_bytes, '\0');
  bytes.resize(ReadSome(file.get(), path, bytes.data(), bytes.size()));
  return bytes;
}

void AnnounceReading(const std::string& path) {
  // Opening a device may have side effects, so check first. O_NONBLOCK avoids blocking on a pipe
  // that appears in between.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return;
  ::posix_fadvise(file, 0, 0, POSIX_FADV_WILLNEED);
  ::close(file);
}

RandomFile::RandomFile(const std::string& path) : path_(path) {
  OwnedDescriptor file(OpenForReading(path));
  RefuseDevices(file.get(), path, false);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) FailRead(path, errno);
  if (S_ISDIR(status.st_mode)) FailRead(path, EISDIR);
  size_ = static_cast<uint64_t>(status.st_size);
  descriptor_ = file.Release();
}

RandomFile::~RandomFile() { ::close(descriptor_); }

std::string RandomFile::Read(uint64_t offset, size_t most) const {
  const uint64_t rest = size_ - std::min(offset, size_);
  std::string bytes(static_cast<size_t>(std::min<uint64_t>(most, rest)), '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = ::pread(descriptor_, bytes.data() + size, bytes.size() - size,
                                  static_cast<off_t>(offset + size));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) FailRead(path_, errno);
    if (count == 0) break;  // truncated meanwhile
    size += static_cast<size_t>(count);
  }
  bytes.resize(size);
  return bytes;
}

void FailWrite(const std::string& path, int error, uint64_t needed_bytes) {
  std::string reason = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) {
    reason = FullDisk(path, needed_bytes);
  } else if (error == EFBIG) {
    reason = "the file would exceed the limit on the size of files (ulimit -f, or the file system)";
  } else if (error == ENOENT || error == ENOTDIR) {
    std::error_code ignored;
    const fs::path folder = FolderOf(path);
    fs::path existing = folder;
    while (existing.has_parent_path() && existing != existing.parent_path() &&
           !fs::exists(existing, ignored)) {
      existing = existing.parent_path();
    }
    const bool below_file = fs::is_regular_file(existing, ignored);
    reason = below_file ? StrCat("'", existing.string(), "' is a file, not a folder")
             : fs::is_directory(folder, ignored)
                 ? StrCat("the folder '", folder.string(), "' takes no files")
                 : StrCat("the folder '", folder.string(), "' does not exist; create it first");
  }
  Fail(ErrorCode::kIoFailure, "cannot be written: " + reason, In(path));
}

AtomicFile::AtomicFile(std::string path, uint64_t expected_bytes)
    : path_(std::move(path)), expected_bytes_(expected_bytes) {
  if (path_ == "-") {
    Fail(ErrorCode::kInvalidArgument,
         "is not the standard output here: name a file ('./-' for one of this name)", In(path_));
  }
  struct stat status {};
  // Renaming onto /dev/null or a folder would do damage or fail late.
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    Fail(ErrorCode::kIoFailure, "cannot be written: it is a folder or a device, not a file",
         In(path_));
  }
  constexpr mode_t kMode = 0666;  // minus the umask
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && descriptor_ < 0; ++i) {
    temporary_ = TemporaryPath(path_);
    // O_EXCL and O_NOFOLLOW: never opens an existing file or link of that name.
    descriptor_ =
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) FailWrite(path_, errno, expected_bytes_);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::Write(std::string_view bytes) {
  // Only after opening: HDF5, which writes by file name, locks the file itself.
  MarkAsBeingWritten(descriptor_);
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) FailWrite(path_, errno, expected_bytes_);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::WriteAt(int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) FailWrite(path_, errno, expected_bytes_);
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
}

void AtomicFile::Commit() {
  MarkAsBeingWritten(descriptor_);
  if (::fsync(descriptor_) != 0) FailWrite(path_, errno, expected_bytes_);
  if (::close(std::exchange(descriptor_, -1)) != 0) FailWrite(path_, errno, expected_bytes_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) FailWrite(path_, errno, expected_bytes_);
  committed_ = true;
  SyncFolder(path_);
}

void WriteFileAtomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path, bytes.size());
  file.Write(bytes);
  file.Commit();
}

std::string TemporaryPath(const std::string& path) {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random))) {
    random = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(random));
  return StrCat(path, kMark, HostName(), ".", ::getpid(), "-", hex.data());
}

void MarkAsBeingWritten(int descriptor) {
  static_cast<void>(::flock(descriptor, LOCK_EX | LOCK_NB));
}

std::string NameOfAbandoned(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const Temporary temporary = ParseTemporary(name);
  if (temporary.name.empty()) return "";
  const bool gone = temporary.host == HostName() ? !IsRunning(temporary.process) : IsADayOld(path);
  if (!gone || IsBeingWritten(path)) return "";
  const std::string target(temporary.name);
  const Temporary inner = ParseTemporary(target);  // its target was a temporary file, too
  return inner.name.empty() ? target : std::string(inner.name);
}

void RemoveAbandoned(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string name = fs::path(path).filename().string();
  std::vector<fs::path> abandoned;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; Advance(entry, error)) {
    std::error_code ignored;
    if (!name.empty() && NameOfAbandoned(entry->path().string()) == name &&
        entry->is_regular_file(ignored)) {
      abandoned.push_back(entry->path());
    }
  }
  for (const fs::path& file : abandoned) fs::remove(file, error);
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const RandomFile readable(path);  // throws with the reason
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  int failure = file < 0 || ::fstat(file, &status) != 0 ? errno : 0;
  size_ = static_cast<size_t>(status.st_size);
  if (failure == 0 && size_ > 0) {
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (data_ == MAP_FAILED) failure = errno;
  }
  if (file >= 0) ::close(file);
  if (failure == 0) return;
  Fail(ErrorCode::kIoFailure, StrCat("cannot be mapped: ", std::strerror(failure)), {.file = path});
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace crema
