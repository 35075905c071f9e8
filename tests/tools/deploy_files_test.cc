// deploy and user files: inputs are not overwritten, unwritable outputs are reported, unneeded
// arrays are not read.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/strings.h"
#include "format/npy.h"
#include "format/tensor_files.h"
#include "support/process.h"
#include "tools/deploy_nets.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::ProcessResult;
using test::RunProcess;

class DeployFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteDeployNets(temp_);
    temp_.Write("x.npy", FormatNpy(Ones({2, 3, 4, 4}, DType::kF32).view()));
  }

  static Tensor Ones(const Shape& shape, DType dtype) {
    Tensor tensor(shape, dtype);
    if (dtype == DType::kF32) std::ranges::fill(tensor.view().span<float>(), 1.0F);
    return tensor;
  }

  std::vector<std::string> Command(const std::string& action,
                                   std::vector<std::string> arguments) const {
    const std::string net = action == "segment" ? "colours" : "means";
    std::vector<std::string> command = {Bin("deploy"), action, "--model=" + net + ".prototxt",
                                        "--weights=" + net + ".caffemodel"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }

  ProcessResult Deploy(const std::string& action, std::vector<std::string> arguments) const {
    return RunProcess(Command(action, std::move(arguments)), temp_.path());
  }

  void ExpectRefused(const std::string& action, std::vector<std::string> arguments,
                     const std::string& text) const {
    const ProcessResult result = Deploy(action, std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << text << result.err << result.out;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  }

  test::TempDir temp_;
};

TEST_F(DeployFiles, WhatIsReadIsNotReplaced) {
  fs::create_directory(temp_.File("photos"));
  const std::string photo = test::Stripes(9, 5, "rkg");
  for (const char* name : {"photos/a.ppm", "photos/b.png", "photos/video.avi"}) {
    temp_.Write(name, photo);
  }
  fs::create_hard_link(temp_.File("photos/a.ppm"), temp_.File("other.ppm"));
  ExpectRefused("classify", {"--draw=photos", "photos"}, "--draw would replace photos/a.ppm");
  ExpectRefused("classify", {"--draw=photos/a.ppm", "./photos/a.ppm"}, "--draw would replace");
  ExpectRefused("classify", {"--draw=other.ppm", "photos/a.ppm"}, "would replace other.ppm");
  ExpectRefused("classify", {"--draw=photos/video.avi", "photos/video.avi"},
                "--draw would replace");
  ExpectRefused("segment", {"--masks=photos", "photos/b.png"}, "--masks would replace");
  ExpectRefused("classify", {"--draw=two.png", "photos/a.ppm", "photos/b.png"},
                "two.png is one picture, but there are 2 inputs; name a folder");
  ExpectRefused("segment", {"--draw=new", "--masks=./new/", "photos/b.png"}, "of the same names");
  ExpectRefused("segment", {"--draw=new/b.png", "--masks=new", "photos/b.png"},
                "of the same names");
  const std::string x = temp_.Read("x.npy");
  ExpectRefused("run", {"--input=data=x.npy", "--output=./x.npy"}, "--output would replace");
  ExpectRefused("verify", {"--record", "--input=x.npy", "--recording=x.npy"},
                "--recording would replace");
  EXPECT_EQ(temp_.Read("photos/a.ppm"), photo);
  EXPECT_EQ(temp_.Read("photos/b.png"), photo);
  EXPECT_EQ(temp_.Read("photos/video.avi"), photo);
  EXPECT_EQ(temp_.Read("x.npy"), x);
}

TEST_F(DeployFiles, AnswersThatCannotBeWrittenAreAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const std::string command = Join(Command("run", {"--input=x.npy"}), " ");
  for (const std::string& lost :
       {command + " > /dev/full", command + " >&-", Bin("deploy") + " --help > /dev/full"}) {
    const ProcessResult result = RunProcess({"/bin/sh", "-c", lost}, temp_.path());
    EXPECT_EQ(result.exit_code, 3) << lost << result.err;
    EXPECT_NE(result.err.find("standard output cannot be written"), std::string::npos)
        << result.err;
  }
}

TEST_F(DeployFiles, JsonIsJsonToTheEnd) {
  const ProcessResult made = Deploy("export", {"--json", "--name=a\"b", "-o", "m.crema"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(made.out.starts_with(
      "{\"file\": \"m.crema\", \"name\": \"a\\\"b\", \"task\": \"classify\", \"bytes\": "))
      << made.out;
  EXPECT_EQ(RunProcess({Bin("deploy"), "verify", "--json", "--model=m.crema"}, temp_.path()).out,
            "{\"model\": \"m.crema\", \"fits\": true}\n");
#ifdef CREMA_HAVE_ZIP
  EXPECT_EQ(Deploy("verify", {"--json", "--record", "--recording=r.npz"}).out,
            "{\"inputs\": 1, \"outputs\": 1, \"recording\": \"r.npz\"}\n");
#endif
}

TEST_F(DeployFiles, RecordingsHaveOneArrayOfAName) {
  temp_.Write("in_place.prototxt", R"(name: "in_place"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 12 } } }
layer { name: "score" type: "Convolution" bottom: "data" top: "score" convolution_param { num_output: 4 kernel_size: 1 } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "data" }
)");
  const ProcessResult result =
      RunProcess({Bin("deploy"), "verify", "--model=in_place.prototxt",
                  "--weights=colours.caffemodel", "--record", "--recording=r.npz"},
                 temp_.path());
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("'data' is an input and an output"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(temp_.File("r.npz")));
}

TEST_F(DeployFiles, ArraysOfOtherNamesAreNotRead) {
#ifndef CREMA_HAVE_ZIP
  GTEST_SKIP() << "this build has no minizip";
#endif
  const Tensor x = Ones({2, 3, 4, 4}, DType::kF32);
  WriteArrays(temp_.File("x.npz"),
              std::vector<NamedArrayView>{{"data", x.view()}, {"junk", x.view()}});
  std::string bytes = temp_.Read("x.npz");
  bytes.replace(bytes.rfind("<f4"), 3, "|O8");
  temp_.Write("x.npz", bytes);
  const ProcessResult result = Deploy("run", {"--input=x.npz"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ExpectRefused("run", {"--input=junk=x.npz"}, "has no input 'junk'");
}

TEST_F(DeployFiles, RangesOfWhatIsNoNumber) {
  Tensor x = Ones({1, 3, 4, 4}, DType::kF32);
  std::ranges::fill(x.view().span<float>(), std::numeric_limits<float>::quiet_NaN());
  temp_.Write("nan.npy", FormatNpy(x.view()));
  EXPECT_EQ(Deploy("run", {"--input=nan.npy"}).out, "prob: 1x3x1x1, min nan, mean nan, max nan\n");
}

TEST_F(DeployFiles, WholeNumbersThatNoFloatIsAreNotCast) {
  Tensor x(Shape{1, 3, 4, 4}, DType::kI64);
  auto* values = static_cast<int64_t*>(x.view().raw());
  std::fill_n(values, x.view().count(), 0);
  values[5] = int64_t{1} << 40;
  temp_.Write("x.npy", FormatNpy(x.view()));
  ExpectRefused("run", {"--input=x.npy"}, "; give --cast\n");
  EXPECT_EQ(Deploy("run", {"--input=x.npy", "--cast"}).exit_code, 0);
  values[7] = 16777217;
  temp_.Write("x.npy", FormatNpy(x.view()));
  ExpectRefused("run", {"--input=x.npy", "--cast"}, "16777217 at element 7 is no float32");
}

TEST_F(DeployFiles, MistakesAreNamedAsWhatTheyAre) {
  ExpectRefused("run", {"--input=missing.npy"}, "missing.npy");
#ifdef CREMA_HAVE_HDF5
  ExpectRefused("run", {"--input=missing.h5"}, "no such file");
#endif
  temp_.Write("half.npy", FormatNpy(Ones({1, 3, 4, 4}, DType::kF16).view()));
  for (const char* cast : {"--cast", "--nocast"}) {
    const ProcessResult half = Deploy("run", {"--input=half.npy", cast});
    EXPECT_EQ(half.exit_code, 2) << half.err;
    EXPECT_NE(half.err.find("save it with .astype(numpy.float32)"), std::string::npos) << half.err;
    EXPECT_EQ(half.err.find("--cast"), std::string::npos) << half.err;
  }
}

}  // namespace
}  // namespace crema
