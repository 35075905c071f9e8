#include "deploy/fastest_precision.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/json.h"
#include "common/text_table.h"
#include "core/error.h"
#include "core/strings.h"
#include "deploy/calibrate.h"
#include "deploy/options.h"
#include "deploy/verify_parts.h"
#include "inference/model_bench.h"
#include "inference/model_parts.h"

DECLARE_double(agreement);
DEFINE_double(
    most_error, 0.05,
    "[Run @export] for --precision=auto: largest relative error of an output without classes or "
    "boxes, |a - b| / |a| over all images");

namespace crema::tools {
namespace {

constexpr size_t kMostPictures = 100;  // that are compared
constexpr int kTurns = 5;
constexpr double kSecondsATurn = 0.2;
constexpr double kLeastGain = 1.03;  // less is noise, and not worth a rounding

struct PrecisionTrial {
  std::string precision;
  std::shared_ptr<const Model> model;
  std::vector<double> times = {};  // of the turns, seconds a picture
  std::string answers = {};        // how near they are
  bool near = true;

  double Seconds() const { return Percentile(times, 0.5); }
};

Tensor PictureOf(const ImageModel& images, const std::string& path) {
  Tensor picture(images.BatchShape(1), DType::kF32);
  FillFromPicture(images, path, picture.view().span<float>());
  return picture;
}

// Judges the answers of a trial, by output.
void CompareTrial(const std::shared_ptr<const Model>& single, PrecisionTrial* trial) {
  const ImageModel images(single, "images");
  std::vector<std::string> paths = CalibrationPictures();
  paths.resize(std::min(paths.size(), kMostPictures));
  constexpr double kConfidence = 0.5;  // of boxes
  ModelPair pair(single, trial->model, kConfidence);
  for (const std::string& path : paths) {
    const Tensor picture = PictureOf(images, path);
    const NamedTensor input{images.input(), picture.view()};
    pair.Add({&input, 1});
  }
  std::vector<std::string> parts;
  for (size_t i = 0; i < pair.differences().size(); ++i) {
    const Difference& difference = pair.differences()[i];
    const Agreement& agreement = pair.agreements()[i];
    const bool counts = agreement.of > 0 || pair.HasBoxes(i);
    const bool near = counts ? agreement.share() >= FLAGS_agreement
                             : difference.note.empty() && difference.relative() <= FLAGS_most_error;
    trial->near = trial->near && near;
    parts.push_back(
        counts ? StrCat(difference.blob, pair.HasBoxes(i) ? " boxes " : " classes ",
                        agreement.agree, " of ", agreement.of)
               : StrCat(difference.blob, " error ", Fixed(100 * difference.relative(), 2), " %"));
    if (!near) parts.back() += " (too far)";
  }
  trial->answers = Join(parts, ", ");
}

// Measures all in turns, so that other work on the machine slows all.
void MeasureTrials(std::vector<PrecisionTrial>* trials) {
  const ImageModel images((*trials)[0].model, "images");
  const Tensor picture = PictureOf(images, CalibrationPictures()[0]);
  const NamedTensor input{images.input(), picture.view()};
  for (int turn = 0; turn < kTurns; ++turn) {
    for (PrecisionTrial& trial : *trials) {
      trial.times.push_back(BenchModel(trial.model, {&input, 1}, {.seconds = kSecondsATurn}).p50);
    }
  }
}

void PrintTrials(const std::vector<PrecisionTrial>& trials, const PrecisionTrial& chosen) {
  std::vector<TextRow> rows = {{"precision", "answers", "ms", "speed", ""}};
  for (const PrecisionTrial& trial : trials) {
    const double speed = trials[0].Seconds() / trial.Seconds();
    const bool is_chosen = &trial == &chosen;
    if (FLAGS_json) {
      std::printf(
          "{\"precision\": %s, \"ms\": %s, \"speed\": %s, \"near\": %s, \"answers\": %s, "
          "\"chosen\": %s}\n",
          JsonString(trial.precision).c_str(), JsonNumber(1e3 * trial.Seconds()).c_str(),
          JsonNumber(speed).c_str(), trial.near ? "true" : "false",
          JsonString(trial.answers).c_str(), is_chosen ? "true" : "false");
      continue;
    }
    rows.push_back({trial.precision, trial.answers, Fixed(1e3 * trial.Seconds(), 3),
                    Fixed(speed, 2), is_chosen ? "chosen" : ""});
  }
  if (!FLAGS_json) std::printf("%s", AlignedColumns(rows, 2).c_str());
}

}  // namespace

std::shared_ptr<const Model> FastestPrecision(
    const std::shared_ptr<const Model>& single,
    const std::function<std::shared_ptr<const Model>(NetParameter net)>& make) {
  if (!(FLAGS_most_error >= 0)) {
    Fail(ErrorCode::kInvalidArgument, "--most_error must be 0 or more");
  }
  std::vector<PrecisionTrial> trials;
  trials.push_back({.precision = "FP32", .model = single, .answers = "as they are"});
  NetParameter half = single->parts().net.net;
  half.set_precision(BF16);
  trials.push_back({.precision = "BF16", .model = make(std::move(half))});
  std::string no_bytes;
  try {
    trials.push_back({.precision = "INT8", .model = make(QuantizeOnPictures(single).net)});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    no_bytes = error.problems()[0].message;
  }
  for (size_t i = 1; i < trials.size(); ++i) CompareTrial(single, &trials[i]);
  MeasureTrials(&trials);
  const PrecisionTrial* chosen = trials.data();
  for (const PrecisionTrial& trial : trials) {
    const bool gains = trials[0].Seconds() >= kLeastGain * trial.Seconds();
    if (trial.near && gains && trial.Seconds() < chosen->Seconds()) chosen = &trial;
  }
  PrintTrials(trials, *chosen);
  if (!no_bytes.empty() && !FLAGS_json) std::printf("INT8 was left out: %s\n", no_bytes.c_str());
  return chosen->model;
}

}  // namespace crema::tools
