// Writes frames to a video: Motion JPEG in .avi, by OpenCV's videoio.
#pragma once

#include <memory>
#include <string>

#include "data/image/image.h"

namespace crema {

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
