#include "runtime/weights.h"

#include <cstring>
#include <set>
#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "format/blob_proto.h"
#include "math/filler.h"

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

namespace {

// One pass over plan and file that only looks; blobs are copied when no problem was found.
class Loader {
 public:
  Loader(const Plan& plan, const NetParameter& model, const std::string& file,
         MissingLayers missing)
      : plan_(plan), file_(file), missing_(missing) {
    for (const LayerParameter& layer : model.layer()) {
      by_name_.emplace(layer.name(), &layer);  // the first of a name, should there be two
    }
    for (const LayerParameter& layer : model.layer()) {
      if (layer.blobs_size() > 0) unused_.insert(layer.name());
    }
  }

  LoadReport Match() {
    LoadReport report;
    for (const PlannedLayer& layer : plan_.layers) {
      if (layer.learned.empty()) continue;
      const auto found = by_name_.find(layer.name());
      unused_.erase(layer.name());
      if (found == by_name_.end()) {
        report.at_fillers.push_back(layer.name());
        if (missing_ == MissingLayers::kError) ReportMissing(layer);
      } else if (MatchBlobs(layer, *found->second)) {
        report.loaded.push_back(layer.name());
      }
    }
    report.not_in_net.assign(unused_.begin(), unused_.end());
    if (!problems_.empty()) throw Error(std::move(problems_));
    return report;
  }

  const std::vector<std::pair<int, const BlobProto*>>& matches() const { return matches_; }

 private:
  bool MatchBlobs(const PlannedLayer& layer, const LayerParameter& source) {
    if (!HasRightCount(layer, source)) {
      Report(layer,
             StrCat("the file has ", source.blobs_size(), " blobs for this layer, the net has ",
                    layer.learned.size(), " (", Roles(layer), ")"));
      return false;
    }
    bool fits = true;
    for (int i = 0; i < source.blobs_size(); ++i) {
      const int slot_index = layer.learned[static_cast<size_t>(i)];
      const LearnedSlot& slot = plan_.learned[static_cast<size_t>(slot_index)];
      const BlobProto& blob = source.blobs(i);
      // HDF5 files hold a shared blob once, with its owner.
      if (slot.owner != slot_index && DataCount(blob) == 0) continue;
      if (!ShapeMatches(blob, slot.shape)) {
        Report(layer, StrCat("blob ", i, " (", slot.role, ") is ", ToString(ShapeOf(blob)),
                             " in the file, but ", ToString(slot.shape),
                             " in the net; give the layer another name to train it anew, or make "
                             "the net as it was when the file was written"));
        fits = false;
        continue;
      }
      const int64_t count = DataCount(blob);
      if (count != slot.shape.count()) {
        Report(layer,
               StrCat("blob ", i, " (", slot.role, ") holds ", count, " values, but needs ",
                      slot.shape.count()),
               ErrorCode::kDataLoss);
        fits = false;
        continue;
      }
      matches_.emplace_back(slot_index, &blob);
    }
    return fits;
  }

  // As many as the layer has; blobs that others own may be missing at the end.
  bool HasRightCount(const PlannedLayer& layer, const LayerParameter& source) const {
    const auto count = static_cast<size_t>(source.blobs_size());
    if (count > layer.learned.size()) return false;
    for (size_t i = count; i < layer.learned.size(); ++i) {
      if (plan_.learned[static_cast<size_t>(layer.learned[i])].owner == layer.learned[i])
        return false;
    }
    return true;
  }

  std::string Roles(const PlannedLayer& layer) const {
    std::vector<std::string> roles;
    for (int s : layer.learned) roles.push_back(plan_.learned[static_cast<size_t>(s)].role);
    return Join(roles, ", ");
  }

  void ReportMissing(const PlannedLayer& layer) {
    std::vector<std::string> names(unused_.begin(), unused_.end());
    Report(layer, StrCat("the file has no blobs for this layer", DidYouMean(layer.name(), names)));
  }

  void Report(const PlannedLayer& layer, std::string message,
              ErrorCode code = ErrorCode::kInvalidArgument) {
    problems_.push_back({code, {.file = file_, .layer = layer.name()}, std::move(message)});
  }

  const Plan& plan_;
  const std::string& file_;
  MissingLayers missing_;
  std::map<std::string, const LayerParameter*> by_name_;
  std::set<std::string> unused_;
  std::vector<Problem> problems_;
  std::vector<std::pair<int, const BlobProto*>> matches_;
};

}  // namespace

LoadReport Weights::Load(const Plan& plan, const NetParameter& model, const std::string& file,
                         MissingLayers missing) {
  Loader loader(plan, model, file, missing);
  LoadReport report = loader.Match();
  for (const auto& [slot, blob] : loader.matches()) {
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

std::string DescribeLoad(const LoadReport& report, const std::string& file) {
  std::string text = StrCat("weights from ", file, ":\n");
  const auto list = [&](const char* what, const std::vector<std::string>& names) {
    for (const std::string& name : names) text += StrCat("  ", what, "  ", name, "\n");
  };
  list("loaded    ", report.loaded);
  list("at fillers", report.at_fillers);
  list("not used  ", report.not_in_net);
  return text;
}

}  // namespace crema
