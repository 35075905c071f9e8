#include "deploy/pictures.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string_view>

#include "common/interrupt.h"
#include "common/json.h"
#include "common/lines.h"
#include "common/log.h"
#include "common/tool.h"
#include "core/folder.h"
#include "core/strings.h"
#include "deploy/options.h"
#include "format/file.h"
#ifdef CREMA_HAVE_OPENCV
#include "data/image/video_opencv.h"
#endif

DEFINE_string(list, "", "[Input FILE] text file with the path of an image or a video on each line");
DEFINE_int32(camera, -1, "[Input] read images from the camera with this number, until Ctrl-C");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;
using Kind = PictureSource::Kind;

constexpr double kUsualRate = 25;
constexpr std::array<std::string_view, 9> kImageEnds = {".png", ".jpg", ".jpeg", ".bmp", ".pgm",
                                                        ".ppm", ".tif", ".tiff", ".webp"};
constexpr std::array<std::string_view, 11> kVideoEnds = {
    ".avi", ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".mjpg", ".wmv", ".ogv"};

template <size_t n>
bool EndsIn(const fs::path& path, const std::array<std::string_view, n>& ends) {
  std::string end = path.extension().string();
  for (char& c : end) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::find(ends, end) != ends.end();
}

PictureSource SourceOf(const std::string& path) {
  return {EndsIn(path, kVideoEnds) ? Kind::kVideo : Kind::kImage, path};
}

std::vector<std::string> InFolder(const std::string& folder) {
  std::vector<std::string> inside;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       Advance(entry, error)) {
    const fs::path& path = entry->path();
    if (EndsIn(path, kImageEnds) || EndsIn(path, kVideoEnds)) inside.push_back(path.string());
  }
  if (error) Fail(ErrorCode::kIoFailure, StrCat(folder, ": ", error.message()));
  if (inside.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "holds no image and no video (folders in it are not searched)", {.file = folder});
  }
  std::ranges::sort(inside);
  return inside;
}

#ifdef CREMA_HAVE_OPENCV
// Some formats only estimate their number of frames.
void WarnIfCutOff(const std::string& name, int64_t frames, uint64_t promised) {
  const auto read = static_cast<uint64_t>(frames);
  if (promised <= read + 1 + promised / 50) return;
  ToolLog().Write(Severity::kWarning,
                  StrCat(name, ": has ", frames, " frames, and says that it has ", promised,
                         "; is it cut off?"));
}
#endif

}  // namespace

std::vector<PictureSource> PictureSources(const std::vector<std::string>& arguments) {
  std::vector<PictureSource> sources;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!fs::is_directory(argument, error)) {
      sources.push_back(SourceOf(argument));
      continue;
    }
    for (const std::string& path : InFolder(argument)) sources.push_back(SourceOf(path));
  }
  if (!FLAGS_list.empty()) {
    for (const std::string& line : ReadLines(FLAGS_list)) sources.push_back(SourceOf(line));
  }
  if (IsGiven("camera")) {
    if (FLAGS_camera < 0) {
      Fail(ErrorCode::kInvalidArgument, StrCat("--camera is ", FLAGS_camera, "; 0 is the first"));
    }
    sources.push_back({Kind::kCamera, StrCat("camera ", FLAGS_camera), FLAGS_camera});
  }
  if (sources.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "no images: name files or folders, or give --list or --camera");
  }
  return sources;
}

std::vector<std::string> FilesOf(const std::vector<PictureSource>& sources) {
  std::vector<std::string> files;
  for (const PictureSource& source : sources) {
    if (source.kind != Kind::kCamera && source.name != "-") files.push_back(source.name);
  }
  return files;
}

std::string InputPicture::Title() const {
  return is_frame() ? StrCat(name, " ", frame, " (", Fixed(seconds, 3), " s)") : name;
}

std::string InputPicture::JsonFields() const {
  std::string fields = StrCat("\"image\": ", JsonString(name));
  if (is_frame()) fields += StrCat(", \"frame\": ", frame, ", \"time\": ", JsonNumber(seconds));
  return fields;
}

Image PixelsOf(ColorMode mode, InputPicture* picture) {
  if (picture->problem) throw Error(*picture->problem);
  Image image;
#ifdef CREMA_HAVE_OPENCV
  if (picture->is_frame()) {
    UnpackFrame(picture->bytes, mode, &image);
    return image;
  }
#endif
  if (picture->bytes.empty()) {
    picture->bytes = picture->name == "-"
                         ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                         : ReadFile(picture->name);
  }
  DecodeImage(picture->bytes, mode, picture->name, &image);
  return image;
}

#ifdef CREMA_HAVE_OPENCV

struct PictureReader::Video {
  explicit Video(const PictureSource& source)
      : reader({.file = source.kind == Kind::kCamera ? "" : source.name,
                .camera = std::max(0, source.camera)}),
        rate(reader.FramesPerSecond()),
        live(source.kind == Kind::kCamera) {}

  // Videos have a constant frame rate; cameras often report none, so use the clock.
  double Seconds() const {
    if (!live && rate > 0) return static_cast<double>(frame) / rate;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  VideoReader reader;
  const double rate;
  const bool live;
  int64_t frame = 0;
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

#else

struct PictureReader::Video {
  explicit Video(const PictureSource& source) {
    Fail(ErrorCode::kUnsupported,
         StrCat(source.name, ": this build does without OpenCV, which reads videos and cameras; ",
                "build with CREMA_OPENCV=ON"));
  }
};

#endif

PictureReader::PictureReader(std::vector<PictureSource> sources) : sources_(std::move(sources)) {
  const bool endless = std::ranges::any_of(
      sources_, [](const PictureSource& source) { return source.kind == Kind::kCamera; });
  if (endless) CatchInterrupt();
}

PictureReader::~PictureReader() = default;

double PictureReader::FramesPerSecond() const { return rate_ > 0 ? rate_ : kUsualRate; }

// Returns the next frame of the open video; nothing at its end.
std::optional<InputPicture> PictureReader::NextFrame() {
#ifdef CREMA_HAVE_OPENCV
  InputPicture picture{.source = next_ - 1, .name = sources_[next_ - 1].name, .bytes = {}};
  picture.frame = video_->frame;
  try {
    if (!video_->reader.Grab()) {
      if (video_->frame > 0) {
        WarnIfCutOff(picture.name, video_->frame, video_->reader.PromisedFrames());
        return std::nullopt;
      }
      Fail(ErrorCode::kDataLoss, StrCat(picture.name, ": not one frame can be read"));
    }
    picture.seconds = video_->Seconds();
    video_->reader.Retrieve(&picture.bytes);
  } catch (const Error& error) {
    picture.problem = error.problems().front();
  }
  ++video_->frame;
  return picture;
#else
  return std::nullopt;
#endif
}

std::optional<InputPicture> PictureReader::Next() {
  std::optional<InputPicture> picture = NextAny();
  if (picture) picture->number = count_++;
  return picture;
}

std::optional<InputPicture> PictureReader::NextAny() {
  while (!Interrupted()) {
    if (video_) {
      std::optional<InputPicture> frame = NextFrame();
      if (frame) return frame;
      video_.reset();
    }
    if (next_ == sources_.size()) return std::nullopt;
    const PictureSource& source = sources_[next_++];
    InputPicture picture{.source = next_ - 1, .name = source.name, .bytes = {}};
    if (source.kind == Kind::kImage) return picture;
    try {
      video_ = std::make_unique<Video>(source);
#ifdef CREMA_HAVE_OPENCV
      rate_ = video_->rate;
#endif
    } catch (const Error& error) {
      picture.problem = error.problems().front();
      return picture;
    }
  }
  return std::nullopt;
}

}  // namespace crema::tools
