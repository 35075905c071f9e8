#include "deploy/drawings.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>

#include "common/log.h"
#include "common/output_file.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "format/file.h"

DEFINE_string(draw, "",
              "[Output PATH @classify @detect @segment] image to write with the result drawn in; a "
              "folder for "
              "several. Videos become .avi");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;
using Kind = PictureSource::Kind;

std::string NameOf(const PictureSource& source) {
  if (source.kind == Kind::kCamera) return StrCat("camera", source.camera, ".avi");
  if (source.name == "-") return "stdin.png";
  const fs::path name = fs::path(source.name).filename();
  return source.kind == Kind::kImage ? name.string() : name.stem().string() + ".avi";
}

bool NamesPicture(const std::string& path) {
  constexpr std::string_view kExtensions[] = {".png",  ".jpg", ".jpeg", ".bmp", ".ppm",
                                              ".webp", ".tif", ".tiff", ".avi"};
  return std::ranges::find(kExtensions, fs::path(path).extension().string()) !=
         std::end(kExtensions);
}

}  // namespace

DrawingPaths::DrawingPaths(const std::vector<PictureSource>& sources) {
  if (FLAGS_draw.empty()) return;
  const ProtectedFiles inputs(FilesOf(sources));
  std::error_code error;
  if (sources.size() == 1 && !fs::is_directory(FLAGS_draw, error) &&
      fs::path(FLAGS_draw).has_extension()) {
    paths_ = {FLAGS_draw};
    inputs.RefuseToReplace("draw", FLAGS_draw);
    return;
  }
  if (sources.size() > 1 && !fs::exists(FLAGS_draw, error) && NamesPicture(FLAGS_draw)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--draw: ", FLAGS_draw, " is one picture, but there are ", sources.size(),
                " inputs; name a folder"));
  }
  fs::create_directories(FLAGS_draw, error);
  if (error || !fs::is_directory(FLAGS_draw)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--draw: ", FLAGS_draw, " must be a folder for several images"));
  }
  std::set<std::string> taken;
  for (const PictureSource& source : sources) {
    paths_.push_back((fs::path(FLAGS_draw) / NameOf(source)).string());
    inputs.RefuseToReplace("draw", paths_.back());
    if (taken.insert(paths_.back()).second) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("--draw: two images would become ", paths_.back()));
  }
}

void CheckPictureFlags(const std::vector<std::string>& arguments) {
  const DrawingPaths drawings(PictureSources(arguments));
}

std::string FramePath(const std::string& video, int64_t frame, const std::string& end) {
  char number[32];
  std::snprintf(number, sizeof(number), "-%06lld", static_cast<long long>(frame));
  return fs::path(video).replace_extension().string() + number + end;
}

void DrawnVideos::Add(const std::string& path, const InputPicture& picture, const Image& drawn,
                      double rate) {
  if (!open_ || picture.source != source_) {
    video_.reset();
    open_ = true;
    source_ = picture.source;
    height_ = drawn.height;
    width_ = drawn.width;
    try {
      video_ = std::make_unique<VideoWriter>(path, rate, height_, width_);
    } catch (const Error& error) {
      ToolLog().Write(Severity::kWarning,
                      StrCat(error.what(), "; its frames become single pictures"));
    }
  }
  if (video_ && drawn.height == height_ && drawn.width == width_) {
    video_->Write(drawn);
    return;
  }
  const std::string file = FramePath(path, picture.frame, ".png");
  WriteFileAtomically(file, EncodePicture(drawn, file));
}

}  // namespace crema::tools
