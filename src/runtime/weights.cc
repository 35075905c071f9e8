#include "runtime/weights.h"

#include <algorithm>
#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "math/filler.h"
#include "runtime/weights_matcher.h"

namespace crema {
namespace {

std::string KeyOf(const Plan& plan, const LearnedSlot& slot) {
  return StrCat(plan.layers[static_cast<size_t>(slot.layer)].name(), "\n", slot.index);
}

const LayerParameter& ParamOf(const Plan& plan, const LearnedSlot& slot) {
  return plan.layers[static_cast<size_t>(slot.layer)].layer->param();
}

bool IsGivenInText(const Plan& plan, const LearnedSlot& slot) {
  return slot.index < ParamOf(plan, slot).blobs_size();
}

void TakeFromText(const Plan& plan, const LearnedSlot& slot, const TensorView& to) {
  const LayerParameter& param = ParamOf(plan, slot);
  const BlobProto& given = param.blobs(slot.index);
  if (!ShapeMatches(given, slot.shape) || DataCount(given) != slot.shape.count()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'blobs' entry ", slot.index, " of the net's text is ", ToString(ShapeOf(given)),
                " with ", DataCount(given), " values; the layer needs ", ToString(slot.shape)),
         {.layer = param.name()});
  }
  CopyTo(given, to);
}

void RunFiller(const Plan& plan, const LearnedSlot& slot, uint64_t seed, const TensorView& to) {
  const PlannedLayer& layer = plan.layers[static_cast<size_t>(slot.layer)];
  const RandomStream stream(seed, MixBits(layer.layer_id, static_cast<uint64_t>(slot.index)));
  Fill(slot.filler, slot.shape, stream, to);
}

}  // namespace

std::shared_ptr<Weights> Weights::MakeToLoad(const Plan& plan, uint64_t seed,
                                             Allocator& allocator) {
  auto weights = std::make_shared<Weights>();
  weights->seed_ = seed;
  weights->to_fill_.resize(plan.learned.size());
  for (size_t s = 0; s < plan.learned.size(); ++s) {
    const LearnedSlot& slot = plan.learned[s];
    const auto owner = static_cast<size_t>(slot.owner);
    if (owner < s) {
      weights->blobs_.push_back(weights->blobs_[owner]);
    } else {
      weights->blobs_.push_back(
          std::make_shared<Tensor>(slot.shape, plan.options.dtype, allocator));
      weights->to_fill_[s] = !IsGivenInText(plan, slot);
      if (!weights->to_fill_[s]) TakeFromText(plan, slot, weights->blob(s));
    }
    weights->by_key_[KeyOf(plan, slot)] = weights->blobs_.back();
  }
  return weights;
}

void Weights::FillRest(const Plan& plan) {
  for (size_t s = 0; s < to_fill_.size(); ++s) {
    if (to_fill_[s]) RunFiller(plan, plan.learned[s], seed_, blob(s));
    to_fill_[s] = false;
  }
}

std::shared_ptr<Weights> Weights::Make(const Plan& plan, uint64_t seed, Allocator& allocator) {
  std::shared_ptr<Weights> weights = MakeToLoad(plan, seed, allocator);
  weights->FillRest(plan);
  return weights;
}

std::shared_ptr<Weights> Weights::ShareWith(const Plan& plan, const Weights& other, uint64_t seed) {
  auto weights = MakeToLoad(plan, seed);
  // Parameters that several layers own may have some owners in `other` and some not.
  const bool several = std::ranges::any_of(plan.learned, [&](const LearnedSlot& slot) {
    return &slot != &plan.learned[static_cast<size_t>(slot.owner)];
  });
  if (several) weights->FillRest(plan);
  std::vector<Problem> problems;
  for (size_t s = 0; s < plan.learned.size(); ++s) {
    const LearnedSlot& slot = plan.learned[s];
    const auto found = other.by_key_.find(KeyOf(plan, slot));
    if (found == other.by_key_.end()) continue;
    // A parameter that is shared PERMISSIVEly may have another shape here.
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
    weights->to_fill_[s] = false;
    weights->by_key_[found->first] = found->second;
  }
  if (!problems.empty()) throw Error(std::move(problems));
  weights->FillRest(plan);
  return weights;
}

LoadReport Weights::Load(const Plan& plan, const NetParameter& model, const std::string& file,
                         MissingLayers missing, OnMismatch on_mismatch) {
  WeightsMatcher matcher(plan, model, file, missing, on_mismatch);
  LoadReport report = matcher.Match();
  for (const auto& [slot, blob] : matcher.matches()) {
    CopyTo(*blob, blobs_[static_cast<size_t>(slot)]->view());
    to_fill_[static_cast<size_t>(plan.learned[static_cast<size_t>(slot)].owner)] = false;
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
