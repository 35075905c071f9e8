#include "serve/private_copy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema::tools {
namespace {

// Copies the whole file. Returns errno, 0 on success.
int CopyAll(int from, int to) {
  constexpr size_t kPiece = size_t{64} << 20;
  for (;;) {
    const ssize_t copied = ::sendfile(to, from, nullptr, kPiece);
    if (copied == 0) return 0;
    if (copied < 0 && errno != EINTR) return errno;
  }
}

}  // namespace

PrivateCopy::PrivateCopy(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT) {
      Fail(ErrorCode::kNotFound, "there is no such file" + DidYouMeanPath(path), {.file = path});
    }
    Fail(ErrorCode::kIoFailure, std::strerror(errno), {.file = path});
  }
  descriptor_ = ::memfd_create("model", MFD_CLOEXEC);
  const int problem = descriptor_ < 0 ? errno : CopyAll(file, descriptor_);
  ::close(file);
  if (problem != 0) {
    if (descriptor_ >= 0) ::close(descriptor_);
    Fail(problem == ENOMEM || problem == ENOSPC ? ErrorCode::kOutOfMemory : ErrorCode::kIoFailure,
         StrCat("cannot be copied: ", std::strerror(problem)), {.file = path});
  }
  path_ = StrCat("/proc/self/fd/", descriptor_);
}

PrivateCopy::~PrivateCopy() { ::close(descriptor_); }

}  // namespace crema::tools
