// OpenCV's image and video codecs. Their hundred dependencies take a tenth of a second to load, so
// they are modules (core/module.h). Most runs use JPEG files or raw records and never load them.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace crema {

// Like OpenCV's functions of these names; throws cv::Exception. Thread safety: const.
class ImageCodecs {
 public:
  virtual ~ImageCodecs() = default;
  virtual cv::Mat Decode(const cv::Mat& bytes, int flags) const = 0;
  virtual bool Encode(const std::string& extension, const cv::Mat& image,
                      std::vector<uint8_t>* file, const std::vector<int>& options) const = 0;
};

// Loads the module on the first call. Throws kUnsupported if that fails.
const ImageCodecs& LoadedImageCodecs();

// Like cv::VideoCapture. Thread safety: one thread at a time.
class VideoCodec {
 public:
  virtual ~VideoCodec() = default;
  virtual bool OpenVideo(const std::string& file) = 0;
  virtual bool OpenCamera(int camera) = 0;
  virtual bool Grab() = 0;
  virtual void Retrieve(cv::Mat* frame) = 0;
  virtual double FrameCount() const = 0;
  virtual double FramesPerSecond() const = 0;
};

// Like cv::VideoWriter, for Motion JPEG in .avi, which every OpenCV supports. Thread safety: one
// thread at a time.
class VideoEncoder {
 public:
  virtual ~VideoEncoder() = default;
  virtual bool Open(const std::string& file, double frames_per_second, cv::Size size) = 0;
  virtual void Write(const cv::Mat& frame) = 0;
};

// Loads the module on the first call. Throws kUnsupported if that fails.
std::unique_ptr<VideoCodec> MakeVideoCodec();
std::unique_ptr<VideoEncoder> MakeVideoEncoder();

// Entry points of the modules. The module owns the ImageCodecs; the caller owns the others.
// Increment the number when one of these classes changes, so that a module of another release is
// rejected.
using GetImageCodecs = const ImageCodecs* (*)();
using NewVideoCodec = VideoCodec* (*)();
using NewVideoEncoder = VideoEncoder* (*)();
inline constexpr char kGetImageCodecs[] = "CremaImageCodecs1";
inline constexpr char kNewVideoCodec[] = "CremaNewVideoCodec2";
inline constexpr char kNewVideoEncoder[] = "CremaNewVideoEncoder1";

}  // namespace crema
