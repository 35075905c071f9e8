#include "runtime/weights.h"

#include <cstring>
#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "format/blob_proto.h"
#include "math/filler.h"
#include "runtime/weights_matcher.h"

namespace crema {
namespace {

std::string KeyOf(const Plan& plan, const LearnedSlot& slot) {
  return StrCat(plan.layers[static_cast<size_t>(slot.layer)].name(), "\n", slot.index);
}

std::shared_ptr<Tensor> MakeBlob(const Plan& plan, const LearnedSlot& slot, uint64_t seed,
                                 Allocator& allocator) {
  auto tensor = std::make_shared<Tensor>(slot.shape, plan.options.dtype, allocator);
  const PlannedLayer& layer = plan.layers[static_cast<size_t>(slot.layer)];
  const LayerParameter& param = layer.layer->param();
  if (slot.index < param.blobs_size()) {
    const BlobProto& given = param.blobs(slot.index);
    if (!ShapeMatches(given, slot.shape) || DataCount(given) != slot.shape.count()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("'blobs' entry ", slot.index, " of the net's text is ", ToString(ShapeOf(given)),
                  " with ", DataCount(given), " values; the layer needs ", ToString(slot.shape)),
           {.layer = param.name()});
    }
    CopyTo(param.blobs(slot.index), tensor->view());
  } else {
    const RandomStream stream(seed, MixBits(layer.layer_id, static_cast<uint64_t>(slot.index)));
    Fill(slot.filler, slot.shape, stream, tensor->view());
  }
  return tensor;
}

}  // namespace

std::shared_ptr<Weights> Weights::Make(const Plan& plan, uint64_t seed, Allocator& allocator) {
  auto weights = std::make_shared<Weights>();
  for (const LearnedSlot& slot : plan.learned) {
    const auto owner = static_cast<size_t>(slot.owner);
    weights->blobs_.push_back(owner < weights->blobs_.size()
                                  ? weights->blobs_[owner]
                                  : MakeBlob(plan, slot, seed, allocator));
    weights->by_key_[KeyOf(plan, slot)] = weights->blobs_.back();
  }
  return weights;
}

std::shared_ptr<Weights> Weights::ShareWith(const Plan& plan, const Weights& other, uint64_t seed) {
  auto weights = Make(plan, seed);
  std::vector<Problem> problems;
  for (size_t s = 0; s < plan.learned.size(); ++s) {
    const LearnedSlot& slot = plan.learned[s];
    const auto found = other.by_key_.find(KeyOf(plan, slot));
    if (found == other.by_key_.end()) continue;
    // A blob that the owner shares PERMISSIVEly may have another shape here.
    const bool fits = slot.owner == static_cast<int>(s)
                          ? found->second->shape() == slot.shape
                          : found->second->shape().count() == slot.shape.count();
    if (!fits) {
      problems.push_back({ErrorCode::kInvalidArgument,
                          {.layer = plan.layers[static_cast<size_t>(slot.layer)].name()},
                          StrCat(slot.role, " is ", ToString(slot.shape), " in phase ",
                                 Phase_Name(plan.state.phase()), " but ",
                                 ToString(found->second->shape()), " in the net that is trained")});
      continue;
    }
    weights->blobs_[s] = found->second;
    weights->by_key_[found->first] = found->second;
  }
  if (!problems.empty()) throw Error(std::move(problems));
  return weights;
}

LoadReport Weights::Load(const Plan& plan, const NetParameter& model, const std::string& file,
                         MissingLayers missing, OnMismatch on_mismatch) {
  WeightsMatcher matcher(plan, model, file, missing, on_mismatch);
  LoadReport report = matcher.Match();
  for (const auto& [slot, blob] : matcher.matches()) {
    CopyTo(*blob, blobs_[static_cast<size_t>(slot)]->view());
  }
  return report;
}

NetParameter Weights::Export(const Plan& plan) const {
  NetParameter net = plan.written;
  std::map<std::string, LayerParameter*> by_name;
  for (LayerParameter& layer : *net.mutable_layer()) by_name.emplace(layer.name(), &layer);
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.learned.empty()) continue;
    LayerParameter* target = by_name.at(layer.name());
    for (int s : layer.learned) {
      CopyFrom(blob(static_cast<size_t>(s)), target->add_blobs());
    }
  }
  return net;
}

}  // namespace crema
