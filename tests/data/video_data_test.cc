#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "data/lists/image_list.h"
#include "support/temp_dir.h"

namespace crema {

void RegisterVideoData(Registry&);

namespace {

using test::TempDir;
using testing::Encode;
using testing::ExpectError;
using testing::Flat;
using testing::LayerRunner;

Registry Videos() {
  Registry registry;
  RegisterVideoData(registry);
  return registry;
}

std::string VideoLayer(const std::string& file, const std::string& more = "") {
  return StrCat(
      "name: 'video' type: 'VideoData' top: 'data' top: 'label' data_param { batch_size: 2 "
      "} video_data_param { video_type: VIDEO video_file: '",
      file, "' ", more, " }");
}

// Frame i shows the value i.
void WriteFrames(const TempDir& temp, int first, int last) {
  for (int i = first; i <= last; ++i) {
    temp.Write(StrCat("f_", i < 10 ? "00" : "0", i, ".png"), Encode(Flat(2, 3, i)));
  }
}

std::vector<float> FirstPixels(LayerRunner& runner, int batches) {
  std::vector<float> pixels;
  for (int i = 0; i < batches; ++i) {
    runner.Forward();
    const float* data = runner.outputs[0].view().data<float>();
    pixels.insert(pixels.end(), {data[0], data[18]});
  }
  return pixels;
}

TEST(VideoDataLayer, FramesFollowEachOtherAndWrap) {
  TempDir temp;
  WriteFrames(temp, 1, 11);
  const Registry registry = Videos();
  LayerRunner runner(registry, VideoLayer(temp.File("f_%03d.png")));
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{2, 3, 2, 3}));
  EXPECT_EQ(FirstPixels(runner, 6), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1}));
  EXPECT_EQ(runner.Collect(1, 1), (std::vector<float>{0, 0}));
  EXPECT_EQ(runner.state().EpochSize(), 11);
  LayerRunner skipping(registry, VideoLayer(temp.File("f_%03d.png"), "skip_frames: 3"));
  EXPECT_EQ(FirstPixels(skipping, 2), (std::vector<float>{1, 5, 9, 1}));
}

TEST(VideoDataLayer, SamplesAreNamedByTheirFile) {
  TempDir temp;
  WriteFrames(temp, 1, 11);
  const Registry registry = Videos();
  LayerRunner runner(registry, VideoLayer(temp.File("f_%03d.png")));
  FirstPixels(runner, 2);
  EXPECT_EQ(runner.state().SampleName(1), temp.File("f_004.png"));
}

TEST(VideoDataLayer, ResumesWhereItWasSaved) {
  TempDir temp;
  WriteFrames(temp, 0, 4);
  const Registry registry = Videos();
  LayerRunner runner(registry, VideoLayer(temp.File("f_%03d.png")));
  FirstPixels(runner, 2);
  LayerState saved;
  runner.state().Save(&saved);
  LayerRunner resumed(registry, VideoLayer(temp.File("f_%03d.png")));
  resumed.state().Restore(saved);
  EXPECT_EQ(FirstPixels(resumed, 1), (std::vector<float>{4, 0}));
}

TEST(VideoDataLayer, BrokenFramesAreErrors) {
  TempDir temp;
  const Registry registry = Videos();
  WriteFrames(temp, 0, 1);
  temp.Write("f_001.png", "no image");
  LayerRunner runner(registry, VideoLayer(temp.File("f_%03d.png")));
  ExpectError(ErrorCode::kDataLoss, "f_001.png': the image cannot be decoded",
              [&] { runner.Forward(); });
}

#ifndef CREMA_HAVE_VIDEO
TEST(VideoDataLayer, VideosAndCamerasNeedVideoio) {
  TempDir temp;
  const Registry registry = Videos();
  const std::string video = temp.Write("video.avi", "RIFF");
  ExpectError(ErrorCode::kUnsupported, "does without OpenCV's videoio",
              [&] { LayerRunner(registry, VideoLayer(video)); });
  ExpectError(ErrorCode::kUnsupported, "camera 3 cannot be read", [&] {
    LayerRunner(registry,
                "name: 'video' type: 'VideoData' top: 'data' data_param { batch_size: 1 } "
                "video_data_param { device_id: 3 }");
  });
}
#endif

}  // namespace
}  // namespace crema
#endif
