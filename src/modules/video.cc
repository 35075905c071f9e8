// libcrema_video.so.
#include <opencv2/videoio.hpp>

#include "data/image/codecs_opencv.h"

namespace crema {
namespace {

class OpenCvVideo final : public VideoCodec {
 public:
  // Tries the backends one by one. OpenCV's own selection would interpret digits in any file name
  // as an image sequence.
  bool OpenVideo(const std::string& file) override {
    for (const int backend : {cv::CAP_FFMPEG, cv::CAP_OPENCV_MJPEG, cv::CAP_GSTREAMER}) {
      if (video_.open(file, backend)) return true;
    }
    return false;
  }
  bool OpenCamera(int camera) override { return video_.open(camera, cv::CAP_ANY); }
  bool Grab() override { return video_.grab(); }
  void Retrieve(cv::Mat* frame) override { video_.retrieve(*frame); }
  double FrameCount() const override { return video_.get(cv::CAP_PROP_FRAME_COUNT); }
  double FramesPerSecond() const override { return video_.get(cv::CAP_PROP_FPS); }

 private:
  cv::VideoCapture video_;
};

class OpenCvVideoEncoder final : public VideoEncoder {
 public:
  bool Open(const std::string& file, double frames_per_second, cv::Size size) override {
    return video_.open(file, cv::CAP_OPENCV_MJPEG, cv::VideoWriter::fourcc('M', 'J', 'P', 'G'),
                       frames_per_second, size);
  }
  void Write(const cv::Mat& frame) override { video_.write(frame); }

 private:
  cv::VideoWriter video_;
};

}  // namespace
}  // namespace crema

extern "C" crema::VideoCodec* CremaNewVideoCodec2() { return new crema::OpenCvVideo; }
extern "C" crema::VideoEncoder* CremaNewVideoEncoder1() { return new crema::OpenCvVideoEncoder; }
