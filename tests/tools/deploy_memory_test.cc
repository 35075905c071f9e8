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
  const TempDir temp;
  WriteDeployNets(temp);
  temp.Write("red.ppm", Stripes(8, 12, "r"));
  FailingAllocations allocations;
  std::vector<std::string> command = allocations.Wrapper();
  for (const char* word : {"classify", "--model=means.prototxt", "--weights=means.caffemodel",
                           "--threads=1", "red.ppm"}) {
    command.emplace_back(word);
  }
  command.insert(command.end() - 5, Bin("deploy"));
  ASSERT_EQ(RunProcess(command, temp.path()).exit_code, 0);
  const int64_t all = allocations.calls();
  // Each of the run and the output, and some of those that load the decoders of images.
  for (int64_t back = 0; back < 2500; back += back < 50 ? 1 : 49) {
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
