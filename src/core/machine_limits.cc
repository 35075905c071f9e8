#include "core/machine_limits.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "core/strings.h"

namespace crema {
namespace {

// -1 where the file is missing or says "max".
int64_t ReadNumber(const char* path) {
  std::ifstream file(path);
  int64_t number = -1;
  return file >> number ? number : -1;
}

// `name` with its colon.
int64_t BytesOfMeminfo(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    int64_t kibibytes = 0;
    if (word == name && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

int64_t AvailableMemory() {
  const int64_t machine = BytesOfMeminfo("MemAvailable:");
  const int64_t limit = ReadNumber("/sys/fs/cgroup/memory.max");
  const int64_t used = ReadNumber("/sys/fs/cgroup/memory.current");
  if (limit < 0 || used < 0) return machine;
  const int64_t group = std::max<int64_t>(0, limit - used);
  return machine == 0 ? group : std::min(machine, group);
}

int64_t TotalMemory() { return BytesOfMeminfo("MemTotal:"); }

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with("model name")) continue;
    return std::string(Trim(line.substr(colon + 1)));
  }
  return "unknown processor";
}

}  // namespace crema
