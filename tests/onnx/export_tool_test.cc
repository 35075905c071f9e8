// `deploy export` to ONNX, as a user runs it: what its check compares, and what it leaves behind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

#include "core/strings.h"
#include "format/caffemodel.h"
#include "format/npy.h"
#include "runtime/weights.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::ProcessResult;
using test::TempDir;

// 0 for inputs below 2, as random ones are. The weights are no halves.
constexpr const char* kNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "less" type: "Power" bottom: "x" top: "less" power_param { shift: -2 } }
layer { name: "relu" type: "ReLU" bottom: "less" top: "positive" }
layer { name: "l" type: "InnerProduct" bottom: "positive" top: "y"
        inner_product_param { num_output: 2 bias_term: false } }
layer { name: "e" type: "Power" bottom: "y" top: "z" power_param { scale: 3 } }
)";

class ExportOnnxTool : public ::testing::Test {
 protected:
  void SetUp() override {
    temp_.Write("net.prototxt", kNet);
    const auto plan = test::PlanText(kNet, TEST);
    const auto weights = Weights::Make(*plan, 1);
    std::ranges::fill(weights->blob(0).span<float>(), 0.1F);
    WriteCaffemodel(weights->Export(*plan), temp_.File("w.caffemodel"));
    std::ranges::fill(five_.view().span<float>(), 5.0F);
    temp_.Write("five.npy", FormatNpy(std::as_const(five_).view()));
  }
  ProcessResult Export(std::vector<std::string> more) {
    std::vector<std::string> arguments = {test::Bin("deploy"), "export", "--model=net.prototxt",
                                          "--weights=w.caffemodel", "-o=m.onnx"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::RunProcess(arguments, temp_.path());
  }

  TempDir temp_;
  Tensor five_{Shape{3, 4}, DType::kF32};
};

TEST_F(ExportOnnxTool, ChecksWithGivenInputs) {
  EXPECT_EQ(Export({"--input=x=five.npy"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(temp_.File("m.onnx")));
  std::filesystem::remove(temp_.File("m.onnx"));
  // Random inputs do not see that the weights are rounded.
  const std::vector<std::string> rounded = {"--f16_weights", "--rtol=1e-6"};
  EXPECT_EQ(Export(rounded).exit_code, 0);
  std::filesystem::remove(temp_.File("m.onnx"));
  std::vector<std::string> given = rounded;
  given.emplace_back("--input=x=five.npy");
  EXPECT_EQ(Export(given).exit_code, 1);
}

TEST_F(ExportOnnxTool, NamesTheFirstBlobThatDiffersAndLeavesNothing) {
  const size_t before = temp_.FileCount();
  const std::vector<std::string> rounded = {"--f16_weights", "--rtol=1e-6", "--input=x=five.npy"};
  const ProcessResult result = Export(rounded);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(
      result.err.find("m.onnx is not written: blob 'y' of layer 'l' differs in 6 of 6 values"),
      std::string::npos)
      << result.err;
  EXPECT_EQ(temp_.FileCount(), before);
  std::vector<std::string> external = rounded;
  external.emplace_back("--external_data");
  EXPECT_EQ(Export(external).exit_code, 1);
  EXPECT_EQ(temp_.FileCount(), before);
}

TEST_F(ExportOnnxTool, KeepsAnExistingFileIfTheNewOneDiffers) {
  ASSERT_EQ(Export({}).exit_code, 0);
  const std::string old = temp_.Read("m.onnx");
  EXPECT_EQ(Export({"--f16_weights", "--rtol=1e-6", "--input=x=five.npy"}).exit_code, 1);
  EXPECT_EQ(temp_.Read("m.onnx"), old);
}

TEST_F(ExportOnnxTool, RefusesInputsThatDoNotFit) {
  const size_t before = temp_.FileCount();
  const ProcessResult result = Export({"--input=q=five.npy"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("'q'"), std::string::npos) << result.err;
  EXPECT_EQ(temp_.FileCount(), before);
}

TEST_F(ExportOnnxTool, ReplacesNoFileOfSomethingElse) {
  temp_.Write("m.onnx.data", "mine");
  ProcessResult result = Export({"--external_data"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("m.onnx.data: is there, but not m.onnx"), std::string::npos)
      << result.err;
  EXPECT_EQ(temp_.Read("m.onnx.data"), "mine");
  result = Export({});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.err.find("m.onnx.data is not of this export"), std::string::npos) << result.err;
  EXPECT_EQ(Export({"--external_data"}).exit_code, 0);
  result = test::RunProcess({test::Bin("deploy"), "export", "--model=m.onnx", "-o=./m.onnx"},
                            temp_.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("which is read"), std::string::npos) << result.err;
}

TEST_F(ExportOnnxTool, RefusesTolerancesThatAreNone) {
  for (const char* rtol : {"--rtol=nan", "--rtol=-1"}) {
    const ProcessResult result = Export({rtol});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find("--rtol must be 0 or more"), std::string::npos) << result.err;
  }
}

// A python3 that waits stands for a long check.
TEST_F(ExportOnnxTool, LeavesNothingWhenItIsInterrupted) {
  temp_.Write("python3",
              "#!/bin/sh\ntouch started\nwhile [ ! -e go ]; do sleep 0.01; done\nexit 1\n");
  std::filesystem::permissions(temp_.File("python3"), std::filesystem::perms::owner_all);
  for (const char* external : {"--external_data=false", "--external_data"}) {
    test::Process process({"/usr/bin/env", StrCat("PATH=", temp_.path(), ":/usr/bin:/bin"),
                           test::Bin("deploy"), "export", "--model=net.prototxt",
                           "--weights=w.caffemodel", "-o=m.onnx", "--check=onnxruntime", external},
                          temp_.path(), temp_.File("stdout"), temp_.File("stderr"));
    while (!std::filesystem::exists(temp_.File("started")) && process.IsRunning()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    process.Signal(SIGTERM);
    temp_.Write("go", "");
    EXPECT_EQ(process.Wait(), 128 + SIGTERM) << temp_.Read("stderr");
    for (const auto& entry : std::filesystem::directory_iterator(temp_.path())) {
      EXPECT_FALSE(entry.path().filename().string().starts_with("m.onnx")) << entry.path();
    }
    std::filesystem::remove(temp_.File("started"));
    std::filesystem::remove(temp_.File("go"));
  }
}

// A process that was killed left it.
TEST_F(ExportOnnxTool, RemovesTemporaryFilesOfKilledExports) {
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size()), 0);
  const std::string left =
      temp_.Write(StrCat("m.onnx.tmp.", host.data(), ".4194305-0123456789abcdef"), "x");
  EXPECT_EQ(Export({}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(left));
}

}  // namespace
}  // namespace crema
