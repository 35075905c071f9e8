#include "serve/load.h"

#include <gflags/gflags.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "common/gpu_flag.h"
#include "common/lines.h"
#include "common/log.h"
#include "common/plugin_flag.h"
#include "common/preprocessing_flags.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/strings.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "inference/cascade.h"
#include "inference/deploy_net.h"
#include "inference/model.h"
#include "inference/model_parts.h"
#include "inference/region_head.h"
#include "inference/stored_preprocessing.h"
#include "onnx/import.h"
#include "runtime/gpu.h"
#include "serve/private_copy.h"

DEFINE_string(
    labels, "",
    "[Input FILE] of a prototxt or .onnx file: text file with the name of a class on each line");
DEFINE_int32(threads, 1, "[Run N] threads of one run of a model; 0: one for each processor");
DEFINE_bool(
    copy_models, true,
    "[Expert] serve copies of .crema files in memory; false: map them, and never write into them");
DEFINE_int32(max_plans, 32, "[Expert] input shapes whose plans are kept, for each model");

namespace crema::tools {
namespace {

// Flags override what the file of the model says.
ModelCard CardOf(const std::string& name, const std::string& labels, ModelCard card) {
  card.name = name;
  SetPreprocessingOfFlags(nullptr, &card.preprocessing);
  const std::string& file = labels.empty() ? FLAGS_labels : labels;
  if (!file.empty()) card.labels = ReadLines(file);
  return card;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

NetFile NetIn(const server::VersionFiles& files, ModelCard* card) {
  NetFile net;
  if (files.onnx.empty()) {
    net = ReadNet(files.net);
    // So that flags override single fields.
    card->preprocessing = PreprocessingIn(net);
    net.net.clear_preprocessing();
    return net;
  }
  ImportedNet imported = ImportOnnx(files.onnx, {});
  net.net = std::move(imported.net);
  *card = std::move(imported.card);
  for (const std::string& note : imported.notes) {
    ToolLog().Write(Severity::kInfo, StrCat(files.onnx, ": ", note));
  }
  return net;
}

// Messages name the original file, not its copy.
std::shared_ptr<const Model> OpenCopy(const std::string& file, const ModelOptions& options,
                                      const Registry& registry) {
  const PrivateCopy copy(file);
  try {
    return Model::Open(copy.path(), options, registry, ToolLog());
  } catch (const Error& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) {
      problem.where.file = Replaced(problem.where.file, copy.path(), file);
      problem.message = Replaced(problem.message, copy.path(), file);
    }
    throw Error(std::move(problems));
  }
}

}  // namespace

void RefuseFlagsOfPrototxts(bool labels) {
  std::vector<std::string> flags = PreprocessingFlags();
  if (labels) flags.emplace_back("labels");
  for (const std::string& flag : flags) {
    if (!IsGiven(flag.c_str())) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--", flag,
                " is for a prototxt; a .crema file has its own, of deploy export, and a "
                "cascade has them in its file"));
  }
}

void WatchGpuOfFlag(server::ServerMetrics* metrics) {
  const Device device = DeviceOfFlag().device;
  if (device.type == DeviceType::kCpu) return;
  metrics->WatchGpu([ordinal = device.ordinal] {
    try {
      const GpuInfo info = InfoOfGpu(ordinal);
      return info.memory - info.free;
    } catch (const Error&) {
      return int64_t{0};  // requests on a failing GPU report it
    }
  });
}

const Registry& ServedLayers() {
  static const Registry registry = LayersOfFlag();  // models refer to it as long as they live
  return registry;
}

std::shared_ptr<const server::Executable> LoadServed(const std::string& name,
                                                     const server::VersionFiles& files) {
  const Registry& registry = ServedLayers();
  ModelOptions options;
  options.threads = CheckedThreads(FLAGS_threads);
  options.device = DeviceOfFlag();
  options.max_plans = static_cast<size_t>(FLAGS_max_plans);
  if (!files.cascade.empty()) {
    const std::string& names = files.labels.empty() ? FLAGS_labels : files.labels;
    return server::ToExecutable(
        std::make_shared<const Cascade>(
            files.cascade, registry,
            CascadeOptions{.model = options, .open_onnx = OpenOnnxNet, .folder = files.folder},
            ToolLog()),
        names.empty() ? std::vector<std::string>() : ReadLines(names));
  }
  if (!files.crema.empty()) {
    if (!FLAGS_copy_models) {
      return server::ToExecutable(Model::Open(files.crema, options, registry, ToolLog()));
    }
    return server::ToExecutable(OpenCopy(files.crema, options, registry));
  }
  const WeightsFiles weights = files.weights.empty() || !files.onnx.empty()
                                   ? WeightsFiles{}
                                   : WeightsOfFlags({files.weights}, MissingLayers::kError);
  ModelCard card;
  NetFile net = NetIn(files, &card);
  if (!files.folder.empty()) ConfineFilesTo(files.folder, &net);
  PrepareRegionNet(&net, &card);
  auto model =
      Model::Make(net, weights, CardOf(name, files.labels, card), options, registry, ToolLog());
  if (files.onnx.empty() && weights.paths.empty() && !model->parts().plan->parameters.empty()) {
    Fail(ErrorCode::kInvalidArgument, "is a net with parameters: give its --weights, too",
         {.file = files.net});
  }
  return server::ToExecutable(std::move(model));
}

}  // namespace crema::tools
