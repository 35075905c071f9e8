#include "core/error.h"
#include "data/image/codecs_opencv.h"
#include "data/image/film_writer.h"
#include "data/image/mat_opencv.h"

namespace crema {

struct FilmWriter::Encoder {
  std::unique_ptr<FilmEncoder> film;
};

#ifdef CREMA_HAVE_VIDEO

FilmWriter::FilmWriter(const std::string& path, double frames_per_second, int height, int width)
    : encoder_(std::make_unique<Encoder>(Encoder{MakeFilmEncoder()})) {
  bool open = false;
  try {
    open = encoder_->film->Open(path, frames_per_second, {width, height});
  } catch (const cv::Exception&) {
    open = false;  // said below
  }
  if (!open) Fail(ErrorCode::kIoFailure, "cannot be written as a film", {.file = path});
}

void FilmWriter::Write(const Image& frame) { encoder_->film->Write(MergePlanes(frame)); }

#else

FilmWriter::FilmWriter(const std::string& path, double, int, int) {
  Fail(ErrorCode::kUnsupported,
       "this build does without OpenCV's videoio (CREMA_VIDEO), so films cannot be written",
       {.file = path});
}

void FilmWriter::Write(const Image&) {}

#endif

FilmWriter::~FilmWriter() = default;

}  // namespace crema
