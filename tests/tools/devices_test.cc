// The command devices. Does not test measurements, nor the devices of this machine.
#include <gtest/gtest.h>

#include <string>

#include "core/machine_limits.h"
#include "runtime/gpu.h"
#include "support/error_text.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Bin;
using test::Contains;
using test::ProcessResult;
using test::RunProcess;
using test::TempDir;

TEST(Devices, TellsOfTheProcessorAndWhyThereIsNoGpu) {
  const TempDir temp;
  const ProcessResult result = RunProcess({Bin("devices"), "--nomeasure"}, temp.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "CPU: " + ProcessorName())) << result.out;
  EXPECT_TRUE(Contains(result.out, "GiB available")) << result.out;
  EXPECT_FALSE(Contains(result.out, "FLOP/s")) << result.out;
  const std::string gpu = WhyNoGpu().empty() ? "GPU 0: " : "GPUs: none: " + WhyNoGpu();
  EXPECT_TRUE(Contains(result.out, gpu)) << result.out;
}

TEST(Devices, PrintsJson) {
  const TempDir temp;
  const ProcessResult result = RunProcess({Bin("devices"), "--json"}, temp.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"{\"cpu\": {\"name\": \"", "\"processors\": ", "\"features\": [",
                           "\"f32_gflops\": ", "\"memory_gbs\": ", "\"gpus\": [", "\"no_gpu\": \"",
                           "\"gpu_libraries\": {"}) {
    EXPECT_TRUE(Contains(result.out, part)) << part << "\n" << result.out;
  }
  EXPECT_EQ(result.out.find('\n'), result.out.size() - 1);
}

TEST(Devices, TakesNoArguments) {
  const TempDir temp;
  EXPECT_EQ(RunProcess({Bin("devices"), "0"}, temp.path()).exit_code, 2);
}

}  // namespace
}  // namespace crema
