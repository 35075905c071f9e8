// Reads the net of --model before it becomes a model.
#include <cmath>
#include <utility>

#include "common/log.h"
#include "common/net_flags.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/lists/class_names.h"
#include "deploy/arrays.h"
#include "deploy/detect_options.h"
#include "deploy/options.h"
#include "inference/deploy_net.h"
#include "inference/derive_deploy_net.h"
#include "inference/detector.h"
#include "inference/region_head.h"
#include "onnx/import.h"

DEFINE_string(tail, "",
              "[Input FILE] prototxt with layers to append to --model, such as PriorBox and "
              "DetectionOutput for a net that ends in raw boxes and scores");
DEFINE_string(head, "",
              "[Input NAME @detect @export] how the raw outputs of --model become boxes: yolov5, "
              "yolov8, yolox, retinaface, centernet, ... (docs/deploy.md); not given: found from "
              "the shapes of the outputs");
DEFINE_string(shape, "",
              "[Input NAME=SIZES] shapes of the inputs that an .onnx file or the data set of a "
              "training does not "
              "give: data=1x3x224x224, with commas between inputs; not given, .onnx: those of "
              "--input");
DEFINE_double(confidence, crema::kDefaultConfidence,
              "[Run @detect @export @verify] scores must exceed it");
DEFINE_double(nms, 0.3,
              "[Run @detect @export @verify] overlap above which the box with the lower score is "
              "removed; not given: as the net or its head has it");

DECLARE_string(gpu);

namespace crema::tools {

void CheckDetectFlags() {
  for (const auto& [flag, value] :
       {std::pair{"confidence", FLAGS_confidence}, {"nms", FLAGS_nms}}) {
    if (value >= 0 && value <= 1) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("--", flag, " is ", value, ", expected 0 to 1"));
  }
  if (!IsModelFile(FLAGS_model)) return;
  for (const char* flag : {"tail", "nms", "head"}) {
    if (!IsGiven(flag)) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--", flag, " belongs to a net; give it to deploy export"));
  }
}

NetFile NetOfFlags(const ModelNames& names, const Registry& registry, ModelCard* card) {
  NetFile net;
  if (IsOnnxFile(names.model)) {
    // GPUs have no int8, and another precision is that of the values that the model states.
    ImportOptions options;
    options.shapes = ParseShapes(FLAGS_shape);
    options.arrays = ShapesOfInputFiles();
    options.int8 = FLAGS_gpu.empty() && (names.precision.empty() || names.precision == "INT8");
    ImportedNet imported = ImportOnnx(names.model, options);
    net.net = std::move(imported.net);
    *card = std::move(imported.card);
    for (const std::string& note : imported.notes) ToolLog().Write(Severity::kInfo, note);
  } else if (names.training != nullptr) {
    const Training& training = *names.training;
    card->labels = training.labels;
    net = DeployNetOf(training.net, training.state, ParseShapes(FLAGS_shape), registry, card);
  } else {
    net = ReadNet(names.model);
    const NetState state = InferenceState(net.net);
    if (IsTrainingNet(net.net, state)) card->labels = ClassNames(net.net);
    net = DeployNetOf(std::move(net), state, ParseShapes(FLAGS_shape), registry, card);
  }
  if (!names.precision.empty()) {
    net.net.set_precision(ParsePrecision("--precision", names.precision));
  }
  if (!FLAGS_tail.empty()) net = WithTail(std::move(net), ReadNet(FLAGS_tail));
  PrepareRegionNet(&net, card);
  if (!FLAGS_head.empty()) card->head = FLAGS_head;
  if (IsGiven("nms") && !HasDecoder(net.net)) card->head_overlap = FLAGS_nms;
  return net;
}

DecoderChanges DecoderOfFlags() {
  DecoderChanges changes;
  if (IsGiven("nms")) changes.nms = FLAGS_nms;
  return changes;
}

}  // namespace crema::tools
