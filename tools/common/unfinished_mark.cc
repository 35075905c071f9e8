#include "common/unfinished_mark.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema::tools {
namespace {

std::string MarkOf(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path + ".unfinished";
}

}  // namespace

UnfinishedMark::UnfinishedMark(const std::string& data_set)
    : data_set_(data_set), path_(MarkOf(data_set)) {}

UnfinishedMark::~UnfinishedMark() { Release(); }

void UnfinishedMark::Release() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool UnfinishedMark::Hold(int flags) {
  constexpr mode_t kMode = 0666;  // minus the umask
  while (descriptor_ < 0) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | flags, kMode);
    if (descriptor_ < 0 && errno == ENOENT && flags == 0) return false;
    if (descriptor_ < 0) FailWrite(path_, errno, 0);
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      Fail(ErrorCode::kIoFailure, StrCat("another process is writing '", data_set_,
                                         "': wait until it is done, or choose another path"));
    }
    if (!Exists()) Release();  // the previous holder has finished meanwhile
  }
  return true;
}

bool UnfinishedMark::Exists() const {
  struct stat held {};
  struct stat there {};
  return ::fstat(descriptor_, &held) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

void UnfinishedMark::Make(const std::string& text) {
  Hold(O_CREAT);
  std::string_view rest = text;
  bool written = ::ftruncate(descriptor_, 0) == 0 && ::lseek(descriptor_, 0, SEEK_SET) == 0;
  while (written && !rest.empty()) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    written = count >= 0;
    if (written) rest.remove_prefix(static_cast<size_t>(count));
  }
  if (written && ::fsync(descriptor_) == 0) return;
  const int error = errno;
  Remove();
  FailWrite(path_, error, 0);
}

std::string UnfinishedMark::Text() const {
  CREMA_CHECK(descriptor_ >= 0);
  return ReadFile(path_);
}

void UnfinishedMark::Remove() {
  ::unlink(path_.c_str());
  Release();
}

}  // namespace crema::tools
