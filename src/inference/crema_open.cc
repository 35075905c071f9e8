// Model::Open: a model whose weights are in a mapped file.
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "graph/plugin.h"
#include "inference/crema_file.h"
#include "inference/deploy_net.h"
#include "inference/model_parts.h"
#include "inference/recording.h"
#include "inference/stored_preprocessing.h"

namespace crema {
namespace {

// Returns pointers into the map, in the order of Weights' requests: that of the parameter slots
// that own their blobs. Read-only, as the weights are const.
class MappedBlobs final : public Allocator {
 public:
  explicit MappedBlobs(std::vector<ConstTensorView> blobs) : blobs_(std::move(blobs)) {}

  Device device() const override { return {}; }
  void* Allocate(size_t bytes) override {
    CREMA_CHECK(next_ < blobs_.size());
    const ConstTensorView& blob = blobs_[next_++];
    CREMA_CHECK(bytes == std::max<size_t>(1, blob.bytes()));
    return const_cast<void*>(blob.raw());
  }
  void Free(void*, size_t) noexcept override {}

 private:
  const std::vector<ConstTensorView> blobs_;
  size_t next_ = 0;
};

struct MappedWeights {
  std::shared_ptr<const MappedFile> file;
  std::deque<Tensor> converted;  // weights that the file has as bytes
  MappedBlobs blobs;
  std::shared_ptr<const Weights> weights = {};  // destroyed first
};

[[noreturn]] void FailWeights(const MappedFile& file, const std::string& layer,
                              const std::string& why) {
  Fail(ErrorCode::kDataLoss, StrCat("its weights are not those of its net: ", why),
       {.file = file.path(), .layer = layer});
}

// Returns the file's tensor for each blob that the net owns, converted to floats if it is of
// bytes. Throws if any is missing or left over.
std::vector<ConstTensorView> FindBlobs(const Plan& plan, const CremaFileHeader& header,
                                       const MappedFile& file, std::deque<Tensor>* converted) {
  std::map<std::pair<std::string, uint32_t>, const StoredTensor*> stored;
  for (const StoredTensor& tensor : header.learned()) {
    if (stored.emplace(std::pair(tensor.name(), tensor.index()), &tensor).second) continue;
    FailWeights(file, tensor.name(), StrCat("blob ", tensor.index(), " appears twice"));
  }
  std::vector<ConstTensorView> blobs;
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    if (slot.owner != static_cast<int>(s)) continue;
    const std::string& layer = plan.layers[static_cast<size_t>(slot.layer)].name();
    const auto found = stored.find({layer, static_cast<uint32_t>(slot.index)});
    if (found == stored.end()) FailWeights(file, layer, StrCat("there is no ", slot.role));
    const StoredTensor& tensor = *found->second;
    if (ShapeOf(tensor) != slot.shape || tensor.type() == StoredTensor::U8) {
      FailWeights(
          file, layer,
          StrCat(slot.role, " is ", ToString(ShapeOf(tensor)), ", not ", ToString(slot.shape)));
    }
    blobs.push_back(WeightIn(file.bytes(), tensor, converted));
  }
  if (blobs.size() != stored.size()) FailWeights(file, "", "there are more of them");
  return blobs;
}

std::shared_ptr<const Weights> WeightsIn(const std::shared_ptr<const MappedFile>& file,
                                         const CremaFileHeader& header, const Plan& plan) {
  std::deque<Tensor> converted;
  std::vector<ConstTensorView> blobs = FindBlobs(plan, header, *file, &converted);
  auto mapped = std::make_shared<MappedWeights>(
      MappedWeights{file, std::move(converted), MappedBlobs(std::move(blobs))});
  mapped->weights = Weights::MakeToLoad(plan, 1, mapped->blobs);
  return {mapped, mapped->weights.get()};
}

ModelCard CardOf(const CremaFileHeader& header, const std::string& path) {
  ModelCard card;
  card.name = header.name();
  card.task = header.task();
  const std::set<std::string> tasks = {"", "classify", "detect", "segment"};
  if (!tasks.contains(card.task)) {
    Fail(ErrorCode::kDataLoss, "has a task that this version does not know", {.file = path});
  }
  card.labels.assign(header.label().begin(), header.label().end());
  card.preprocessing =
      ReadPreprocessing(header.preprocessing(), ErrorCode::kDataLoss, {.file = path});
  card.head = header.head();
  if (header.has_head_overlap()) card.head_overlap = header.head_overlap();
  return card;
}

// Accepts only nets as DeployNet writes them: blobs in the text would be written to the map, and
// stages could add layers after the check for file access.
void CheckNet(const NetFile& net, const std::string& path) {
  if (net.net.layers_size() > 0 || net.net.input_size() > 0) {
    Fail(ErrorCode::kDataLoss, "holds a net of an old format", {.file = path});
  }
  if (net.net.has_state()) Fail(ErrorCode::kDataLoss, "holds a state in its net", {.file = path});
  for (const LayerParameter& layer : net.net.layer()) {
    if (layer.blobs_size() == 0) continue;
    Fail(ErrorCode::kDataLoss, "holds parameter blobs in its net",
         {.file = path, .layer = layer.name()});
  }
}

void RequirePlugins(const CremaFileHeader& header, const Registry& registry,
                    const std::string& path) {
  const auto loaded = PluginsOf(registry);
  for (const StoredPlugin& needed : header.plugin()) {
    const bool found = std::ranges::any_of(
        loaded, [&](const auto& plugin) { return plugin->name == needed.name(); });
    if (found) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("has layers of the plugin '", needed.name(), "', version ", needed.version(),
                ", which is not loaded: give its library (--plugin=FILE; in programs, "
                "crema.load_plugin, LoadPlugin or crema_load_plugin)"),
         {.file = path});
  }
}

}  // namespace

std::shared_ptr<const Model> Model::Open(const std::string& path, const ModelOptions& options,
                                         const Registry& registry, LogSink& log) {
  const auto file = std::make_shared<const MappedFile>(path);
  CremaFileHeader header = ReadCremaFile(file->bytes(), path);
  RequirePlugins(header, registry, path);
  NetFile net;
  net.net.Swap(header.mutable_net());
  net.source.file = path;
  CheckNet(net, path);
  RefuseOtherFiles(net, InferenceState(net.net));
  std::unique_ptr<Parts> parts = Parts::Make(net, CardOf(header, path), options, registry, log);
  parts->weights = WeightsIn(file, header, *parts->plan);
  const std::shared_ptr<const Model> model(new Model(std::move(parts)));
  CheckRecording(model, header.recording(), file->bytes(), path);
  return model;
}

}  // namespace crema
