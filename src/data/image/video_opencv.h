// Frames of videos and cameras by OpenCV's videoio, without its types in the interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/image/image.h"

namespace crema {

// Origin of frames: a video file, or a camera if `file` is empty.
struct VideoOrigin {
  std::string file;
  int camera = 0;

  bool is_camera() const { return file.empty(); }
  std::string Name() const;  // "'video.avi'" or "camera 0"
};

// Reads frames in sequence. Thread safety: one thread at a time.
class VideoReader {
 public:
  // Throws kNotFound for a missing file or camera; kDataLoss for a file that is not a video or uses
  // an unsupported codec; kUnsupported in a build without videoio.
  explicit VideoReader(const VideoOrigin& origin);
  ~VideoReader();
  VideoReader(const VideoReader&) = delete;
  VideoReader& operator=(const VideoReader&) = delete;

  // Advances to the next frame; false at the end.
  bool Grab();
  // Decodes the frame of the last Grab to packed form; reuses the memory of `frame`. Throws
  // kDataLoss.
  void Retrieve(std::string* frame);

  // Returns the number of frames according to the file. Some formats only store a duration; then it
  // is an estimate. 0: unknown, or a camera.
  uint64_t PromisedFrames() const;
  // 0: unknown.
  double FramesPerSecond() const;

 private:
  struct Capture;
  const std::string name_;
  const std::unique_ptr<Capture> capture_;
};

// Unpacks a frame, in color or gray. Reuses the memory of `image`.
void UnpackFrame(std::string_view frame, ColorMode mode, Image* image);

// Thread safety: one thread at a time.
class VideoWriter {
 public:
  // Frames are `height` x `width`. Throws kIoFailure if the file cannot be written, kUnsupported in
  // a build without videoio.
  VideoWriter(const std::string& path, double frames_per_second, int height, int width);
  ~VideoWriter();
  VideoWriter(const VideoWriter&) = delete;
  VideoWriter& operator=(const VideoWriter&) = delete;

  // Requires: BGR, in the size of the video.
  void Write(const Image& frame);

 private:
  struct Encoder;
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace crema
