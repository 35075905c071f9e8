#include "core/error.h"
#include "data/image/codecs_opencv.h"
#include "data/image/mat_opencv.h"
#include "data/image/video_writer.h"

namespace crema {

struct VideoWriter::Encoder {
  std::unique_ptr<VideoEncoder> video;
};

#ifdef CREMA_HAVE_VIDEO

VideoWriter::VideoWriter(const std::string& path, double frames_per_second, int height, int width)
    : encoder_(std::make_unique<Encoder>(Encoder{MakeVideoEncoder()})) {
  bool open = false;
  try {
    open = encoder_->video->Open(path, frames_per_second, {width, height});
  } catch (const cv::Exception&) {
    open = false;  // reported below
  }
  if (!open) Fail(ErrorCode::kIoFailure, "cannot be written as a video", {.file = path});
}

void VideoWriter::Write(const Image& frame) { encoder_->video->Write(MergePlanes(frame)); }

#else

VideoWriter::VideoWriter(const std::string& path, double, int, int) {
  Fail(ErrorCode::kUnsupported,
       "this build does without OpenCV's videoio (CREMA_VIDEO), so videos cannot be written",
       {.file = path});
}

void VideoWriter::Write(const Image&) {}

#endif

VideoWriter::~VideoWriter() = default;

}  // namespace crema
