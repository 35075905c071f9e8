// What image files, videos and cameras have in common: pictures, one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/image/image.h"

namespace crema::tools {

// Something that pictures come from.
struct PictureSource {
  enum class Kind { kImage, kVideo, kCamera };
  Kind kind = Kind::kImage;
  std::string name;  // the path; "-": an image on standard input
  int camera = -1;
};

// The images and videos that the arguments, --list and --camera name; those of a folder sorted.
// Throws kInvalidArgument when there are none.
std::vector<PictureSource> PictureSources(const std::vector<std::string>& arguments);

struct InputPicture {
  size_t source = 0;                    // which of the sources
  std::string name;                     // of the source
  int64_t number = 0;                   // among all pictures, from 0
  int64_t frame = -1;                   // of a video or camera, from 0; -1: an image
  double seconds = 0;                   // since the video or this command began
  std::string bytes;                    // of the image file, once it was read; of the frame, packed
  std::optional<Problem> problem = {};  // instead of pixels

  bool is_frame() const { return frame >= 0; }
  // "photo.jpg", "film.avi 12 (0.480 s)".
  std::string Title() const;
  // "\"image\": \"film.avi\", \"frame\": 12, \"time\": 0.48".
  std::string JsonFields() const;
};

// Reads the file where that was not done. Throws Error.
Image PixelsOf(ColorMode mode, InputPicture* picture);

// Thread safety: one thread at a time.
class PictureReader {
 public:
  explicit PictureReader(std::vector<PictureSource> sources);
  ~PictureReader();
  // Nothing at the end, and once the command was interrupted.
  std::optional<InputPicture> Next();
  // Of the source that the last picture came from; 25 where it does not say.
  double FramesPerSecond() const;

 private:
  struct Video;
  std::optional<InputPicture> NextAny();
  std::optional<InputPicture> NextFrame();

  const std::vector<PictureSource> sources_;
  size_t next_ = 0;  // source
  int64_t count_ = 0;
  std::unique_ptr<Video> video_;
  double rate_ = 0;
};

}  // namespace crema::tools
