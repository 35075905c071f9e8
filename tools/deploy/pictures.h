// Reads pictures from image files, videos and cameras.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/image/image.h"

namespace crema::tools {

// A source of pictures.
struct PictureSource {
  enum class Kind { kImage, kVideo, kCamera };
  Kind kind = Kind::kImage;
  std::string name;  // the path; "-": an image on standard input
  int camera = -1;
};

// Returns the images and videos of the arguments, --list and --camera; sorts those of a folder.
// Throws kInvalidArgument if there are none.
std::vector<PictureSource> PictureSources(const std::vector<std::string>& arguments);

// Returns the paths of images and videos.
std::vector<std::string> FilesOf(const std::vector<PictureSource>& sources);

struct InputPicture {
  size_t source = 0;                    // index of the source
  std::string name;                     // name of the source
  int64_t number = 0;                   // among all pictures, from 0
  int64_t frame = -1;                   // of a video or camera, from 0; -1: an image
  double seconds = 0;                   // since the start of the video or this command
  std::string bytes;                    // the image file once read, or the packed frame
  std::optional<Problem> problem = {};  // instead of pixels

  bool is_frame() const { return frame >= 0; }
  // Returns "photo.jpg" or "video.avi 12 (0.480 s)".
  std::string Title() const;
  // Returns "\"image\": \"video.avi\", \"frame\": 12, \"time\": 0.48".
  std::string JsonFields() const;
};

// Reads the file if necessary. Throws Error.
Image PixelsOf(ColorMode mode, InputPicture* picture);

// Thread safety: one thread at a time.
class PictureReader {
 public:
  explicit PictureReader(std::vector<PictureSource> sources);
  ~PictureReader();
  // Returns nothing at the end, and after an interrupt.
  std::optional<InputPicture> Next();
  // Frame rate of the source of the last picture; 25 if unknown.
  double FramesPerSecond() const;

 private:
  struct Video;
  std::optional<InputPicture> NextAny();
  std::optional<InputPicture> NextFrame();

  const std::vector<PictureSource> sources_;
  size_t next_ = 0;  // next source
  int64_t count_ = 0;
  std::unique_ptr<Video> video_;
  double rate_ = 0;
};

}  // namespace crema::tools
