#include "deploy/calibrate.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "common/lines.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/image/image.h"
#include "deploy/options.h"
#include "format/file.h"
#include "inference/image_model.h"
#include "inference/model_parts.h"

DECLARE_double(agreement);
DECLARE_double(most_error);
DEFINE_string(
    calibrate, "",
    "[Input FILE @export] for --precision=int8 or auto: text file with the path of an image on "
    "each line; a few "
    "hundred as the net will see them");
DEFINE_string(range, "percentile",
              "[Expert entropy|percentile|max @export] for --precision=int8: rule for the range of "
              "a blob: entropy, percentile or max");
DEFINE_double(percentile, 99.99,
              "[Expert @export] for --range=percentile: percent of the values that fit");
DEFINE_string(keep_float, "",
              "[Expert LAYERS @export] for --precision=int8: layers that stay in single precision, "
              "with commas");
DEFINE_double(
    least_snr_db, 20,
    "[Expert @export] for --precision=int8: layers that lose more stay in single precision");

namespace crema::tools {
namespace {

// Fills a session's input with batches of pictures, in the batch size of the net.
class PictureBatches {
 public:
  PictureBatches(const ImageModel& images, std::vector<std::string> paths)
      : images_(images), paths_(std::move(paths)) {}

  bool Fill(int64_t index, Session& session) {
    const auto planned = static_cast<size_t>(
        session.plan()
            .values[static_cast<size_t>(session.plan().FindFirstValue(images_.input()))]
            .spec.shape[0]);
    const size_t begin = static_cast<size_t>(index) * planned;
    if (begin >= paths_.size()) return false;
    const size_t count = std::min(planned, paths_.size() - begin);
    session.Reshape(images_.input(), images_.BatchShape(static_cast<int64_t>(count)));
    const std::span<float> values = session.MutableData(images_.input()).span<float>();
    const auto sample = static_cast<size_t>(images_.sample().count());
    for (size_t i = 0; i < count; ++i) {
      FillFromPicture(images_, paths_[begin + i], values.subspan(i * sample, sample));
    }
    return true;
  }

 private:
  const ImageModel& images_;
  const std::vector<std::string> paths_;
};

bool PrecisionIs(std::string_view name) {
  return std::ranges::equal(FLAGS_precision, name, [](unsigned char given, char lower) {
    return std::tolower(given) == lower;
  });
}

}  // namespace

bool WantsInt8() { return PrecisionIs("int8"); }
bool WantsFastest() { return PrecisionIs("auto"); }

std::vector<std::string> CalibrationPictures() {
  std::vector<std::string> paths = ReadLines(FLAGS_calibrate);
  if (!paths.empty()) return paths;
  Fail(ErrorCode::kInvalidArgument, "names no images to calibrate with", {.file = FLAGS_calibrate});
}

void FillFromPicture(const ImageModel& images, const std::string& path, std::span<float> sample) {
  Image image;
  DecodeImage(ReadFile(path), images.color_mode(), path, &image);
  FillImageInput(image, images.model().card().preprocessing, images.height(), images.width(),
                 sample);
}

void CheckCalibrationFlags() {
  const bool rounds = WantsInt8() || WantsFastest();
  if (rounds && FLAGS_calibrate.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--precision=", FLAGS_precision,
                " needs --calibrate=LIST, images to take the ranges of blobs from"));
  }
  for (const char* flag : {"calibrate", "range", "percentile", "keep_float", "least_snr_db"}) {
    if (rounds || !IsGiven(flag)) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("--", flag, " is for --precision=int8 and auto"));
  }
  if (!WantsFastest() && IsGiven("most_error")) {
    Fail(ErrorCode::kInvalidArgument, "--most_error is for --precision=auto");
  }
  if (!(FLAGS_most_error >= 0 && FLAGS_agreement >= 0 && FLAGS_agreement <= 1)) {
    Fail(ErrorCode::kInvalidArgument,
         "--most_error must be 0 or more, and --agreement from 0 to 1");
  }
  ParseRangeRule(FLAGS_range);
  if (!(FLAGS_percentile > 0 && FLAGS_percentile <= 100)) {
    Fail(ErrorCode::kInvalidArgument, "--percentile must be above 0 and at most 100");
  }
  if (std::isnan(FLAGS_least_snr_db)) {
    Fail(ErrorCode::kInvalidArgument, "--least_snr_db is not a number");
  }
}

QuantizeResult QuantizeOnPictures(const std::shared_ptr<const Model>& model) {
  const ImageModel images(model, "calibration");
  if (!images.sizes_input().empty()) {
    Fail(ErrorCode::kUnsupported,
         StrCat("a net with the input '", images.sizes_input(),
                "' cannot be calibrated, as its images have sizes of their own; use bf16"));
  }
  PictureBatches batches(images, CalibrationPictures());
  QuantizeOptions options;
  options.rule = ParseRangeRule(FLAGS_range);
  options.percentile = FLAGS_percentile;
  options.least_snr_db = FLAGS_least_snr_db;
  options.threads = ThreadsOfFlag();
  if (!FLAGS_keep_float.empty()) options.keep_float = Split(FLAGS_keep_float, ',');
  const Model::Parts& parts = model->parts();
  return QuantizeModel(
      parts.net.net, parts.net.source, parts.state, *parts.registry, model->weights(),
      [&](int64_t index, Session& session) { return batches.Fill(index, session); }, options);
}

}  // namespace crema::tools
