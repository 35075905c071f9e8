// deploy without weights, axes, samples or labels.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "format/npy.h"
#include "support/process.h"
#include "tools/deploy_nets.h"

namespace crema {
namespace {

using test::Bin;
using test::ProcessResult;
using test::RunProcess;

class DeployLimits : public ::testing::Test {
 protected:
  void SetUp() override { test::WriteDeployNets(temp_); }

  ProcessResult Deploy(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), Bin("deploy"));
    return RunProcess(arguments, temp_.path());
  }
  // Uses a net with weights.
  void ExpectMistake(std::vector<std::string> arguments, const std::string& text) const {
    arguments.insert(arguments.end(), {"--model=means.prototxt", "--weights=means.caffemodel"});
    const ProcessResult result = Deploy(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << text << "\n" << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  }

  test::TempDir temp_;
};

TEST_F(DeployLimits, NetsWithoutParametersNeedNoWeights) {
  temp_.Write("twice.prototxt", R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { } } }
layer { name: "y" type: "Power" bottom: "x" top: "y" power_param { scale: 2 } }
)");
  Tensor three(Shape(), DType::kF32);
  three.view().data<float>()[0] = 3;
  temp_.Write("x.npy", FormatNpy(three.view()));
  const ProcessResult made = Deploy({"export", "--model=twice.prototxt", "-o", "twice.crema"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  for (const char* model : {"--model=twice.prototxt", "--model=twice.crema"}) {
    const ProcessResult run = Deploy({"run", model, "--input=x.npy", "--output=y.npy"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(ParseNpy(temp_.Read("y.npy"), "y.npy").view().data<float>()[0], 6);
  }
  const ProcessResult learned = Deploy({"run", "--model=means.prototxt", "--input=x.npy"});
  EXPECT_EQ(learned.exit_code, 2);
  EXPECT_NE(learned.err.find("--weights is required"), std::string::npos) << learned.err;
}

TEST_F(DeployLimits, EmptyThingsAreRefused) {
  const Tensor none({0, 3, 4, 4}, DType::kF32);
  temp_.Write("none.npy", FormatNpy(none.view()));
  ExpectMistake({"run", "--input=none.npy", "--batch=2"}, "no samples");
  temp_.Write("labels.txt", "\n \n");
  ExpectMistake({"export", "-o", "m.crema", "--labels=labels.txt"}, "has no labels");
  ExpectMistake({"bench", "--instances=1025"}, "'1025' is not a number from 1 to 1024");
}

TEST_F(DeployLimits, CalibrationTakesNumbers) {
  temp_.Write("list.txt", "a.ppm\n");
  ExpectMistake(
      {"export", "-o", "m.crema", "--precision=int8", "--calibrate=list.txt", "--least_snr_db=nan"},
      "--least_snr_db");
}

TEST_F(DeployLimits, LabelsMayBeginWithAByteOrderMark) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build has no OpenCV";
#endif
  temp_.Write("labels.txt",
              "\xEF\xBB\xBF"
              "blue\ngreen\nred\n");
  temp_.Write("b.ppm", test::Stripes(4, 4, "b"));
  const ProcessResult result =
      Deploy({"classify", "--top=1", "--json", "--labels=labels.txt", "--model=means.prototxt",
              "--weights=means.caffemodel", "b.ppm"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("\"blue\""), std::string::npos) << result.out;
}

}  // namespace
}  // namespace crema
