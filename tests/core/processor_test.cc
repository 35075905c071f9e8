// Instructions that CREMA_CPU hides. It is read once, so each value needs a process.
#include "core/processor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/memory_format.h"

namespace crema {
namespace {

// Exits with the block of channels, plus 100 with bfloat16.
[[noreturn]] void ExitWithFacts(const char* level) {
  ::setenv("CREMA_CPU", level, 1);
  try {
    std::exit(static_cast<int>(ChannelBlock()) + (HasBFloat16() ? 100 : 0));
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::exit(2);
  }
}

class ProcessorDeathTest : public testing::Test {
 protected:
  // The child is a new process: in a copy of this one, the variable may have been read.
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(ProcessorDeathTest, HidesInstructions) {
  const auto exits_with = [](std::vector<int> codes) {
    return [codes](int status) {
      return WIFEXITED(status) && std::ranges::count(codes, WEXITSTATUS(status)) == 1;
    };
  };
  EXPECT_EXIT(ExitWithFacts("baseline"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ExitWithFacts("avx2"), exits_with({0, 8}), "");
  EXPECT_EXIT(ExitWithFacts("avx512"), exits_with({0, 8, 16}), "");
  EXPECT_EXIT(ExitWithFacts("avx512bf16"), exits_with({0, 8, 16, 116}), "");
}

TEST_F(ProcessorDeathTest, RefusesUnknownNames) {
  EXPECT_EXIT(ExitWithFacts("sse9"), testing::ExitedWithCode(2),
              "CREMA_CPU is 'sse9'; expected baseline, avx2, avx512 or avx512bf16");
}

}  // namespace
}  // namespace crema
