// Instructions that CREMA_CPU hides. It is read once, so each value needs a process.
#include "core/processor.h"

#include <gtest/gtest.h>

#include <cstdlib>

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
  EXPECT_EXIT(ExitWithFacts("baseline"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      ExitWithFacts("avx2"), [](int s) { return WEXITSTATUS(s) == 8 || WEXITSTATUS(s) == 0; }, "");
  EXPECT_EXIT(
      ExitWithFacts("avx512"), [](int s) { return WEXITSTATUS(s) < 100; }, "");
}

TEST_F(ProcessorDeathTest, RefusesUnknownNames) {
  EXPECT_EXIT(ExitWithFacts("sse9"), testing::ExitedWithCode(2),
              "CREMA_CPU is 'sse9'; expected baseline, avx2, avx512 or avx512bf16");
}

}  // namespace
}  // namespace crema
