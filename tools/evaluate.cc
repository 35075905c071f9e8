// evaluate: runs the TEST phase of a net over its data set.
#include "runtime/evaluate.h"

#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "common/gpu_flag.h"
#include "common/plan_flags.h"
#include "common/plugin_flag.h"
#include "common/precision_flag.h"
#include "common/progress_line.h"
#include "common/set_flag.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/strings.h"
#include "evaluate/caffe_lines.h"
#include "evaluate/evaluation_report.h"
#include "solvers/detection_precision.h"

DEFINE_string(model, "", "[Input FILE required #1] the net with its data layer, a prototxt");
DEFINE_string(weights, "",
              "[Input FILES required #2] its parameters: caffemodels, separated by commas; later "
              "ones add and override");
DEFINE_int64(iterations, 0, "[Run] batches; 0: every sample exactly once");
DEFINE_int32(threads, 0, "[Run N] threads; 0: one for each processor");
DEFINE_int32(level, 0, "[Expert] NetState.level");
DEFINE_string(stage, "", "[Expert] NetState.stage, separated by commas");
DEFINE_string(report, "", "[Output FOLDER] folder for tables and pictures: docs/evaluation.md");
DEFINE_string(labels, "",
              "[Input FILE] text file with the name of a class on each line, for --report");
DEFINE_string(
    prediction, "",
    "[Run BLOB] blob of predictions for --report; without it, the one that the net's loss reads");
DEFINE_string(
    label, "",
    "[Run BLOB] blob of labels for --report; without it, the one that the net's loss reads");
DEFINE_string(ap_version, "Integral",
              "[Run 11point|MaxIntegral|Integral] of DetectionEvaluate: 11point (VOC 2007), "
              "MaxIntegral (VOC 2012) or Integral");
DEFINE_int32(worst, 24, "[Output] samples of the highest loss that --report shows");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema evaluate NET WEIGHTS [--report=FOLDER] [flags]\n"
    "\n"
    "Prints the mean of each output of a net over its data set. --report also writes detailed\n"
    "results: confusion matrix, precision and recall of each class, the worst samples;\n"
    "average precision of detectors; intersection over union of segmentations. See\n"
    "docs/evaluation.md.\n"
    "\n"
    "Examples:\n"
    "crema evaluate train_val.prototxt net_iter_1000.caffemodel\n"
    "crema evaluate --model=train_val.prototxt --weights=net.caffemodel "
    "--report=runs/net/evaluation --labels=names.txt";

std::optional<EvaluationReport> ReportOfFlags() {
  if (FLAGS_worst < 0 || FLAGS_worst > 1000) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--worst is ", FLAGS_worst, ", expected 0..1000"));
  }
  if (FLAGS_report.empty()) {
    const bool without = FLAGS_labels.empty() && FLAGS_prediction.empty() && FLAGS_label.empty();
    if (without) return std::nullopt;
    Fail(ErrorCode::kInvalidArgument,
         "--labels, --prediction and --label are about a report: say where with --report=DIR");
  }
  return EvaluationReport({.folder = FLAGS_report,
                           .model = FLAGS_model,
                           .weights = FLAGS_weights,
                           .prediction = FLAGS_prediction,
                           .label = FLAGS_label,
                           .labels = FLAGS_labels,
                           .worst = static_cast<size_t>(FLAGS_worst)});
}

ApRule RuleOfFlag() {
  const std::optional<ApRule> rule = FindApRule(FLAGS_ap_version);
  if (rule) return *rule;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--ap_version: '", FLAGS_ap_version, "' is not ", kApRules));
}

// On a terminal, leaves out what only parsers of Caffe's lines need.
void PrintOutputs(const Evaluation& result, const std::optional<DetectionPrecision>& detection) {
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  const bool is_one_loss = std::ranges::count_if(result.outputs, [](const EvaluatedOutput& output) {
                             return output.loss_weight != 0;
                           }) == 1;
  if (!is_terminal || !is_one_loss) std::printf("Loss: %g\n", result.loss);
  for (const EvaluatedOutput& output : result.outputs) {
    std::printf("%s = %g", output.blob.c_str(), output.mean);
    if (output.loss_weight != 0 && !(is_terminal && output.loss_weight == 1)) {
      std::printf(" (* %g = %g loss)", output.loss_weight, output.loss_weight * output.mean);
    }
    std::printf("\n");
  }
  if (!detection) return;
  for (const OutputValue& mean : detection->Means(nullptr)) {
    std::printf("%s = %g (mean average precision, %s)\n", mean.blob.c_str(), mean.value,
                FLAGS_ap_version.c_str());
  }
}

// Refuses a net whose only data are arrays that the caller fills.
void RefuseDeployNet(const NetFile& file) {
  bool has_input = false;
  for (const LayerParameter& layer : file.net.layer()) {
    if (layer.bottom_size() > 0 || layer.type() == "Parameter") continue;
    if (layer.type() != "Input") return;
    has_input = true;
  }
  if (!has_input) return;
  Fail(ErrorCode::kInvalidArgument,
       "is a deploy net, which reads no data set: give the training net (train_val.prototxt)",
       {.file = FLAGS_model});
}

// Returns the exit code.
int Finish(const Evaluation& result) {
  if (std::isfinite(result.loss)) return 0;
  WriteToStderr("error: the loss is not finite: these weights come from a run that diverged\n");
  return ExitCode(ErrorCode::kDiverged);
}

int Run() {
  if (FLAGS_iterations < 0) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--iterations is ", FLAGS_iterations, "; use 0 or more"));
  }
  Registry registry = LayersOfFlag();
  NetFile net = ReadNet(FLAGS_model, SettingsOfFlags());
  LoadPlugins(&net, &registry);
  SetPrecisionOfFlag(&net.net);
  RefuseDeployNet(net);
  const WeightsFiles weights = WeightsOfFlags({FLAGS_weights}, MissingLayers::kError);
  EvaluationOptions options{.iterations = FLAGS_iterations,
                            .threads = CheckedThreads(FLAGS_threads),
                            .level = FLAGS_level,
                            .stages = {},
                            .log = &ToolLog(),
                            .device = DeviceOfFlag(),
                            .plan = PlanOptionsOfFlags()};
  if (!FLAGS_stage.empty()) options.stages = Split(FLAGS_stage, ',');
  std::optional<EvaluationReport> report = ReportOfFlags();
  if (report) options.keep_blobs = true;
  const ApRule rule = RuleOfFlag();
  std::optional<DetectionPrecision> detection;
  CaffeLines caffe_lines(ToolLog(), FLAGS_iterations);
  ProgressLine progress({.unit = "samples"});
  options.on_batch = [&](const Session& session, int64_t samples) {
    progress.Add(static_cast<uint64_t>(samples));
    if (IsAsCaffe()) caffe_lines.OnBatch(session);
    if (report) report->OnBatch(session, samples);
    if (!detection) detection.emplace(session.plan(), rule);
    detection->Add(session);
  };
  const Evaluation result = Evaluate(net, weights, registry, options);
  progress.Clear();
  if (IsAsCaffe()) {
    caffe_lines.OnEnd(result);
    return Finish(result);
  }
  std::printf("%ld samples in %ld batches\n", result.samples, result.batches);
  PrintOutputs(result, detection);
  if (report) std::printf("%s", report->Write(result).c_str());
  return Finish(result);
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage,
                               [](const std::vector<std::string>& arguments) {
                                 crema::tools::RefusePositional(arguments);
                                 return crema::tools::Run();
                               });
}
