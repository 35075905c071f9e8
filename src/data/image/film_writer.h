// Frames to a film: Motion JPEG in .avi, by OpenCV's videoio.
#pragma once

#include <memory>
#include <string>

#include "data/image/image.h"

namespace crema {

// Thread safety: one thread at a time.
class FilmWriter {
 public:
  // Frames of `height` x `width`. Throws kIoFailure for a file that cannot be written, kUnsupported
  // in a build without videoio.
  FilmWriter(const std::string& path, double frames_per_second, int height, int width);
  ~FilmWriter();
  FilmWriter(const FilmWriter&) = delete;
  FilmWriter& operator=(const FilmWriter&) = delete;

  // Requires: blue, green, red, of the size of the film.
  void Write(const Image& frame);

 private:
  struct Encoder;
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace crema
