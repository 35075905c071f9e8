// VideoData with video files and cameras; image sequences are in video_data_test.cc.
#ifdef CREMA_HAVE_VIDEO
#include <gtest/gtest.h>

#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/videoio.hpp>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/video_batches.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "format/file.h"
#include "runtime/session.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {

void RegisterVideoData(Registry&);

namespace {

using test::TempDir;
using testing::ExpectError;
using testing::Flat;
using testing::LayerRunner;

// A video of 11 frames; frame i shows approximately 20 i, due to JPEG.
class VideoFile : public ::testing::Test {
 protected:
  static constexpr int kFrames = 11;
  static constexpr int kHeight = 32;
  static constexpr int kWidth = 48;

  void SetUp() override {
    RegisterVideoData(registry_);
    cv::VideoWriter writer(video_, cv::CAP_OPENCV_MJPEG,
                           cv::VideoWriter::fourcc('M', 'J', 'P', 'G'), 10,
                           cv::Size(kWidth, kHeight));
    if (!writer.isOpened()) GTEST_SKIP() << "this OpenCV cannot write Motion JPEG";
    for (int i = 0; i < kFrames; ++i) writer.write(Flat(kHeight, kWidth, 20 * i));
  }

  static std::string Layer(const std::string& file, const std::string& video = "",
                           const std::string& more = "") {
    return StrCat("name: 'video' type: 'VideoData' top: 'data' top: 'label' data_param { ",
                  "batch_size: 2 } video_data_param { video_type: VIDEO video_file: '", file, "' ",
                  video, " } ", more);
  }

  // Returns the frames that the samples of some batches show, after checking all channels and
  // corners.
  static std::vector<int> Shown(LayerRunner& runner, int batches) {
    std::vector<int> frames;
    for (int i = 0; i < batches; ++i) {
      runner.Forward();
      const auto data = runner.outputs[0].view().span<float>();
      const size_t sample = data.size() / 2;
      for (const size_t begin : {size_t{0}, sample}) {
        const int frame = static_cast<int>((data[begin] + 10) / 20);
        for (size_t k = begin; k < begin + sample; k += 47) {
          EXPECT_NEAR(data[k], 20 * frame, 3) << "value " << k;
        }
        frames.push_back(frame);
      }
    }
    return frames;
  }

  // Keeps the first `tenths` of the video.
  std::string Truncated(size_t tenths) const {
    const std::string bytes = ReadFile(video_);
    return temp_.Write("truncated.avi", bytes.substr(0, bytes.size() * tenths / 10));
  }

  TempDir temp_;
  const std::string video_ = temp_.File("video.avi");
  Registry registry_;
};

TEST_F(VideoFile, FramesFollowEachOtherAndWrap) {
  LayerRunner runner(registry_, Layer(video_));
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{2, 3, kHeight, kWidth}));
  EXPECT_EQ(runner.state().EpochSize(), kFrames);
  EXPECT_EQ(Shown(runner, 7), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2}));
  EXPECT_EQ(runner.Collect(1, 1), (std::vector<float>{0, 0}));
}

// One pass has the frames 0, 2, 4, 6, 8, 10.
TEST_F(VideoFile, RanksShareTheFrames) {
  std::vector<uint64_t> frames;
  VideoSource source({.file = video_}, /*skip=*/1, {.rank = 1, .world = 4});
  for (int i = 0; i < 4; ++i) {
    Record record;
    source.Read(&record);
    EXPECT_EQ(record.ordinal, 4U * static_cast<uint64_t>(i) + 1);
    frames.push_back(record.entry);
  }
  EXPECT_EQ(frames, (std::vector<uint64_t>{2, 10, 6, 2}));
}

TEST_F(VideoFile, ChannelsAreBlueGreenRedOrGray) {
  const std::string video = temp_.File("blue.avi");
  {
    cv::VideoWriter writer(video, cv::CAP_OPENCV_MJPEG, cv::VideoWriter::fourcc('M', 'J', 'P', 'G'),
                           10, cv::Size(kWidth, kHeight));
    for (int i = 0; i < 3; ++i) {
      writer.write(cv::Mat(kHeight, kWidth, CV_8UC3, cv::Scalar(200, 100, 50)));
    }
  }
  LayerRunner color(registry_, Layer(video));
  color.Forward();
  const float* data = color.outputs[0].view().data<float>();
  for (const int c : {0, 1, 2}) {
    EXPECT_NEAR(data[c * kHeight * kWidth], (std::vector<float>{200, 100, 50}[c]), 4);
  }
  LayerRunner gray(registry_, Layer(video, "", "transform_param { force_gray: true scale: 0.5 }"));
  EXPECT_EQ(gray.outputs[0].shape(), (Shape{2, 1, kHeight, kWidth}));
  gray.Forward();
  const double luma = 0.114 * 200 + 0.587 * 100 + 0.299 * 50;
  EXPECT_NEAR(gray.outputs[0].view().data<float>()[0], luma / 2, 2);
}

TEST_F(VideoFile, SkippedFramesAreLeftOut) {
  LayerRunner runner(registry_, Layer(video_, "skip_frames: 3"));
  EXPECT_EQ(runner.state().EpochSize(), 3);
  EXPECT_EQ(Shown(runner, 3), (std::vector<int>{0, 4, 8, 0, 4, 8}));
  LayerRunner all(registry_, Layer(video_, "skip_frames: 4294967295"));
  EXPECT_EQ(Shown(all, 1), (std::vector<int>{0, 0}));
}

TEST_F(VideoFile, ResumesWhereItWasSaved) {
  LayerRunner runner(registry_, Layer(video_));
  Shown(runner, 2);
  LayerState saved;
  runner.state().Save(&saved);
  EXPECT_EQ(saved.position(), 4u);
  LayerRunner resumed(registry_, Layer(video_));
  resumed.state().Restore(saved);
  EXPECT_EQ(Shown(resumed, 1), (std::vector<int>{4, 5}));
  saved.set_position(2 * kFrames + 9);  // in the third pass
  resumed.state().Restore(saved);
  EXPECT_EQ(Shown(resumed, 2), (std::vector<int>{9, 10, 0, 1}));
  saved.set_position(kFrames * 1'000'000'000'000'000ull + 1);
  LayerRunner far(registry_, Layer(video_, "skip_frames: 1000000"));
  far.state().Restore(saved);
  EXPECT_EQ(Shown(far, 1), (std::vector<int>{0, 0}));
}

TEST_F(VideoFile, ANetReadsItAndResumes) {
  const std::string net =
      StrCat("layer { ", Layer(video_), " } layer { name: 'half' type: 'Power' bottom: 'data' ",
             "top: 'half' power_param { scale: 0.05 } }");
  const auto plan = test::PlanText(net, TEST);
  const auto weights = Weights::Make(*plan, 1);
  Session session(plan, weights, ExecContext(2, 1));
  for (int i = 0; i < 4; ++i) session.Forward();
  const std::vector<float> shown = test::ValuesOf(session.Data("half"));
  EXPECT_NEAR(shown.front(), 6, 0.2);
  EXPECT_NEAR(shown.back(), 7, 0.2);
  SolverState state;
  session.SaveState("test#0", &state);
  Session resumed(plan, weights, ExecContext(1, 1));
  resumed.RestoreState("test#0", state);
  session.Forward();
  resumed.Forward();
  EXPECT_EQ(test::ValuesOf(session.Data("half")), test::ValuesOf(resumed.Data("half")));
}

TEST_F(VideoFile, ATruncatedVideoIsNoShortVideo) {
  const std::string video = Truncated(6);
  ExpectError(ErrorCode::kDataLoss, "truncated.avi", [&] {
    LayerRunner runner(registry_, Layer(video));
    runner.Forward();
  });
  // Long videos are not counted in advance: the reader notices at the end.
  VideoSource source({.file = video}, 1);
  ExpectError(ErrorCode::kDataLoss, "of its 11 frames can be read", [&] {
    Record record;
    for (int i = 0; i < kFrames; ++i) source.Read(&record);
  });
  const std::string header = Truncated(1);
  ExpectError(ErrorCode::kDataLoss, "truncated.avi",
              [&] { LayerRunner(registry_, Layer(header)); });
}

TEST_F(VideoFile, OtherFilesAreErrors) {
  const std::string text = temp_.Write("text01.avi", "this is no video");
  ExpectError(ErrorCode::kDataLoss, "text01.avi' cannot be read: it is damaged, no video",
              [&] { LayerRunner(registry_, Layer(text)); });
  const std::string empty = temp_.Write("empty.avi", "");
  ExpectError(ErrorCode::kDataLoss, "empty.avi'", [&] { LayerRunner(registry_, Layer(empty)); });
  ExpectError(ErrorCode::kNotFound, "no/such/video.avi",
              [&] { LayerRunner(registry_, Layer("no/such/video.avi")); });
}

TEST_F(VideoFile, AVideoThatGoesAwayIsAnError) {
  LayerRunner runner(registry_, Layer(video_));
  temp_.Write("video.avi", "this is no video");
  ExpectError(ErrorCode::kDataLoss, "layer \"video\"", [&] { runner.Forward(); });
}

TEST(VideoCamera, MissingCameraIsAnError) {
  Registry registry;
  RegisterVideoData(registry);
  ExpectError(ErrorCode::kNotFound, "camera 97 cannot be opened", [&] {
    LayerRunner(registry,
                "name: 'video' type: 'VideoData' top: 'data' data_param { batch_size: 1 } "
                "video_data_param { device_id: 97 }");
  });
}

}  // namespace
}  // namespace crema
#endif
