#include "data/records/guarded_map.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;

constexpr size_t kMappedBytes = 40000;

class GuardedMapTest : public ::testing::Test {
 protected:
  GuardedMapTest() : path_(temp_.Write("file", std::string(kMappedBytes, 'x'))) {
    descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~GuardedMapTest() override { close(descriptor_); }

  TempDir temp_;
  std::string path_;
  int descriptor_;
};

// Sanitizers exit with a nonzero code instead.
bool EndedByBusError(int status) {
  return WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) != 0;
}

// Exit status of a child process that maps the file, truncates it, and reads it without a
// GuardedMap.
int StatusOfUnguardedLoad(const std::string& path, int descriptor) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // seconds
    void* const data = mmap(nullptr, kMappedBytes, PROT_READ, MAP_SHARED, descriptor, 0);
    std::filesystem::resize_file(path, 0);
    _exit(*static_cast<volatile char*>(data));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(GuardedMapTest, BytesThatWereCutOffAreZerosAndAreReported) {
  const GuardedMap map(descriptor_, kMappedBytes, path_);
  ASSERT_EQ(std::string_view(map.data(), map.size()), std::string(kMappedBytes, 'x'));
  EXPECT_FALSE(map.lost());
  std::filesystem::resize_file(path_, 4096);
  EXPECT_EQ(map.data()[0], 'x');
  EXPECT_FALSE(map.lost());
  EXPECT_EQ(map.data()[kMappedBytes - 1], '\0');
  EXPECT_TRUE(map.lost());
}

TEST_F(GuardedMapTest, SeveralThreadsLoseTheSamePages) {
  const GuardedMap map(descriptor_, kMappedBytes, path_);
  std::filesystem::resize_file(path_, 0);
  std::vector<std::ptrdiff_t> zeros(4);
  {
    std::vector<std::jthread> threads;
    for (std::ptrdiff_t& mine : zeros) {
      threads.emplace_back([&] { mine = std::count(map.data(), map.data() + kMappedBytes, '\0'); });
    }
  }
  EXPECT_EQ(zeros, std::vector<std::ptrdiff_t>(4, kMappedBytes));
}

TEST_F(GuardedMapTest, OnlyTheMapOfTheCutFileIsLost) {
  const GuardedMap map(descriptor_, kMappedBytes, path_);
  const std::string other_path = temp_.Write("other", std::string(kMappedBytes, 'y'));
  const int other_file = open(other_path.c_str(), O_RDONLY | O_CLOEXEC);
  const GuardedMap other(other_file, kMappedBytes, other_path);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(map.data()[0], '\0');
  EXPECT_EQ(other.data()[0], 'y');
  EXPECT_TRUE(map.lost());
  EXPECT_FALSE(other.lost());
  close(other_file);
}

TEST_F(GuardedMapTest, LoadsOfOthersStillEndTheProcess) {
  const std::string mine = temp_.Write("mine", "x");
  const int file = open(mine.c_str(), O_RDONLY | O_CLOEXEC);
  const GuardedMap map(file, 1, mine);
  const int status = StatusOfUnguardedLoad(path_, descriptor_);
  EXPECT_TRUE(EndedByBusError(status)) << status;
  close(file);
}

TEST_F(GuardedMapTest, ASignalThatIsSentStillEndsTheProcess) {
  const GuardedMap map(descriptor_, kMappedBytes, path_);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // seconds
    raise(SIGBUS);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(EndedByBusError(status)) << status;
}

}  // namespace
}  // namespace crema
