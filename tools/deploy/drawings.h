// Where drawn pictures go.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/image/video_writer.h"
#include "deploy/pictures.h"

namespace crema::tools {

// --draw: the picture of each source. Thread safety: const methods.
class DrawingPaths {
 public:
  // Makes the folder. Throws kInvalidArgument where two would have the same name, and where one
  // would replace a source.
  explicit DrawingPaths(const std::vector<PictureSource>& sources);

  bool wanted() const { return !paths_.empty(); }
  const std::string& PathOf(const InputPicture& picture) const { return paths_[picture.source]; }

 private:
  std::vector<std::string> paths_;  // by source; of videos .avi
};

// The drawn frames of videos, in order: an .avi where that can be written, else single .png files
// beside it. Thread safety: one thread at a time.
class DrawnVideos {
 public:
  void Add(const std::string& path, const InputPicture& picture, const Image& drawn, double rate);

 private:
  size_t source_ = 0;
  std::unique_ptr<VideoWriter> video_;  // null: single pictures
  bool open_ = false;
  int height_ = 0;
  int width_ = 0;
};

// Throws what PictureSources and DrawingPaths throw, before a model is read for nothing.
void CheckPictureFlags(const std::vector<std::string>& arguments);

// "film.avi" and frame 12 become "film-000012.png" (with that end).
std::string FramePath(const std::string& video, int64_t frame, const std::string& end);

}  // namespace crema::tools
