// deploy when an allocation fails.
#include "support/failing_calls.h"
#ifdef CREMA_FAILING_CALLS
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/process.h"
#include "tools/deploy_nets.h"

namespace crema::test {
namespace {

TEST(DeployMemory, AnAllocationThatFailsIsAnError) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build has no OpenCV";
#endif
  const TempDir temp;
  WriteDeployNets(temp);
  temp.Write("red.ppm", Stripes(8, 12, "r"));
  ASSERT_EQ(RunProcess({Bin("deploy"), "export", "--model=means.prototxt",
                        "--weights=means.caffemodel", "-o", "means.crema"},
                       temp.path())
                .exit_code,
            0);
  FailingCalls allocations;
  std::vector<std::string> command = allocations.Wrapper();
  for (const std::string& word :
       {Bin("deploy"), std::string("classify"), std::string("--model=means.crema"),
        std::string("--threads=1"), std::string("red.ppm")}) {
    command.push_back(word);
  }
  ASSERT_EQ(RunProcess(command, temp.path()).exit_code, 0);
  const int64_t all = allocations.calls();
  // Each of the run and the output, and some of those that load the decoders of images.
  for (int64_t back = 0; back < 2500; back += back < 45 ? 1 : 97) {
    allocations.Restart();
    allocations.Fail(all - back, 1);
    const ProcessResult result = RunProcess(command, temp.path());
    EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 3 || result.exit_code == 4)
        << all - back << " of " << all << ": " << result.exit_code << "\n"
        << result.err;
  }
}

}  // namespace
}  // namespace crema::test
#endif
