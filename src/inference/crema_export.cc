#include "inference/crema_export.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "crema.pb.h"
#include "inference/crema_file.h"
#include "inference/deploy_net.h"
#include "inference/model_parts.h"
#include "inference/recording.h"
#include "inference/stored_preprocessing.h"
#include "quantization/byte_weights.h"

namespace crema {
namespace {

const std::string& LayerOf(const Plan& plan, size_t slot) {
  return plan.layers[static_cast<size_t>(plan.parameters[slot].layer)].name();
}

void StoreCard(const ModelCard& card, CremaFileHeader* header) {
  header->set_name(card.name);
  header->set_task(card.task);
  for (const std::string& label : card.labels) header->add_label(label);
  if (!card.head.empty()) header->set_head(card.head);
  if (card.head_overlap) header->set_head_overlap(*card.head_overlap);
  StorePreprocessing(card.preprocessing, header->mutable_preprocessing());
}

// Returns true for the weights of a layer that rounds them to bytes, if no other layer uses them.
bool AreBytes(const Plan& plan, size_t slot) {
  const ParameterSlot& parameter = plan.parameters[slot];
  const PlannedLayer& layer = plan.layers[static_cast<size_t>(parameter.layer)];
  // Fused layers and views have no implementation.
  return parameter.index == 0 && layer.implementation != nullptr &&
         layer.implementation->rounds_weights &&
         std::ranges::count(plan.parameters, static_cast<int>(slot), &ParameterSlot::owner) == 1;
}

// Stores the parameters of the remaining layers, by layer name. `bytes`: memory of those that are
// rounded.
void StoreWeights(const Plan& left, const Plan& whole, const Weights& weights,
                  std::deque<ByteWeights>* bytes, CremaContents* contents) {
  std::map<std::pair<std::string, int>, size_t> slots;
  for (size_t s = 0; s < whole.parameters.size(); ++s) {
    slots[{LayerOf(whole, s), whole.parameters[s].index}] = s;
  }
  for (size_t s = 0; s < left.parameters.size(); ++s) {
    const ParameterSlot& slot = left.parameters[s];
    if (slot.owner != static_cast<int>(s)) continue;
    const ConstTensorView blob = weights.blob(slots.at({LayerOf(left, s), slot.index}));
    const ConstTensorView value(blob.raw(), slot.shape, blob.dtype());
    StoredTensor tensor = Describe(LayerOf(left, s), value);
    tensor.set_index(static_cast<uint32_t>(slot.index));
    contents->tensors.push_back(value);
    if (AreBytes(left, s)) {
      ByteWeights& rounded = bytes->emplace_back(
          RoundWeights(left.layers[static_cast<size_t>(slot.layer)], value, 127));
      contents->tensors.back() = {rounded.bytes.data(), slot.shape, DType::kU8};
      tensor.set_type(StoredTensor::I8);
      tensor.set_bytes(rounded.bytes.size());
      tensor.mutable_step()->Add(rounded.steps.begin(), rounded.steps.end());
      tensor.set_step_axis(static_cast<uint32_t>(rounded.axis));
    }
    *contents->header.add_learned() = std::move(tensor);
  }
}

// Sets the shapes of the recorded run, so that the plan made on opening is the one that runs.
void MakeOneSample(const RecordedRun& run, const NetState& state, NetParameter* net) {
  std::vector<Shape> shapes;
  for (const Tensor& input : run.inputs) shapes.push_back(input.shape());
  SetInputShapes(FindInputs(*net, state), shapes, net);
}

void StorePlugins(const Registry& registry, CremaFileHeader* header) {
  std::map<std::string, std::string> versions;
  for (const LayerParameter& layer : header->net().layer()) {
    const auto& plugin = registry.Find(layer.type())->plugin;
    if (plugin != nullptr) versions[plugin->name] = plugin->version;
  }
  for (const auto& [name, version] : versions) {
    StoredPlugin* stored = header->add_plugin();
    stored->set_name(name);
    stored->set_version(version);
  }
}

void StoreRun(const Model& model, const RecordedRun& run, CremaContents* contents) {
  Recording* recording = contents->header.mutable_recording();
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    contents->tensors.push_back(run.inputs[i].view());
    *recording->add_input() = Describe(model.inputs()[i].name, run.inputs[i].view());
  }
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    contents->tensors.push_back(run.outputs[i].view());
    *recording->add_output() = Describe(model.outputs()[i].name, run.outputs[i].view());
  }
  recording->set_tolerance(RecordedTolerance(contents->header.net()));
}

}  // namespace

void ExportModel(const std::shared_ptr<const Model>& model, const std::string& path) {
  const Model::Parts& parts = model->parts();
  RefuseOtherFiles(parts.net, parts.state);
  CremaContents contents;
  contents.header.set_crema_version(CREMA_VERSION);
  StoreCard(model->card(), &contents.header);
  NetParameter net = DeployNet(parts.net, parts.state, *parts.registry);
  net.clear_preprocessing();  // the card has it
  if (!net.has_precision() && parts.options.plan.precision != FP32) {
    net.set_precision(parts.options.plan.precision);
  }
  const RecordedRun run = RecordRun(model);
  MakeOneSample(run, parts.state, &net);
  *contents.header.mutable_net() = std::move(net);
  StorePlugins(*parts.registry, &contents.header);
  NetFile left;
  left.net = contents.header.net();
  left.source.file = path;
  std::vector<Problem> warnings;
  const auto plan =
      MakePlan(left.net, left.source, parts.state, *parts.registry, parts.options.plan, &warnings);
  std::deque<ByteWeights> bytes;
  StoreWeights(*plan, *parts.plan, *parts.weights, &bytes, &contents);
  StoreRun(*model, run, &contents);
  WriteCremaFile(std::move(contents), path, [&](const std::string& written) {
    Model::Open(written, parts.options, *parts.registry, NullSink());
  });
}

}  // namespace crema
