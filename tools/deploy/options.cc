#include "deploy/options.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "common/gpu_flag.h"
#include "common/lines.h"
#include "common/models_folder.h"
#include "common/plan_flags.h"
#include "common/precision_flag.h"
#include "common/preprocessing_flags.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/sniff.h"
#include "inference/detector.h"
#include "inference/model_parts.h"

DEFINE_string(model, "",
              "[Input FILE] a .crema file of deploy export, an .onnx file, zoo:NAME, or a net, a "
              "prototxt, with --weights; a deploy net is made from a training net");
DEFINE_string(run, "",
              "[Input FOLDER] in place of --model: a folder that train recorded, "
              "<snapshot_prefix>_run; its net, "
              "best or last weights, mean, scale and class names");
DEFINE_string(solver, "", "[Input FILE] in place of --model: a solver that was trained; as --run");
DEFINE_string(
    weights, "",
    "[Input FILES] parameters of a prototxt: caffemodels, separated by commas; later ones add and "
    "override");
DEFINE_string(labels, "", "[Input FILE] text file with the name of a class on each line");
DEFINE_string(output, "",
              "[Output NAME @classify @segment @run @export] classify, segment: blob with the "
              "scores, for nets with several outputs; run: file "
              "for the outputs, .npz, .npy or .h5; export: the .crema file to write");
DEFINE_bool(json, false, "[Output] print a JSON object a line instead of text");
DEFINE_string(
    threads, "0",
    "[Run N] images in progress at a time; run, verify: threads of the net; bench: a list of "
    "these, 1,2; 0: one for each processor");
DEFINE_int32(batch, 1, "[Run] images or samples computed together");

namespace crema::tools {
bool IsModelFile(const std::string& path) { return IsCremaFile(path); }

bool IsOnnxFile(const std::string& path) { return path.ends_with(".onnx"); }

ModelNames ModelOfFlags(bool needs_weights) {
  const bool trained = !FLAGS_run.empty() || !FLAGS_solver.empty();
  const int given =
      (FLAGS_model.empty() ? 0 : 1) + (FLAGS_run.empty() ? 0 : 1) + (FLAGS_solver.empty() ? 0 : 1);
  if (given > 1) {
    Fail(ErrorCode::kInvalidArgument, "give only one of --model, --run and --solver");
  }
  if (trained) {
    ModelNames names{"", FLAGS_weights, FLAGS_precision};
    names.training = std::make_shared<const Training>(
        FLAGS_run.empty() ? ReadTrainingOf(FLAGS_solver) : ReadRunFolder(FLAGS_run));
    names.model = names.training->text;
    if (names.weights.empty() && needs_weights) names.weights = WeightsOf(*names.training);
    return names;
  }
  RequireFlag(FLAGS_model, "model");
  FLAGS_model = ResolveZooFile(FLAGS_model, ".crema");
  if (!IsModelFile(FLAGS_model)) {
    return {FLAGS_model, FLAGS_weights, FLAGS_precision};
  }
  for (const char* flag : {"weights", "precision"}) {
    if (!IsGiven(flag)) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--", flag, " belongs to a net; ", FLAGS_model, " was exported with one"));
  }
  return {FLAGS_model, "", ""};
}

ModelOptions ModelOptionsOfFlags(int threads) {
  ModelOptions options;
  options.threads = threads;
  options.plan = PlanOptionsOfFlags();
  options.device = DeviceOfFlag();
  return options;
}

std::shared_ptr<const Model> MakeModel(const NetFile& net, const ModelNames& names,
                                       const ModelCard& card, const Registry& registry,
                                       const ModelOptions& options, LogSink& log) {
  if (names.weights.empty()) {
    auto model = Model::Make(net, {}, card, options, registry, log);
    const bool complete = IsOnnxFile(names.model) || model->parts().plan->parameters.empty();
    if (!complete) RequireFlag(names.weights, "weights");
    return model;
  }
  const WeightsFiles weights = WeightsOfFlags({names.weights}, MissingLayers::kError);
  return Model::Make(net, weights, card, options, registry, log);
}

std::shared_ptr<const Model> OpenModel(const ModelNames& names, const Registry& registry,
                                       const ModelOptions& options) {
  if (IsModelFile(names.model)) return Model::Open(names.model, options, registry, ToolLog());
  ModelCard card;
  const NetFile net = NetOfFlags(names, registry, &card);
  return MakeModel(net, names, card, registry, options);
}

Preprocessing PreprocessingOfFlags(const ImageModel& model) {
  Preprocessing preprocessing = model.model().card().preprocessing;
  SetPreprocessingOfFlags(&model.sample(), &preprocessing);
  CheckPreprocessing(preprocessing, model);
  return preprocessing;
}

namespace {

// Other layers may bring the pixels into another range.
bool FeedsConvolutionsOnly(const NetParameter& net, const std::string& input) {
  return std::ranges::all_of(net.layer(), [&](const LayerParameter& layer) {
    return layer.type() == "Convolution" ||
           std::ranges::find(layer.bottom(), input) == layer.bottom().end();
  });
}

}  // namespace

void WarnOfPixels(const ImageModel& model, const Preprocessing& preprocessing) {
  const Preprocessing plain;
  const bool as_they_are = preprocessing.scale == plain.scale && preprocessing.mean.empty() &&
                           preprocessing.range == plain.range && preprocessing.deviation.empty();
  const NetParameter& net = model.model().parts().plan->written;
  if (!as_they_are || !FeedsConvolutionsOnly(net, model.input())) return;
  const std::optional<DetectionHead> head = FindDetectionHead(model);
  if (!head || head->pixels().empty()) return;
  ToolLog().Write(Severity::kWarning,
                  StrCat("the pixels go into the net with values from 0 to 255; published models "
                         "with the head ",
                         head->name(), " expect ", head->pixels()));
}

std::vector<std::string> LabelsOfFile() {
  std::vector<std::string> labels = ReadLines(FLAGS_labels);
  if (labels.empty()) Fail(ErrorCode::kInvalidArgument, "has no labels", {.file = FLAGS_labels});
  return labels;
}

std::vector<std::string> LabelsOfFlags(const Model& model, int classes, const std::string& what) {
  const bool given = !FLAGS_labels.empty();
  std::vector<std::string> labels = given ? LabelsOfFile() : model.card().labels;
  const bool fit = labels.empty() || classes == 0 || static_cast<int>(labels.size()) == classes;
  if (!fit && !given && !IsModelFile(FLAGS_model) && !IsOnnxFile(FLAGS_model)) {
    ToolLog().Write(Severity::kWarning,
                    StrCat("the data set names ", labels.size(), " classes, but the net has ",
                           classes, what, ": the names are not used; give --labels"));
    return {};
  }
  if (!fit) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(given ? FLAGS_labels : FLAGS_model, " has ", labels.size(), " labels, but the net ",
                "has ", classes, what));
  }
  return labels;
}

std::string LabelOf(const std::vector<std::string>& labels, int index) {
  const auto i = static_cast<size_t>(index);
  return i < labels.size() ? labels[i] : std::to_string(index);
}

std::vector<int> NumbersOf(const std::string& flag, const std::string& text, int least, int most) {
  std::vector<int> numbers;
  for (const std::string& part : Split(text, ',')) {
    int number = 0;
    const char* end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, number);
    if (error != std::errc() || stop != end || number < least || number > most) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--", flag, ": '", part, "' is not a number from ", least, " to ", most));
    }
    numbers.push_back(number);
  }
  return numbers;
}

int ThreadsOfFlag() {
  const std::vector<int> threads = NumbersOf("threads", FLAGS_threads, 0);
  if (threads.size() > 1) {
    Fail(ErrorCode::kInvalidArgument, "--threads takes one number here; a list is for bench");
  }
  return CheckedThreads(threads[0]);
}

int BatchOfFlag() { return NumbersOf("batch", std::to_string(FLAGS_batch), 1)[0]; }

std::string Fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

}  // namespace crema::tools
