#include "core/machine_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "support/temp_dir.h"

namespace crema {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

// A machine with 1000 MiB left.
class Machine {
 public:
  Machine() { Write("proc/meminfo", "MemTotal: 4096000 kB\nMemAvailable: 1024000 kB\n"); }
  void Write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_.File(file)).parent_path());
    root_.Write(file, text);
  }
  // `used` includes `droppable` file pages; all in MiB, and `limit` in the form of the file.
  void Group2(const std::string& folder, const std::string& limit, int64_t used,
              int64_t droppable) const {
    Write(folder + "/memory.max", limit + "\n");
    Write(folder + "/memory.current", std::to_string(used * kMebibyte) + "\n");
    Write(folder + "/memory.stat",
          "anon 5\ninactive_anon 7\ninactive_file " + std::to_string(droppable * kMebibyte) + "\n");
  }
  void Group1(const std::string& folder, int64_t limit, int64_t used, int64_t droppable) const {
    Write(folder + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    Write(folder + "/memory.usage_in_bytes", std::to_string(used * kMebibyte) + "\n");
    Write(folder + "/memory.stat",
          "inactive_file 3\ntotal_inactive_file " + std::to_string(droppable * kMebibyte) + "\n");
  }
  int64_t AvailableBytes() const { return AvailableMemory(root_.path()); }
  int Quota() const { return ProcessorQuota(root_.path()); }
  int64_t AvailableMebibytes() const { return AvailableBytes() / kMebibyte; }

 private:
  test::TempDir root_;
};

std::string Mebibytes(int64_t count) { return std::to_string(count * kMebibyte); }

TEST(AvailableMemory, IsThatOfTheMachineWithItsSwap) {
  const Machine machine;
  EXPECT_EQ(machine.AvailableMebibytes(), 1000);
  machine.Write("proc/meminfo", "SwapFree: 102400 kB\nMemAvailable: 1024000 kB\n");
  EXPECT_EQ(machine.AvailableMebibytes(), 1100);
}

TEST(AvailableMemory, IsZeroWhereNothingIsKnown) {
  const test::TempDir empty;
  EXPECT_EQ(AvailableMemory(empty.path()), 0);
}

TEST(AvailableMemory, ReadsControlGroupsOfVersion2) {
  const Machine machine;
  machine.Write("proc/self/cgroup", "0::/\n");
  machine.Group2("sys/fs/cgroup", Mebibytes(300), 100, 0);
  EXPECT_EQ(machine.AvailableMebibytes(), 200);
  machine.Group2("sys/fs/cgroup", "max", 100, 0);
  EXPECT_EQ(machine.AvailableMebibytes(), 1000);
}

TEST(AvailableMemory, DoesNotCountPagesThatCanBeDropped) {
  const Machine machine;
  machine.Write("proc/self/cgroup", "0::/\n");
  machine.Group2("sys/fs/cgroup", Mebibytes(300), 290, 250);
  EXPECT_EQ(machine.AvailableMebibytes(), 260);
}

TEST(AvailableMemory, TakesTheTightestOfNestedGroups) {
  const Machine machine;
  machine.Write("proc/self/cgroup", "0::/system.slice/job.scope\n");
  machine.Group2("sys/fs/cgroup/system.slice/job.scope", "max", 50, 0);
  machine.Group2("sys/fs/cgroup/system.slice", Mebibytes(400), 250, 0);
  EXPECT_EQ(machine.AvailableMebibytes(), 150);
  machine.Group2("sys/fs/cgroup/system.slice/job.scope", Mebibytes(90), 50, 0);
  EXPECT_EQ(machine.AvailableMebibytes(), 40);
}

TEST(AvailableMemory, ReadsControlGroupsOfVersion1) {
  const Machine machine;
  machine.Write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/slurm/job_1\n0::/\n");
  machine.Group1("sys/fs/cgroup/memory", 0x7FFFFFFFFFFFF000, 900, 0);
  machine.Group1("sys/fs/cgroup/memory/slurm", 500 * kMebibyte, 450, 100);
  EXPECT_EQ(machine.AvailableMebibytes(), 150);
  machine.Group1("sys/fs/cgroup/memory/slurm/job_1", 200 * kMebibyte, 150, 20);
  EXPECT_EQ(machine.AvailableMebibytes(), 70);
}

// The name is the host's, the folder the container's.
TEST(AvailableMemory, ReadsTheGroupOfAContainerWhoseNameIsNotThere) {
  const Machine machine;
  machine.Write("proc/self/cgroup", "4:memory:/docker/0123abcd\n");
  machine.Group1("sys/fs/cgroup/memory", 80 * kMebibyte, 30, 0);
  EXPECT_EQ(machine.AvailableMebibytes(), 50);
}

TEST(ProcessorQuota, IsNoneWithoutALimit) {
  const Machine machine;
  EXPECT_EQ(machine.Quota(), 0);
  machine.Write("proc/self/cgroup", "4:cpu,cpuacct:/\n0::/\n");
  EXPECT_EQ(machine.Quota(), 0);
  machine.Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  machine.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  machine.Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(machine.Quota(), 0);
}

TEST(ProcessorQuota, IsTheLeastOfNestedGroupsRoundedUp) {
  const Machine machine;
  machine.Write("proc/self/cgroup", "0::/pod/container\n");
  machine.Write("sys/fs/cgroup/pod/container/cpu.max", "800000 100000\n");
  EXPECT_EQ(machine.Quota(), 8);
  machine.Write("sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  EXPECT_EQ(machine.Quota(), 3);
  machine.Write("sys/fs/cgroup/pod/container/cpu.max", "5000 100000\n");
  EXPECT_EQ(machine.Quota(), 1);
}

TEST(ProcessorQuota, ReadsControlGroupsOfVersion1) {
  for (const std::string folder : {"cpu", "cpu,cpuacct"}) {
    const Machine machine;
    machine.Write("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
    machine.Write("sys/fs/cgroup/" + folder + "/job/cpu.cfs_quota_us", "150000\n");
    machine.Write("sys/fs/cgroup/" + folder + "/job/cpu.cfs_period_us", "50000\n");
    EXPECT_EQ(machine.Quota(), 3) << folder;
  }
}

TEST(AvailableMemory, FullGroupHasOneByteAvailable) {
  const Machine machine;
  machine.Write("proc/self/cgroup", "0::/\n");
  machine.Group2("sys/fs/cgroup", Mebibytes(100), 130, 0);
  EXPECT_EQ(machine.AvailableBytes(), 1);
}

TEST(AvailableMemory, CountsTheLimitOfAddressSpace) {
#ifdef CREMA_SANITIZED
  GTEST_SKIP() << "sanitizers need address space without a limit";
#endif
  const Machine machine;
  machine.Write("proc/self/statm", "100 50 25 1 0 60 0\n");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlim_t most = 500 * kMebibyte;
  if (before.rlim_max < most) GTEST_SKIP() << "the limit cannot be set";
  // Below the current use of this process: nothing may allocate until it is reset.
  const rlimit tight{.rlim_cur = most, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const int64_t available = machine.AvailableMebibytes();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(available, (static_cast<int64_t>(most) - 100 * getpagesize()) / kMebibyte - 64);
}

}  // namespace
}  // namespace crema
