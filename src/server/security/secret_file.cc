#include "server/security/secret_file.h"

#include <sys/stat.h>

#include <array>
#include <cstdio>

#include "core/error.h"
#include "core/strings.h"

namespace crema::server {

void RefuseOpenSecret(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if ((status.st_mode & (S_IROTH | S_IWOTH)) == 0) return;
  constexpr mode_t kBits = 0777;
  std::array<char, 8> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", status.st_mode & kBits);
  Fail(ErrorCode::kInvalidArgument,
       StrCat("everybody on this machine can ",
              (status.st_mode & S_IROTH) != 0 ? "read it" : "write into it", " (mode ", mode.data(),
              "), and it holds a secret: chmod 600 it; for a volume of Kubernetes, set "
              "defaultMode: 0440"),
       {.file = path});
}

}  // namespace crema::server
