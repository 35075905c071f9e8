// A published face detector: its recorded outputs, and faces in a picture.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "inference/detector.h"
#include "runtime/replay.h"
#include "support/net.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

class Slim320 : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(fs::exists(model_ / "slim-320.caffemodel")) << model_; }
  std::string Part(const char* name) const { return (model_ / name).string(); }

  const fs::path source_ = fs::path(CREMA_SOURCE_DIR);
  const fs::path model_ = source_ / "tests" / "models" / "slim-320";
};

class NoLog final : public LogSink {
 public:
  void Write(Severity, std::string_view) override {}
};

TEST_F(Slim320, RecordedOutputsAreReproduced) {
  const NetFile net = ReadNet(Part("slim-320.prototxt"));
  const std::string weights_file = Part("slim-320.caffemodel");
  const NetParameter weights = ReadCaffemodel(weights_file);
  const NetParameter golden = ReadNetBinary(Part("golden.binaryproto"));
  for (const bool optimize : {false, true}) {
    const ReplayResult result = Replay({net, &weights, weights_file}, golden, test::TestRegistry(),
                                       {.rtol = 0, .atol = 1e-4, .optimize = optimize});
    EXPECT_GE(result.lines.size(), 2U);
    EXPECT_TRUE(result.fits) << result.lines.back().what << " differs by "
                             << result.lines.back().max_absolute;
  }
}

TEST_F(Slim320, FindsTheFacesOfThePicture) {
#ifndef CREMA_HAVE_OPENCV
  GTEST_SKIP() << "this build has no OpenCV";
#endif
  NetFile net =
      WithTail(ReadNet(Part("slim-320.prototxt")),
               ReadNet((source_ / "models" / "ultra_light_face" / "tail.prototxt").string()));
  NoLog log;
  ConfigureDecoder({.confidence = 0.6, .nms = {}}, &net);
  const Detector detector(
      Model::Make(net, {.paths = {Part("slim-320.caffemodel")}}, {}, {}, test::TestRegistry(), log),
      0.6);
  EXPECT_EQ(detector.classes(), 2);
  Detector::Worker worker(detector, {.scale = 1.0F / 128, .mean = {127, 127, 127}, .rgb = true});
  Image image;
  DecodeImage(ReadFile(Part("faces.jpg")), ColorMode::kColor, "faces.jpg", &image);
  const std::vector<FoundBox> faces = worker.Detect({&image, 1})[0];
  ASSERT_FALSE(faces.empty());
  for (const FoundBox& face : faces) {
    EXPECT_EQ(face.label, 1);
    EXPECT_GT(face.score, 0.6);
    EXPECT_GT(face.box.xmax, face.box.xmin);
    EXPECT_GT(face.box.ymax, face.box.ymin);
  }
}

}  // namespace
}  // namespace crema
