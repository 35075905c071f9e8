#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "common/json.h"
#include "common/output_file.h"
#include "common/plugin_flag.h"
#include "common/preprocessing_flags.h"
#include "common/preprocessing_text.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "deploy/actions.h"
#include "deploy/calibrate.h"
#include "deploy/detect_options.h"
#include "deploy/export_onnx.h"
#include "deploy/fastest_precision.h"
#include "deploy/options.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "inference/classifier.h"
#include "inference/crema_export.h"
#include "inference/detector.h"
#include "inference/image_model.h"
#include "inference/image_task.h"
#include "inference/model_parts.h"
#include "inference/segmenter.h"
#include "inference/stored_preprocessing.h"

DECLARE_string(mean);
DEFINE_string(o, "", "[Output FILE @export] the same as --output");
DEFINE_string(name, "", "[Output @export] name of the model; default: that of the net");
DEFINE_string(
    write_net, "",
    "[Output FILE.prototxt @export] also write the deploy net, a prototxt; -: print it. Without "
    "--output, only "
    "this");
DEFINE_string(task, "",
              "[Output classify|detect|segment|none @export] classify, detect, segment or none; "
              "default: found from the net");

namespace crema::tools {
namespace {

constexpr std::array<const char*, 3> kTasks = {"classify", "detect", "segment"};

// Empty: only --write_net.
std::string OutputPath() {
  const std::string path = FLAGS_o.empty() ? FLAGS_output : FLAGS_o;
  if (path.empty() && !FLAGS_write_net.empty()) return "";
  RequireFlag(path, "output");
  if (!WantsOnnx(path) && !path.ends_with(".crema")) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--output: '", path,
                "' must end in .crema, by which other actions know it, or "
                "in .onnx"));
  }
  std::vector<std::string> read = Split(FLAGS_weights, ',');
  read.insert(read.end(), {FLAGS_model, FLAGS_labels, FLAGS_solver});
  ProtectedFiles(read).RefuseToReplace("output", path);
  CheckOutputFile(path);
  return path;
}

void CheckFlags(bool onnx) {
  if (IsModelFile(FLAGS_model) && !onnx) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(FLAGS_model, " was exported already; export takes a net and its weights"));
  }
  std::vector<std::string> tasks(kTasks.begin(), kTasks.end());
  tasks.emplace_back("none");
  if (!FLAGS_task.empty() && std::ranges::count(tasks, FLAGS_task) == 0) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--task: '", FLAGS_task, "' is not one of ",
                                             Join(tasks, ", "), DidYouMean(FLAGS_task, tasks)));
  }
  CheckCalibrationFlags();
  if (onnx && WantsFastest()) {
    Fail(ErrorCode::kInvalidArgument,
         "--precision=auto measures Crema on this machine; an ONNX file is run by others: leave it "
         "out, or give int8");
  }
}

// The net in the form it is used in.
NetFile NetToExport(const ModelNames& names, const Registry& registry, ModelCard* card) {
  NetFile net = NetOfFlags(names, registry, card);
  if (HasDecoder(net.net)) {
    DecoderChanges changes = DecoderOfFlags();
    if (IsGiven("confidence")) changes.confidence = FLAGS_confidence;
    ConfigureDecoder(changes, &net);
  } else if (IsGiven("confidence")) {
    Fail(ErrorCode::kInvalidArgument,
         "no layer of this net makes detections, whose threshold --confidence would set; give it "
         "to deploy detect");
  }
  return net;
}

// Returns nothing if the model does not take pictures; throws if flags require it.
std::optional<ImageModel> AsImageModel(const std::shared_ptr<const Model>& model) {
  const bool asked =
      std::ranges::any_of(PreprocessingFlags(),
                          [](const std::string& flag) { return IsGiven(flag.c_str()); }) ||
      (!FLAGS_task.empty() && FLAGS_task != "none");
  try {
    return ImageModel(model, "images");
  } catch (const Error&) {
    if (asked) throw;
    return std::nullopt;
  }
}

std::string TaskOf(const ImageModel& images) {
  if (!FLAGS_task.empty()) return FLAGS_task == "none" ? "" : FLAGS_task;
  return FindImageTask(images);
}

// Returns the labels, after comparing their number with the classes if known.
std::vector<std::string> LabelsFor(const std::string& task,
                                   const std::shared_ptr<const Model>& model) {
  const bool one = model->outputs().size() == 1;
  if (task == "detect") {
    const double all = IsGiven("confidence") ? FLAGS_confidence : 1;
    const Detector detector(model, all);
    return LabelsOfFlags(*model, detector.classes(), detector.classes_note());
  }
  if (task == "classify" && one) {
    return LabelsOfFlags(*model, Classifier(model, "").classes(), " classes");
  }
  if (task == "segment" && one) {
    return LabelsOfFlags(*model, Segmenter(model, "").classes(), " classes");
  }
  return FLAGS_labels.empty() ? std::vector<std::string>() : LabelsOfFile();
}

ModelCard CardOf(const std::shared_ptr<const Model>& model) {
  ModelCard card;
  card.name = FLAGS_name;
  if (const std::optional<ImageModel> images = AsImageModel(model)) {
    card.task = TaskOf(*images);
    if (card.task == "detect") {
      if (const auto head = FindDetectionHead(*images)) card.head = head->name();
      card.head_overlap = model->card().head_overlap;
    }
    card.preprocessing = PreprocessingOfFlags(*images);
    if (card.task != "classify") RefuseTenCrops(card.preprocessing);
    if (card.task == "detect") WarnOfPixels(*images, card.preprocessing);
  }
  card.labels = LabelsFor(card.task, model);
  return card;
}

// Exports a .crema file, with the preprocessing and labels of flags.
int ExportReopened(const ModelNames& names, const std::string& path) {
  const Registry registry = LayersOfFlag();
  const ModelOptions options = ModelOptionsOfFlags(ThreadsOfFlag());
  const auto model = OpenModel(names, registry, options);  // holds the weights
  ModelCard card = CardOf(model);
  if (card.task.empty()) card.task = model->card().task;
  const auto changed = Model::MakeSharing(model->parts().net, *model->weights(), card, options,
                                          registry, NullSink());
  return ExportOnnx(changed, registry, path);
}

void PrintExported(const std::string& path, const ModelCard& card) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (FLAGS_json) {
    std::printf("{\"file\": %s, \"name\": %s, \"task\": %s, \"bytes\": %ju}\n",
                JsonString(path).c_str(), JsonString(card.name).c_str(),
                card.task.empty() ? "null" : JsonString(card.task).c_str(), bytes);
    return;
  }
  std::printf("%s: %s%s%s, %.1f MiB\n", path.c_str(), card.name.c_str(),
              card.task.empty() ? "" : ", to ", card.task.c_str(),
              static_cast<double>(bytes) / (1 << 20));
}

// Writes the net of --write_net, with the preprocessing that it needs. The mean of a file, which
// has a number for each element, stays a comment.
void WriteNet(const NetFile& file, const ModelNames& names, Preprocessing pixels) {
  constexpr size_t kMostChannels = 4;
  std::error_code error;
  // A mean file needs the size of the input; its flag is repeated with the net.
  if (!std::filesystem::exists(FLAGS_mean, error)) SetPreprocessingOfFlags(nullptr, &pixels);
  NetParameter net = file.net;
  std::string flags;
  if (pixels.mean.size() > kMostChannels) {
    flags = FlagsOfPreprocessing(pixels);
  } else if (pixels != Preprocessing{}) {
    StorePreprocessing(pixels, net.mutable_preprocessing());
  }
  const std::string text = StrCat("# The deploy net of ", names.model,
                                  ", written by deploy export. With --model it needs:\n#   "
                                  "--weights=FILE",
                                  flags, "\n", PrintText(net));
  if (FLAGS_write_net == "-") {
    std::printf("%s", text.c_str());
    return;
  }
  ProtectedFiles({names.model}).RefuseToReplace("write_net", FLAGS_write_net);
  WriteFileAtomically(FLAGS_write_net, text);
}

}  // namespace

int Export(const std::vector<std::string>& arguments) {
  RefusePositional(arguments);
  const std::string path = OutputPath();
  const bool onnx = !path.empty() && WantsOnnx(path);
  CheckFlags(onnx);
  ModelNames names = ModelOfFlags(!path.empty());
  // Ranges are determined first.
  if (WantsInt8() || WantsFastest()) names.precision.clear();
  CheckDetectFlags();
  if (IsModelFile(names.model)) return ExportReopened(names, path);
  ModelCard card;
  const Registry registry = LayersOfFlag();
  NetFile net = NetToExport(names, registry, &card);
  // Taken out of the net, so that flags that restore a default count.
  if (net.net.has_preprocessing()) card.preprocessing = PreprocessingIn(net);
  net.net.clear_preprocessing();
  if (!FLAGS_write_net.empty()) WriteNet(net, names, card.preprocessing);
  if (path.empty()) return 0;
  const ModelOptions options = ModelOptionsOfFlags(ThreadsOfFlag());
  card = CardOf(MakeModel(net, names, card, registry, options, NullSink()));
  if (card.name.empty()) card.name = net.net.name();
  if (card.name.empty()) card.name = std::filesystem::path(path).stem().string();
  auto model = MakeModel(net, names, card, registry, options);
  const auto make = [&](NetParameter changed) {
    NetFile ready;
    ready.net = std::move(changed);
    ready.source.file = names.model;
    return MakeModel(ready, names, card, registry, options, NullSink());
  };
  if (WantsInt8()) {
    QuantizeResult quantized = QuantizeOnPictures(model);
    std::printf("%s\n", (FLAGS_json ? quantized.report.Json() : quantized.report.Text()).c_str());
    model = make(std::move(quantized.net));
  }
  if (WantsFastest()) model = FastestPrecision(model, make);
  if (onnx) return ExportOnnx(model, registry, path);
  ExportModel(model, path);
  PrintExported(path, card);
  return 0;
}

}  // namespace crema::tools
