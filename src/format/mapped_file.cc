#include "format/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema {

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
