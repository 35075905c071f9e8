#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/json.h"
#include "common/output_file.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "core/strings.h"
#include "deploy/actions.h"
#include "deploy/arrays.h"
#include "deploy/detect_options.h"
#include "deploy/options.h"
#include "deploy/pictures.h"
#include "deploy/verify_parts.h"
#include "format/tensor_files.h"

DEFINE_string(
    recording, "",
    "[Input FILE @verify] .npz or .h5 with inputs and their outputs, under the names of the blobs");
DEFINE_bool(
    record, false,
    "[Output @verify] write --recording instead, of the arrays of --input or of random ones");
DEFINE_string(against, "", "[Input FILE @verify] the other model, .crema or prototxt");
DEFINE_string(against_weights, "",
              "[Input FILES @verify] weights of a prototxt --against; else --weights");
DEFINE_string(against_precision, "",
              "[Input FP32|BF16 @verify] its precision, FP32 or BF16, if it is a prototxt");
DEFINE_double(atol, 1e-5, "[Run @verify] allowed absolute difference");
DEFINE_double(
    rtol, 1e-4,
    "[Run @verify @export] allowed difference, relative to the largest value of the output");
DEFINE_double(
    agreement, 0.99,
    "[Run @verify @export] with --against or --precision=auto: smallest share of images with the "
    "same best class, or of boxes that both models find");
DEFINE_int32(samples, 8, "[Run @verify] number of random inputs, if there are no images or arrays");
DEFINE_bool(layers, true, "[Run @verify] with --against: compare every blob, not only the outputs");

namespace crema::tools {
namespace {

void CheckFlags() {
  if (FLAGS_recording.empty() && FLAGS_against.empty() && !IsModelFile(FLAGS_model)) {
    Fail(ErrorCode::kInvalidArgument,
         "say with what to compare: --recording=FILE, or --against=MODEL. A .crema file alone is "
         "compared with its own recording");
  }
  if (FLAGS_record && FLAGS_recording.empty()) {
    Fail(ErrorCode::kInvalidArgument, "--record needs --recording=FILE to write");
  }
  if (FLAGS_record) ProtectedFiles(InputFiles()).RefuseToReplace("recording", FLAGS_recording);
  if (!FLAGS_recording.empty() && !FLAGS_against.empty()) {
    Fail(ErrorCode::kInvalidArgument, "--recording and --against are two ways; give one");
  }
  if (!(FLAGS_atol >= 0 && FLAGS_rtol >= 0)) {
    Fail(ErrorCode::kInvalidArgument, "--atol and --rtol must be 0 or more");
  }
  if (!(FLAGS_agreement >= 0 && FLAGS_agreement <= 1)) {
    Fail(ErrorCode::kInvalidArgument, "--agreement must be 0 to 1");
  }
  if (FLAGS_samples < 1) Fail(ErrorCode::kInvalidArgument, "--samples must be at least 1");
}

std::vector<NamedOutput> GivenInputs(const std::shared_ptr<const Model>& model) {
  return HasInputFiles() ? InputsOfFlags(*model) : AcceptedInputs(model, FLAGS_samples, 1);
}

// In a file, array names are unique.
void RefuseSharedNames(const Model& model) {
  for (const BlobInfo& blob : model.outputs()) {
    if (std::ranges::count(model.inputs(), blob.name, &BlobInfo::name) == 0) continue;
    Fail(
        ErrorCode::kInvalidArgument,
        StrCat("--record: '", blob.name, "' is an input and an output of the net, and a recording ",
               "has one array of a name; give the output a name of its own"));
  }
}

int Record(const std::shared_ptr<const Model>& model, ModelRunner* runner) {
  RefuseSharedNames(*model);
  const std::vector<NamedOutput> inputs = GivenInputs(model);
  const std::vector<NamedOutput> outputs = RunOnArrays(*model, runner, ViewsOf(inputs), 0);
  std::vector<NamedArrayView> arrays;
  for (const auto* side : {&inputs, &outputs}) {
    for (const NamedOutput& array : *side) arrays.push_back({array.name, array.value.view()});
  }
  WriteArrays(FLAGS_recording, arrays);
  std::printf(FLAGS_json ? "{\"inputs\": %zu, \"outputs\": %zu, \"recording\": %s}\n"
                         : "recorded %zu inputs and %zu outputs to %s\n",
              inputs.size(), outputs.size(),
              FLAGS_json ? JsonString(FLAGS_recording).c_str() : FLAGS_recording.c_str());
  return 0;
}

ConstTensorView Recorded(const std::vector<NamedArray>& arrays, const std::string& name) {
  const auto found = std::ranges::find(arrays, name, &NamedArray::name);
  if (found != arrays.end()) return found->value.view();
  Fail(ErrorCode::kDataLoss,
       StrCat("has no array '", name, "', which is an input or output of the net"),
       {.file = FLAGS_recording});
}

int CompareWithRecording(const Model& model, ModelRunner* runner) {
  std::vector<std::string> names = ArrayNames(FLAGS_recording);
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::count(model.inputs(), name, &BlobInfo::name) == 0 &&
           std::ranges::count(model.outputs(), name, &BlobInfo::name) == 0;
  });
  const std::vector<NamedArray> arrays = ReadArrays(FLAGS_recording, names);
  std::vector<NamedTensor> inputs;
  for (const BlobInfo& blob : model.inputs()) {
    inputs.push_back({blob.name, Recorded(arrays, blob.name)});
  }
  runner->Run(inputs);
  std::vector<Difference> differences;
  for (const BlobInfo& blob : model.outputs()) {
    differences.push_back({.blob = blob.name});
    AddDifference(Recorded(arrays, blob.name), runner->Output(blob.name), &differences.back());
  }
  return PrintOutputs(differences, Tolerance{.atol = FLAGS_atol, .rtol = FLAGS_rtol}) ? 0 : 1;
}

ModelNames OtherOfFlags() {
  const bool file = IsModelFile(FLAGS_against);
  if (file && (IsGiven("against_weights") || IsGiven("against_precision"))) {
    Fail(ErrorCode::kInvalidArgument,
         "--against_weights and --against_precision belong to a prototxt --against");
  }
  const std::string weights = FLAGS_against_weights.empty() ? FLAGS_weights : FLAGS_against_weights;
  if (!file && weights.empty() && !IsOnnxFile(FLAGS_against)) {
    Fail(ErrorCode::kInvalidArgument, "--against is a net: give --against_weights");
  }
  return {FLAGS_against, file ? "" : weights, file ? "" : FLAGS_against_precision};
}

// Calls the body with each batch of inputs.
void ForEachBatch(const std::shared_ptr<const Model>& model,
                  const std::vector<std::string>& arguments,
                  const std::function<void(std::span<const NamedTensor>)>& run) {
  const bool pictures = !arguments.empty() || IsGiven("list");
  if (!pictures) {
    const std::vector<NamedOutput> inputs = GivenInputs(model);
    run(ViewsOf(inputs));
    return;
  }
  const ImageModel images(model, "images");
  const Preprocessing preprocessing = PreprocessingOfFlags(images);
  PictureReader reader(PictureSources(arguments));
  ImageInputs inputs;
  while (std::optional<InputPicture> picture = reader.Next()) {
    const Image pixels = PixelsOf(images.color_mode(), &*picture);
    inputs.Fill(images, preprocessing, {&pixels, 1});
    run(inputs.tensors());
  }
}

int CompareModels(const ModelNames& names, const std::vector<std::string>& arguments) {
  const ModelNames other = OtherOfFlags();
  const Registry registry = LayersOfFlag();
  const ModelOptions options = ModelOptionsOfFlags(ThreadsOfFlag());
  const auto a = OpenModel(names, registry, options);
  const auto b = OpenModel(other, registry, options);
  ModelPair pair(a, b, FLAGS_confidence);
  std::unique_ptr<LayerComparison> layers;
  if (FLAGS_layers) {
    const ModelOptions looking = ObservableOptions(options);
    layers = std::make_unique<LayerComparison>(OpenModel(names, registry, looking),
                                               OpenModel(other, registry, looking), looking);
  }
  ForEachBatch(a, arguments, [&](std::span<const NamedTensor> inputs) {
    pair.Add(inputs);
    if (layers) layers->Add(inputs);
  });
  if (layers) PrintLayers(layers->differences());
  const bool fixed = IsGiven("atol") || IsGiven("rtol");
  const Tolerance tolerance{.atol = FLAGS_atol, .rtol = FLAGS_rtol};
  const bool close =
      PrintOutputs(pair.Comparable(), fixed ? std::optional(tolerance) : std::nullopt);
  const bool agree = PrintAgreement(pair, FLAGS_agreement);
  return close && agree ? 0 : 1;
}

}  // namespace

int Verify(const std::vector<std::string>& arguments) {
  const ModelNames names = ModelOfFlags();
  CheckFlags();
  if (!FLAGS_against.empty()) return CompareModels(names, arguments);
  RefusePositional(arguments);
  const Registry registry = LayersOfFlag();
  const auto model = OpenModel(names, registry, ModelOptionsOfFlags(ThreadsOfFlag()));
  if (FLAGS_recording.empty()) {
    const std::string line =
        FLAGS_json ? StrCat("{\"model\": ", JsonString(FLAGS_model), ", \"fits\": true}")
                   : StrCat(FLAGS_model, " computes what was recorded in it");
    std::printf("%s\n", line.c_str());
    return 0;
  }
  ModelRunner runner(model);
  return FLAGS_record ? Record(model, &runner) : CompareWithRecording(*model, &runner);
}

}  // namespace crema::tools
