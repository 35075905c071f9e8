#include "core/machine_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
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

int64_t MemoryLeft1(const std::string& folder) { return LeftInGroup(folder, kVersion1); }
int64_t MemoryLeft2(const std::string& folder) { return LeftInGroup(folder, kVersion2); }

// Returns the processors that take `quota` microseconds of each period, rounded up.
int64_t ProcessorsFor(int64_t quota, int64_t period) {
  return quota <= 0 || period <= 0 ? kUnknown : (quota + period - 1) / period;
}

int64_t Processors1(const std::string& folder) {
  const int64_t quota = ReadNumber(folder + "/cpu.cfs_quota_us");  // -1: no limit
  return quota == kUnknown ? kUnknown
                           : ProcessorsFor(quota, ReadNumber(folder + "/cpu.cfs_period_us"));
}

int64_t Processors2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");  // "max 100000" or "50000 100000"
  int64_t quota = 0;
  int64_t period = 0;
  return file >> quota >> period ? ProcessorsFor(quota, period) : kUnknown;
}

using GroupLimit = int64_t(const std::string& folder);

// Returns the least limit of `group` ("/a/b") and its parents. In a container, folders of the
// host's group may be missing; then the outermost folder is the container's.
int64_t LeastInGroups(const std::string& mount, std::string group, GroupLimit& limit) {
  int64_t least = limit(mount);
  while (group.size() > 1) {
    least = std::min(least, limit(mount + group));
    group.resize(group.rfind('/'));
  }
  return least;
}

// Lines of /proc/self/cgroup: "0::/group" for version 2, "4:memory:/group" for version 1.
int64_t LeastInAllGroups(const std::string& root, const std::string& controller,
                         GroupLimit& version1, GroupLimit& version2) {
  const std::string mounts = root + "/sys/fs/cgroup";
  int64_t least = kUnknown;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min({least, LeastInGroups(mounts, group, version2),
                        LeastInGroups(mounts + "/unified", group, version2)});
    }
    const std::vector<std::string> names = Split(controllers, ',');
    if (std::ranges::find(names, controller) != names.end()) {
      least = std::min({least, LeastInGroups(StrCat(mounts, "/", controller), group, version1),
                        LeastInGroups(StrCat(mounts, "/", controllers), group, version1)});
    }
  }
  return least;
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
  const int64_t left =
      std::min({machine, LeastInAllGroups(root, "memory", MemoryLeft1, MemoryLeft2),
                LeftOfAddressSpace(root)});
  return left == kUnknown ? 0 : std::max<int64_t>(1, left);
}

int ProcessorQuota(const std::string& root) {
  const int64_t quota = LeastInAllGroups(root, "cpu", Processors1, Processors2);
  return quota == kUnknown ? 0 : static_cast<int>(std::min<int64_t>(quota, INT_MAX));
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
