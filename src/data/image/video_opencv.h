// Frames of videos and cameras, by OpenCV's videoio, whose types stay behind this header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/image/image.h"

namespace crema {

// What frames come from: a video, or a camera where `file` is empty.
struct VideoOrigin {
  std::string file;
  int camera = 0;

  bool is_camera() const { return file.empty(); }
  std::string Name() const;  // "'film.avi'" or "camera 0"
};

// Frames one after the other. Thread safety: one thread at a time.
class VideoReader {
 public:
  // Throws kNotFound for a file or a camera that is not there, kDataLoss for a file that is no
  // video or is in a codec that no backend of OpenCV knows, kUnsupported in a build without
  // videoio.
  explicit VideoReader(const VideoOrigin& origin);
  ~VideoReader();
  VideoReader(const VideoReader&) = delete;
  VideoReader& operator=(const VideoReader&) = delete;

  // Goes on to the next frame; false when there is none.
  bool Grab();
  // The frame of the last Grab, packed; reuses the memory of `frame`. Throws kDataLoss.
  void Retrieve(std::string* frame);

  // How many frames the file says it has; some kinds of files only say how long they last, and
  // then this is an estimate. 0: it does not say, or a camera.
  uint64_t PromisedFrames() const;
  // 0: neither the file nor the camera says.
  double FramesPerSecond() const;

 private:
  struct Capture;
  const std::string name_;
  const std::unique_ptr<Capture> capture_;
};

// The pixels of a packed frame, in color or gray. Reuses the memory of `image`.
void UnpackFrame(std::string_view frame, ColorMode mode, Image* image);

}  // namespace crema
