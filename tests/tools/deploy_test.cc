#include <gtest/gtest.h>

#include <filesystem>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "runtime/weights.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::ProcessResult;
using test::RunProcess;
using test::TempDir;

constexpr const char* kDeploy = R"(name: "bright"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 4 dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
)";

// Class 1 is "bright": its logit is the sum of the pixels, that of class 0 what is missing to 16.
class Deploy : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_OPENCV
    GTEST_SKIP() << "this build has no OpenCV";
#endif
    temp_.Write("deploy.prototxt", kDeploy);
    const auto plan = test::PlanText(kDeploy, TEST);
    const auto weights = Weights::Make(*plan, 1);
    const std::span<float> weight = weights->blob(0).span<float>();
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = i < 16 ? -1.0F : 1.0F;
    weights->blob(1).span<float>()[0] = 16;
    WriteCaffemodel(weights->Export(*plan), temp_.File("m.caffemodel"));
    WriteImage("dark.pgm", 4, 4, 10);
    WriteImage("light.pgm", 4, 4, 245);
    temp_.Write("labels.txt", "dark\nlight\n");
  }

  // A portable graymap of one value.
  void WriteImage(const std::string& name, int width, int height, int value) const {
    temp_.Write(name,
                "P5\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n" +
                    std::string(static_cast<size_t>(width * height), static_cast<char>(value)));
  }

  ProcessResult Classify(std::vector<std::string> arguments) const {
    std::vector<std::string> command = {Bin("deploy"), "classify", "--model=deploy.prototxt",
                                        "--weights=m.caffemodel", "--scale=0.00392156862745"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunProcess(command, temp_.path());
  }

  TempDir temp_;
};

TEST_F(Deploy, OneLineAnImageInOrder) {
  const ProcessResult result = Classify({"--labels=labels.txt", "light.pgm", "dark.pgm"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "light.pgm: light 1.0000, dark 0.0000\ndark.pgm: dark 1.0000, light 0.0000\n");
}

TEST_F(Deploy, InvertMeanAndTop) {
  EXPECT_EQ(Classify({"--invert", "--top=1", "dark.pgm"}).out, "dark.pgm: 1 1.0000\n");
  // A mean of 255 makes a bright picture zero.
  EXPECT_EQ(Classify({"--mean=255", "--top=1", "light.pgm"}).out, "light.pgm: 0 1.0000\n");
}

TEST_F(Deploy, JsonIsOneObjectALine) {
  const std::string out = Classify({"--json", "--top=1", "--labels=labels.txt", "light.pgm"}).out;
  const std::string head =
      "{\"image\": \"light.pgm\", \"predictions\": [{\"label\": \"light\", \"index\": 1, "
      "\"score\": 0.99999";
  EXPECT_TRUE(out.starts_with(head)) << out;
  EXPECT_TRUE(out.ends_with("}]}\n")) << out;
}

TEST_F(Deploy, FoldersListsAndOtherSizes) {
  fs::create_directory(temp_.File("images"));
  WriteImage("images/b.pgm", 9, 5, 250);
  WriteImage("images/a.pgm", 1, 1, 0);
  temp_.Write("images/notes.txt", "not an image");
  temp_.Write("list.txt", "light.pgm\n\ndark.pgm\n");
  EXPECT_EQ(Classify({"--top=1", "--list=list.txt", "images"}).out,
            "images/a.pgm: 0 1.0000\nimages/b.pgm: 1 1.0000\nlight.pgm: 1 1.0000\n"
            "dark.pgm: 0 1.0000\n");
}

TEST_F(Deploy, ThreadsGiveTheSameLines) {
  std::vector<std::string> images;
  for (int i = 0; i < 40; ++i) {
    images.push_back("image" + std::to_string(i) + ".pgm");
    WriteImage(images.back(), 4, 4, 6 * i);
  }
  std::vector<std::string> one = images;
  one.insert(one.begin(), "--threads=1");
  std::vector<std::string> three = images;
  three.insert(three.begin(), "--threads=3");
  EXPECT_EQ(Classify(one).out, Classify(three).out);
}

TEST_F(Deploy, ABrokenImageDoesNotStopTheOthers) {
  temp_.Write("broken.png", "\x89PNG\r\n\x1a\n and nothing behind it");
  const ProcessResult result = Classify({"--top=1", "broken.png", "missing.png", "light.pgm"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "light.pgm: 1 1.0000\n");
  EXPECT_NE(result.err.find("broken.png"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("missing.png"), std::string::npos) << result.err;
}

TEST_F(Deploy, MistakesAreExplained) {
  const auto expect = [&](std::vector<std::string> arguments, const std::string& text) {
    const ProcessResult result = Classify(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << text << "\n" << result.err;
  };
  expect({}, "no images");
  std::filesystem::create_directory(temp_.File("none"));
  expect({"none"}, "none: holds no image and no video (folders in it are not searched)");
  temp_.Write("bytes", std::string("\x89PNG\0", 5));
  expect({"--list=bytes"}, "bytes: is a binary file, not a text with a name on each line");
  expect({"--mean=1,2,3", "dark.pgm"}, "--mean has 3 numbers for 1 channels");
  expect({"--mean=nothing", "dark.pgm"}, "neither a file nor numbers");
  expect({"--output=prop", "dark.pgm"}, "(did you mean 'prob'?)");
  temp_.Write("labels.txt", "one\ntwo\nthree\n");
  expect({"--labels=labels.txt", "dark.pgm"}, "has 3 labels");
  expect({"--opset=13", "dark.pgm"},
         "deploy classify does not take --opset: it is a flag of deploy export");
  expect({"--nolayers", "dark.pgm"},
         "deploy classify does not take --layers: it is a flag of deploy verify");
  EXPECT_EQ(RunProcess({Bin("deploy"), "clasify"}).exit_code, 2);
  EXPECT_NE(RunProcess({Bin("deploy"), "clasify"}).err.find("did you mean 'classify'"),
            std::string::npos);
}

TEST_F(Deploy, SwappedFilesAreRecognised) {
  const ProcessResult swapped = RunProcess(
      {Bin("deploy"), "classify", "--model=m.caffemodel", "--weights=deploy.prototxt", "dark.pgm"},
      temp_.path());
  EXPECT_EQ(swapped.exit_code, 2);
  EXPECT_NE(swapped.err.find("m.caffemodel"), std::string::npos) << swapped.err;
}

TEST_F(Deploy, ReplayRecordsAndComparesAndFindsTheFirstMisfit) {
  const std::vector<std::string> base = {Bin("replay"), "--model=deploy.prototxt",
                                         "--weights=m.caffemodel", "--golden=g.binaryproto"};
  std::vector<std::string> record = base;
  record.push_back("--record");
  ASSERT_EQ(RunProcess(record, temp_.path()).exit_code, 0);
  const ProcessResult same = RunProcess(base, temp_.path());
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_NE(same.out.find("blob:prob"), std::string::npos) << same.out;
  NetParameter golden = ReadNetBinary(temp_.File("g.binaryproto"));
  for (LayerParameter& layer : *golden.mutable_layer()) {
    if (layer.name() == "blob:ip") layer.mutable_blobs(0)->set_data(0, 99);
    if (layer.name() == "blob:prob") layer.mutable_blobs(0)->set_data(0, 99);
  }
  temp_.Write("g.binaryproto", golden.SerializeAsString());
  const ProcessResult changed = RunProcess(base, temp_.path());
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_NE(changed.out.find("first misfit: blob:ip of layer \"ip\""), std::string::npos)
      << changed.out;
  const ProcessResult wrong =
      RunProcess({Bin("replay"), "--model=deploy.prototxt", "--golden=m.caffemodel"}, temp_.path());
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_NE(wrong.err.find("is not a recording"), std::string::npos) << wrong.err;
}

TEST_F(Deploy, ReplayRecordsWithThePinnedImplementation) {
  const std::vector<std::string> base = {Bin("replay"), "--model=deploy.prototxt",
                                         "--weights=m.caffemodel", "--golden=g.binaryproto",
                                         "--record"};
  std::vector<std::string> unknown = base;
  unknown.push_back("--implementation=ip:fastest");
  const ProcessResult refused = RunProcess(unknown, temp_.path());
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("fastest"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(temp_.File("g.binaryproto")));
  std::vector<std::string> native = base;
  native.push_back("--implementation=ip:native");
  const ProcessResult recorded = RunProcess(native, temp_.path());
  EXPECT_EQ(recorded.exit_code, 0) << recorded.err;
}

}  // namespace
}  // namespace crema
