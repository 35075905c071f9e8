#include "inference/model.h"

#include <algorithm>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/detections.h"
#include "inference/deploy_net.h"
#include "inference/model_parts.h"
#include "inference/region_head.h"
#include "inference/sample_axis.h"
#include "inference/stored_preprocessing.h"

namespace crema {
namespace {

// Disables file output of a deploy net's layers.
void DisableFileOutput(NetParameter* net) {
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "DetectionOutput") continue;
    DetectionOutputParameter* param = layer.mutable_detection_output_param();
    param->clear_save_output_param();
    param->clear_visualize();
    param->clear_save_file();
  }
}

// Disables dropout and batch statistics, which are for training.
void DisableTrainingMode(const SourceMap& source, NetParameter* net,
                         std::vector<Problem>* warnings) {
  const auto warn = [&](Where where, const char* what) {
    warnings->push_back({ErrorCode::kInvalidArgument, std::move(where),
                         StrCat(what, " says phase: TRAIN; a net for use is in phase TEST")});
  };
  if (net->state().phase() == TRAIN) warn(source.Locate("state"), "the net");
  for (int i = 0; i < net->layer_size(); ++i) {
    LayerParameter* layer = net->mutable_layer(i);
    if (!layer->has_phase() || layer->phase() != TRAIN) continue;
    layer->clear_phase();
    Where where = source.Locate(StrCat("layer[", i, "]"));
    where.layer = layer->name();
    warn(std::move(where), "it");
  }
}

void RefuseWriters(const NetFile& net, const NetState& state) {
  for (int i = 0; i < net.net.layer_size(); ++i) {
    const LayerParameter& layer = net.net.layer(i);
    if (layer.type() != "HDF5Output" || !IsIncluded(layer, state)) continue;
    Where where = net.source.Locate(StrCat("layer[", i, "]"));
    where.layer = layer.name();
    Fail(ErrorCode::kInvalidArgument,
         "writes a file; a net for inference has no such layer; its outputs are the blobs that no "
         "layer reads",
         where);
  }
}

const PlannedValue& ValueOf(const Plan& plan, int v) { return plan.values[static_cast<size_t>(v)]; }

BlobInfo InfoOf(const PlannedValue& value, bool batches) {
  const auto dims = value.spec.shape.dims();
  BlobInfo info{value.name, value.spec.dtype, {dims.begin(), dims.end()}};
  if (batches) info.shape[0] = -1;
  return info;
}

// Marks dimensions that a layer determines at run time.
void MarkDynamic(const PlannedLayer& producer, BlobInfo* info) {
  if (!producer.info.dynamic_outputs || info->shape.empty()) return;
  const size_t axis = MakesDetections(producer.type->name) ? 2 : 0;
  info->shape[axis] = -1;
}

std::vector<BlobInfo> InputInfos(const Plan& plan, const std::vector<InputBlob>& blobs,
                                 bool batches) {
  std::vector<BlobInfo> infos;
  for (const InputBlob& blob : blobs) {
    infos.push_back(InfoOf(ValueOf(plan, plan.FindFirstValue(blob.name)), batches));
  }
  return infos;
}

std::vector<BlobInfo> OutputInfos(const Plan& plan, bool batches) {
  std::vector<int> outputs = plan.outputs;
  std::ranges::sort(outputs, {}, [&](int v) { return std::pair(ValueOf(plan, v).producer, v); });
  std::vector<BlobInfo> infos;
  for (const int v : outputs) {
    infos.push_back(InfoOf(ValueOf(plan, v), batches));
    MarkDynamic(plan.layers[static_cast<size_t>(ValueOf(plan, v).producer)], &infos.back());
  }
  return infos;
}

// `sizes` is the input of the sizes of images; empty: none.
void CheckPreprocessing(const Model::Parts& parts, const std::string& sizes) {
  const Preprocessing& p = parts.card.preprocessing;
  const auto blob = std::ranges::find_if(
      parts.input_blobs, [&](const InputBlob& input) { return input.name != sizes; });
  if (p == Preprocessing{} || blob == parts.input_blobs.end()) return;
  const Plan& plan = *parts.plan;
  const Shape& image = ValueOf(plan, plan.FindFirstValue(blob->name)).spec.shape;
  const bool is_image = image.axes() == 4;
  const std::string problem =
      is_image ? FindPreprocessingProblem(p, Shape{image[1], image[2], image[3]}, !sizes.empty())
      : p.mean.empty() ? ""
                       : StrCat("the mean is for images, but the input is ", ToString(image));
  if (problem.empty()) return;
  Fail(ErrorCode::kInvalidArgument, problem, {.file = parts.net.source.Locate("").file});
}

// Describes the shapes that a net does not accept, and those of its text.
Problem OtherShapes(const Plan& plan, const std::vector<InputBlob>& blobs,
                    std::span<const Shape> shapes) {
  std::vector<std::string> own, given;
  bool has_last_channels = false;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape& shape = ValueOf(plan, plan.FindFirstValue(blobs[i].name)).spec.shape;
    has_last_channels |= shape.axes() == 4 && shapes[i].axes() == 4 && shapes[i][1] != shape[1] &&
                         shapes[i][3] == shape[1];
    own.push_back(StrCat(blobs[i].name, "=", ToString(shape)));
    given.push_back(StrCat(blobs[i].name, "=", ToString(shapes[i])));
  }
  return {ErrorCode::kInvalidArgument,
          {},
          StrCat("the net is written for ", Join(own, ","), ", not for ", Join(given, ","),
                 "; if it comes from an ONNX model, import that with --shape=", Join(given, ","),
                 " (in Python: `shapes`)",
                 has_last_channels ? "; is it N x H x W x C? Transpose it to N x C x H x W" : "")};
}

}  // namespace

std::unique_ptr<Model::Parts> Model::Parts::Make(const NetFile& net, const ModelCard& card,
                                                 const ModelOptions& options,
                                                 const Registry& registry, LogSink& log) {
  auto parts = std::make_unique<Parts>();
  parts->net = net;
  DisableFileOutput(&parts->net.net);
  std::vector<Problem> warnings = net.warnings;
  DisableTrainingMode(net.source, &parts->net.net, &warnings);
  parts->state = InferenceState(net.net);
  RefuseTrainingNet(net, parts->state);
  RefuseWriters(net, parts->state);
  parts->card = card;
  if (card.preprocessing == Preprocessing{}) parts->card.preprocessing = PreprocessingIn(net);
  parts->options = options;
  parts->options.plan.backward = false;
  parts->options.plan.device = options.device.device;
  parts->options.plan.threads = options.threads;
  parts->registry = &registry;
  parts->plan = MakePlan(parts->net.net, parts->net.source, parts->state, registry,
                         parts->options.plan, &warnings);
  for (const Problem& warning : warnings) log.Write(Severity::kWarning, ToString(warning));
  parts->input_blobs = FindInputs(parts->net.net, parts->state);
  if (parts->input_blobs.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "the net has no input: give the deploy net, which begins with an Input layer",
         {.file = net.source.Locate("").file});
  }
  const std::string sizes = FindSizesInput(parts->plan->written);
  CheckPreprocessing(*parts, sizes);
  // A session of each size of picture would need much memory.
  if (!sizes.empty()) parts->options.max_plans = std::min<size_t>(parts->options.max_plans, 2);
  parts->batches = WorksBySample(parts->net, parts->state, registry);
  parts->inputs = InputInfos(*parts->plan, parts->input_blobs, parts->batches);
  parts->outputs = OutputInfos(*parts->plan, parts->batches);
  parts->plans = std::make_unique<PlanCache>(
      parts->options.max_plans,
      [p = parts.get()](std::span<const Shape> shapes) { return p->MakePlanFor(shapes); });
  return parts;
}

void Model::Parts::CheckShapes(std::span<const Shape> shapes) const {
  if (shapes.size() != inputs.size()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the net has ", inputs.size(), " inputs, not ", shapes.size()));
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    const int64_t count = shapes[i].count();
    if (count > 0 && count <= options.max_elements) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("input '", inputs[i].name, "' of ", ToString(shapes[i]),
                count == 0 ? " has no elements"
                           : StrCat(" has more elements than the ", options.max_elements,
                                    " that are allowed")));
  }
}

std::shared_ptr<const Plan> Model::Parts::MakePlanFor(std::span<const Shape> shapes) const {
  const auto is_planned = [&](const Shape& shape) {
    const InputBlob& blob = input_blobs[static_cast<size_t>(&shape - shapes.data())];
    return ValueOf(*plan, plan->FindFirstValue(blob.name)).spec.shape == shape;
  };
  if (std::ranges::all_of(shapes, is_planned)) return plan;
  NetParameter sized = net.net;
  SetInputShapes(input_blobs, shapes, &sized);
  std::vector<Problem> ignored;  // the text's warnings have been reported
  std::vector<Problem> problems;
  std::shared_ptr<const Plan> made;
  try {
    made = MakePlan(sized, net.source, state, *registry, options.plan, &ignored);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    problems = error.problems();
    problems.push_back(OtherShapes(*plan, input_blobs, shapes));
    throw Error(std::move(problems));
  }
  CREMA_CHECK(made->parameters.size() == plan->parameters.size());
  for (size_t s = 0; s < made->parameters.size(); ++s) {
    const ParameterSlot& slot = made->parameters[s];
    if (slot.shape == plan->parameters[s].shape) continue;
    problems.push_back(
        {ErrorCode::kInvalidArgument,
         {.layer = made->layers[static_cast<size_t>(slot.layer)].name()},
         StrCat("for inputs of these shapes its ", slot.role, " would be ", ToString(slot.shape),
                ", but it is ", ToString(plan->parameters[s].shape))});
  }
  if (problems.empty()) return made;
  problems.push_back(OtherShapes(*plan, input_blobs, shapes));
  throw Error(std::move(problems));
}

Model::Model(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Model::~Model() = default;

std::shared_ptr<const Model> Model::Make(const NetFile& net, const WeightsFiles& files,
                                         const ModelCard& card, const ModelOptions& options,
                                         const Registry& registry, LogSink& log) {
  std::unique_ptr<Parts> parts = Parts::Make(net, card, options, registry, log);
  auto weights = Weights::MakeToLoad(*parts->plan, 1);
  LoadFiles(files, *parts->plan, weights.get(), &log);
  parts->weights = std::move(weights);
  return std::shared_ptr<const Model>(new Model(std::move(parts)));
}

std::shared_ptr<const Model> Model::MakeSharing(const NetFile& net, const Weights& weights,
                                                const ModelCard& card, const ModelOptions& options,
                                                const Registry& registry, LogSink& log) {
  std::unique_ptr<Parts> parts = Parts::Make(net, card, options, registry, log);
  parts->weights = Weights::ShareWith(*parts->plan, weights, 1);
  return std::shared_ptr<const Model>(new Model(std::move(parts)));
}

const ModelCard& Model::card() const { return parts_->card; }
const std::vector<BlobInfo>& Model::inputs() const { return parts_->inputs; }
const std::vector<BlobInfo>& Model::outputs() const { return parts_->outputs; }
bool Model::Batches() const { return parts_->batches; }
const std::shared_ptr<const Weights>& Model::weights() const { return parts_->weights; }

std::shared_ptr<const Plan> Model::PlanFor(std::span<const Shape> inputs) const {
  parts_->CheckShapes(inputs);
  return parts_->plans->Get(inputs);
}

}  // namespace crema
