#include "core/host_name.h"

#include <unistd.h>

#include <algorithm>

namespace crema {

std::string HostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return "host";
  std::string text(name);
  std::ranges::replace(text, '/', '_');
  return text.empty() ? "host" : text;
}

}  // namespace crema
