// Excluded from builds without OpenCV. Without OpenCV's videoio, videos and cameras are refused.
#include "data/image/video_opencv.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/codecs_opencv.h"
#include "data/image/mat_opencv.h"
#include "format/file.h"

namespace crema {
namespace {

// Header of a packed frame: height and width. Rows of BGR bytes follow.
using FrameSize = std::array<int32_t, 2>;

}  // namespace

std::string VideoOrigin::Name() const {
  return is_camera() ? StrCat("camera ", camera) : StrCat("'", file, "'");
}

void UnpackFrame(std::string_view frame, ColorMode mode, Image* image) {
  FrameSize size{};
  std::memcpy(size.data(), frame.data(), sizeof(size));
  // cv::Mat has no const view, but OpenCV only reads this one.
  const cv::Mat color(size[0], size[1], CV_8UC3, const_cast<char*>(frame.data() + sizeof(size)));
  if (mode != ColorMode::kGray) {
    SplitPlanes(color, image);
    return;
  }
  cv::Mat gray;
  cv::cvtColor(color, gray, cv::COLOR_BGR2GRAY);
  SplitPlanes(gray, image);
}

#ifdef CREMA_HAVE_VIDEO

struct VideoReader::Capture {
  const std::unique_ptr<VideoCodec> video = MakeVideoCodec();
  cv::Mat frame;
};

namespace {

// Calls OpenCV; its exceptions become errors of the file or the camera.
template <typename Body>
auto Guarded(const std::string& name, Body&& body) {
  try {
    return body();
  } catch (const cv::Exception& failure) {
    Fail(ErrorCode::kDataLoss, StrCat(name, ": the frame cannot be decoded: ", failure.err));
  }
}

cv::Mat ToColor(const cv::Mat& frame, const std::string& name) {
  if (frame.empty()) Fail(ErrorCode::kDataLoss, StrCat(name, ": a frame cannot be decoded"));
  if (frame.depth() != CV_8U) {
    Fail(ErrorCode::kDataLoss,
         StrCat(name, ": the frames have more than 8 bits a channel; convert them to 8 bits"));
  }
  cv::Mat color = frame;
  if (frame.channels() == 1) cv::cvtColor(frame, color, cv::COLOR_GRAY2BGR);
  if (frame.channels() == 4) cv::cvtColor(frame, color, cv::COLOR_BGRA2BGR);
  if (color.channels() == 3) return color;
  Fail(ErrorCode::kDataLoss,
       StrCat(name, ": frames of ", frame.channels(), " channels; they must be in color or gray"));
}

}  // namespace

VideoReader::VideoReader(const VideoOrigin& origin)
    : name_(origin.Name()), capture_(std::make_unique<Capture>()) {
  if (origin.is_camera()) {
    if (Guarded(name_, [&] { return capture_->video->OpenCamera(origin.camera); })) return;
    Fail(ErrorCode::kNotFound,
         StrCat(name_, " cannot be opened: no device has this number, or it is in use"));
  }
  ReadFileStart(origin.file, 1);  // throws with the reason if the file cannot be read
  if (Guarded(name_, [&] { return capture_->video->OpenVideo(origin.file); })) return;
  Fail(ErrorCode::kDataLoss,
       StrCat(name_,
              " cannot be read: it is damaged, no video, or in a codec that this OpenCV "
              "does not know"));
}

bool VideoReader::Grab() {
  return Guarded(name_, [&] { return capture_->video->Grab(); });
}

void VideoReader::Retrieve(std::string* frame) {
  Guarded(name_, [&] {
    capture_->video->Retrieve(&capture_->frame);
    const cv::Mat color = ToColor(capture_->frame, name_);
    const FrameSize size{color.rows, color.cols};
    const size_t row = static_cast<size_t>(color.cols) * 3;
    frame->resize(sizeof(size) + row * static_cast<size_t>(color.rows));
    std::memcpy(frame->data(), size.data(), sizeof(size));
    char* to = frame->data() + sizeof(size);
    for (int y = 0; y < color.rows; ++y, to += row) std::memcpy(to, color.ptr(y), row);
  });
}

uint64_t VideoReader::PromisedFrames() const {
  constexpr double kMost = 1e12;  // larger values come from a damaged header
  const double count = capture_->video->FrameCount();
  return count >= 1 && count < kMost ? static_cast<uint64_t>(std::llround(count)) : 0;
}

double VideoReader::FramesPerSecond() const {
  constexpr double kMost = 1e5;
  const double rate = capture_->video->FramesPerSecond();
  return rate > 0 && rate < kMost ? rate : 0;
}

#else

struct VideoReader::Capture {};

VideoReader::VideoReader(const VideoOrigin& origin) : name_(origin.Name()) {
  const char* remedy = origin.is_camera()
                           ? "Give video_type: VIDEO and a sequence of images as video_file"
                           : "Write its frames to image files, and give them as video_file: "
                             "'frames/%06d.png'";
  Fail(ErrorCode::kUnsupported,
       StrCat(name_, " cannot be read: this build does without OpenCV's videoio (CREMA_VIDEO). ",
              remedy));
}

bool VideoReader::Grab() { return false; }
void VideoReader::Retrieve(std::string*) {}
uint64_t VideoReader::PromisedFrames() const { return 0; }
double VideoReader::FramesPerSecond() const { return 0; }

#endif

VideoReader::~VideoReader() = default;

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
