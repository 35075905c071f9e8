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
#include "plan/precision.h"

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
  const std::vector<std::string> all = CalibrationPictures();
  std::vector<std::string> paths;  // spread over the list
  const size_t count = std::min(all.size(), kMostPictures);
  for (size_t i = 0; i < count; ++i) paths.push_back(all[i * all.size() / count]);
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
    // A best class tells nothing of landmarks and features.
    const std::string& task = single->card().task;
    const bool counts =
        pair.HasBoxes(i) || (agreement.of > 0 && (task == "classify" || task == "segment"));
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
  const NetParameter& net = single->parts().net.net;
  const bool has_one =
      net.has_precision() || std::ranges::any_of(net.layer(), [](const LayerParameter& layer) {
        return layer.has_precision() && layer.precision() != FP32;
      });
  if (has_one) {
    Fail(ErrorCode::kInvalidArgument,
         "--precision=auto chooses the precision, but the net has one: remove its fields precision "
         "and int8");
  }
  std::vector<PrecisionTrial> trials;
  trials.push_back({.precision = "FP32", .model = single, .answers = "as they are"});
  NetParameter half = net;
  half.set_precision(BF16);
  const auto half_model = make(std::move(half));
  const bool uses_half = UsesBFloat16(*half_model->parts().plan);
  if (uses_half) trials.push_back({.precision = "BF16", .model = half_model});
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
  const auto left_out = [](const char* precision, const std::string& why) {
    std::printf(
        FLAGS_json ? "{\"precision\": \"%s\", \"left_out\": %s}\n" : "%s was left out: %s\n",
        precision, (FLAGS_json ? JsonString(why) : why).c_str());
  };
  if (!uses_half) left_out("BF16", "no layer would compute in bfloat16 on this processor");
  if (!no_bytes.empty()) left_out("INT8", no_bytes);
  return chosen->model;
}

}  // namespace crema::tools
