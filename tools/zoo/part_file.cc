#include "zoo/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {

PartFile::PartFile(std::string path) : path_(std::move(path)) {
  for (;;) {
    Open();
    while (flock(descriptor_, LOCK_EX) != 0) {
      if (errno != EINTR) Fail("cannot be locked");
    }
    struct stat own = {}, named = {};
    if (fstat(descriptor_, &own) != 0 || !S_ISREG(own.st_mode)) Fail("is no regular file");
    const bool is_there = stat(path_.c_str(), &named) == 0 && named.st_ino == own.st_ino;
    size_ = static_cast<uint64_t>(own.st_size);
    if (is_there) return;
    close(descriptor_);  // the process that held the lock has renamed or removed it
  }
}

PartFile::~PartFile() { close(descriptor_); }

void PartFile::Open() {
  constexpr mode_t kMode = 0666;
  descriptor_ = open(path_.c_str(),
                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kMode);
  if (descriptor_ < 0) Fail("cannot be opened to write");
}

void PartFile::Fail(const char* what) const {
  const int cause = errno;
  crema::Fail(ErrorCode::kIoFailure, cause == 0 ? what : StrCat(what, ": ", std::strerror(cause)),
              {.file = path_});
}

void PartFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) Fail("cannot be written");
    bytes.remove_prefix(static_cast<size_t>(written));
    size_ += static_cast<uint64_t>(written);
  }
}

void PartFile::Clear() {
  if (ftruncate(descriptor_, 0) != 0) Fail("cannot be emptied");
  size_ = 0;
}

void PartFile::Remove() { unlink(path_.c_str()); }

void PartFile::Become(const std::string& path) {
  if (fsync(descriptor_) != 0) Fail("cannot be written");
  if (std::rename(path_.c_str(), path.c_str()) != 0) Fail("cannot be renamed");
}

}  // namespace crema::tools
