// Output files of drawn pictures.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/image/video_opencv.h"
#include "deploy/pictures.h"

namespace crema::tools {

// --draw: maps sources to pictures. Thread safety: const methods.
class DrawingPaths {
 public:
  // Creates the folder. Throws kInvalidArgument if two pictures would have the same name, or one
  // would overwrite a source.
  explicit DrawingPaths(const std::vector<PictureSource>& sources);

  bool wanted() const { return !paths_.empty(); }
  const std::string& PathOf(const InputPicture& picture) const { return paths_[picture.source]; }

 private:
  std::vector<std::string> paths_;  // by source; .avi for videos
};

// Writes drawn frames of videos, in order: to an .avi if supported, else to single .png files
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

// Throws what PictureSources and DrawingPaths throw, before the model is loaded.
void CheckPictureFlags(const std::vector<std::string>& arguments);

// Returns "video-000012.png" for "video.avi", frame 12 and that end.
std::string FramePath(const std::string& video, int64_t frame, const std::string& end);

}  // namespace crema::tools
