// Forward and backward of three small nets take the recorded number of instructions, within 3 %, as
// counted by callgrind: the same on every machine, as valgrind emulates one processor (AVX2), under
// any load. The count is the difference between two and four passes, on one thread.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <ostream>
#include <regex>
#include <string>
#include <vector>

#include "core/strings.h"
#include "support/process.h"

namespace crema::test {
namespace {

struct Count {
  std::string name;
  std::string net;
  std::vector<std::string> images;  // batch, channels, height and width
  // Recorded with the compiler and libraries of CREMA_COUNTED_WITH. To record anew, after a change
  // that is meant to cost or save: the numbers that the failing test prints.
  double expected;
};

std::ostream& operator<<(std::ostream& os, const Count& count) { return os << count.name; }

// Counts of another compiler or other libraries differ.
constexpr const char* kCountedWith = "GNU 12.2.0 Release, oneDNN 2.6";

double InstructionsOf(const Count& count, int passes) {
  std::vector<std::string> command = {"/usr/bin/env",
                                      "OMP_NUM_THREADS=1",
                                      "valgrind",
                                      "--tool=callgrind",
                                      "--callgrind-out-file=/dev/null",
                                      CREMA_RUN_NET,
                                      StrCat(CREMA_SOURCE_DIR, "/", count.net)};
  command.insert(command.end(), count.images.begin(), count.images.end());
  command.push_back(std::to_string(passes));
  const ProcessResult result = RunProcess(command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::smatch match;
  if (!std::regex_search(result.err, match, std::regex("Collected : ([0-9]+)"))) {
    ADD_FAILURE() << "callgrind said no count: " << result.err;
    return 0;
  }
  return std::stod(match[1]);
}

class InstructionCounts : public testing::TestWithParam<Count> {};

TEST_P(InstructionCounts, StayWithinThreePercent) {
  if (std::string(CREMA_COUNTED_WITH) != kCountedWith) {
    GTEST_SKIP() << "counts were recorded with " << kCountedWith << ", this is "
                 << CREMA_COUNTED_WITH;
  }
  if (RunProcess({"/usr/bin/env", "valgrind", "--version"}).exit_code != 0) {
    GTEST_SKIP() << "valgrind is not installed";
  }
  const double two = InstructionsOf(GetParam(), 2);
  const double counted = (InstructionsOf(GetParam(), 4) - two) / 2;
  const double expected = GetParam().expected;
  EXPECT_LE(std::abs(counted - expected), 0.03 * expected)
      << "a pass takes " << static_cast<int64_t>(counted) << " instructions, not "
      << static_cast<int64_t>(expected);
}

INSTANTIATE_TEST_SUITE_P(
    Nets, InstructionCounts,
    testing::Values(
        Count{"lenet", "models/lenet/train_val.prototxt", {"2", "1", "28"}, 8.91e6},
        Count{"cifar10_quick", "models/cifar10_quick/train_val.prototxt", {"1", "3", "32"}, 8.87e6},
        Count{"residual", "tests/instructions/residual.prototxt", {"2", "3", "32"}, 5.63e6}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace crema::test
