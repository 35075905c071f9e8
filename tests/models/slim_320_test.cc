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
  const NetFile net = ReadNet(Part("slim-320.prototxt"));
  NetFile with_tail = WithTail(net, ReadNet(Part("tail.prototxt")));
  Image image;
  DecodeImage(ReadFile(Part("faces.jpg")), ColorMode::kColor, "faces.jpg", &image);
  for (const double confidence : {0.6, 0.05}) {
    ConfigureDecoder({.confidence = confidence, .nms = {}}, &with_tail);
    const auto faces_of = [&](const NetFile& of) {
      NoLog log;
      const Detector detector(Model::Make(of, {.paths = {Part("slim-320.caffemodel")}}, {}, {},
                                          test::TestRegistry(), log),
                              confidence);
      EXPECT_EQ(detector.classes(), 2);
      Detector::Worker worker(detector,
                              {.scale = 1.0F / 128, .mean = {127, 127, 127}, .rgb = true});
      return worker.Detect({&image, 1})[0];
    };
    const std::vector<FoundBox> faces = faces_of(net);  // by the shapes of its outputs
    const std::vector<FoundBox> expected = faces_of(with_tail);
    ASSERT_EQ(faces.size(), expected.size());
    EXPECT_GT(faces.size(), 3U);
    for (size_t i = 0; i < faces.size(); ++i) {
      EXPECT_EQ(faces[i].label, 1);
      EXPECT_EQ(faces[i].score, expected[i].score);
      EXPECT_NEAR(faces[i].box.xmin, expected[i].box.xmin, 1e-3);
      EXPECT_NEAR(faces[i].box.ymin, expected[i].box.ymin, 1e-3);
      EXPECT_NEAR(faces[i].box.xmax, expected[i].box.xmax, 1e-3);
      EXPECT_NEAR(faces[i].box.ymax, expected[i].box.ymax, 1e-3);
    }
  }
}

}  // namespace
}  // namespace crema
