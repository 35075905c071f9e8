#include "core/machine_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/strings.h"

namespace crema {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

// Returns kUnknown if the file is missing or contains "max".
int64_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : kUnknown;
}

// Returns the number after `name` in a file of such pairs; 0 if missing.
int64_t NumberAfter(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t number = 0;
    if (word == name && file >> number) return number;
  }
  return 0;
}

int64_t Kibibytes(const std::string& root, const std::string& name) {
  return NumberAfter(root + "/proc/meminfo", name) * 1024;
}

// File names of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* droppable;  // in memory.stat: file pages that are not in use
};
constexpr GroupFiles kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"/memory.max", "/memory.current", "inactive_file"};

int64_t LeftInGroup(const std::string& folder, const GroupFiles& files) {
  const int64_t limit = ReadNumber(folder + files.limit);
  const int64_t used = ReadNumber(folder + files.used);
  if (limit == kUnknown || used == kUnknown) return kUnknown;
  const int64_t droppable = NumberAfter(folder + "/memory.stat", files.droppable);
  return std::max<int64_t>(0, limit - std::max<int64_t>(0, used - droppable));
}

// Returns the least of `group` ("/a/b") and its parents. In a container, folders of the host's
// group may be missing; then the outermost folder is the container's.
int64_t LeftInGroups(const std::string& mount, std::string group, const GroupFiles& files) {
  int64_t left = LeftInGroup(mount, files);
  while (group.size() > 1) {
    left = std::min(left, LeftInGroup(mount + group, files));
    group.resize(group.rfind('/'));
  }
  return left;
}

// Lines of /proc/self/cgroup: "0::/group" for version 2, "4:memory:/group" for version 1.
int64_t LeftInAllGroups(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  int64_t left = kUnknown;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      left = std::min({left, LeftInGroups(mounts, group, kVersion2),
                       LeftInGroups(mounts + "/unified", group, kVersion2)});
    }
    const std::vector<std::string> names = Split(controllers, ',');
    if (std::ranges::find(names, "memory") != names.end()) {
      left = std::min(left, LeftInGroups(mounts + "/memory", group, kVersion1));
    }
  }
  return left;
}

// Stacks and the heap reserve addresses that they do not use. oneDNN 2.6 crashes if an allocation
// fails while it generates code, so leave room for that.
constexpr int64_t kSpareAddresses = int64_t{64} << 20;

int64_t LeftOfAddressSpace(const std::string& root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const int64_t pages = ReadNumber(root + "/proc/self/statm");
  if (pages == kUnknown) return kUnknown;
  const int64_t used = pages * getpagesize() + kSpareAddresses;
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used);
}

}  // namespace

int64_t AvailableMemory(const std::string& root) {
  const int64_t memory = Kibibytes(root, "MemAvailable:");
  const int64_t machine = memory == 0 ? kUnknown : memory + Kibibytes(root, "SwapFree:");
  const int64_t left = std::min({machine, LeftInAllGroups(root), LeftOfAddressSpace(root)});
  return left == kUnknown ? 0 : std::max<int64_t>(1, left);
}

int64_t TotalMemory() { return Kibibytes("", "MemTotal:"); }

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

std::string HostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return "host";
  std::string text(name);
  std::ranges::replace(text, '/', '_');
  return text.empty() ? "host" : text;
}

}  // namespace crema
