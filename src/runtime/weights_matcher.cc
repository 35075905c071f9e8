#include "runtime/weights_matcher.h"

#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"

namespace crema {

WeightsMatcher::WeightsMatcher(const Plan& plan, const NetParameter& model, const std::string& file,
                               MissingLayers missing, OnMismatch on_mismatch)
    : plan_(plan), file_(file), missing_(missing), on_mismatch_(on_mismatch) {
  for (const LayerParameter& layer : model.layer()) {
    const auto [found, added] = by_name_.emplace(layer.name(), &layer);
    if (!added && layer.blobs_size() > 0) found->second = &layer;
    if (layer.blobs_size() > 0) unused_.insert(layer.name());
  }
}

LoadReport WeightsMatcher::Match() {
  for (const PlannedLayer& layer : plan_.layers) {
    if (!layer.learned.empty()) unused_.erase(layer.name());
  }
  std::set<std::string> taken;  // already suggested
  for (const PlannedLayer& layer : plan_.layers) {
    if (layer.learned.empty()) continue;
    const auto found = by_name_.find(layer.name());
    if (found != by_name_.end()) {
      MatchLayer(layer, *found->second);
      continue;
    }
    report_.at_fillers.push_back(layer.name());
    SuggestRename(layer, &taken);
    if (missing_ == MissingLayers::kError && on_mismatch_ != OnMismatch::kSkip) {
      ReportMissing(layer);
    }
  }
  report_.not_in_net.assign(unused_.begin(), unused_.end());
  for (size_t s = 0; s < plan_.learned.size(); ++s) {
    report_.learned += plan_.learned[s].owner == static_cast<int>(s) ? 1 : 0;
  }
  if (!problems_.empty()) throw Error(std::move(problems_));
  return std::move(report_);
}

void WeightsMatcher::MatchLayer(const PlannedLayer& layer, const LayerParameter& source) {
  LayerMatch match;
  try {
    match = MatchBlobs(layer, BlobsOf(layer, source));
  } catch (const Error& error) {  // of adapt_blobs, or a damaged shape
    const Problem& problem = error.problems().front();
    return Report(layer, problem.message, problem.code);
  }
  if (match.mismatches.empty()) {
    report_.loaded.push_back(layer.name());
    for (const std::string& text : match.reshaped) report_.reshaped.push_back({layer.name(), text});
    for (const auto& [slot, blob] : match.blobs) {
      report_.filled.insert(plan_.learned[static_cast<size_t>(slot)].owner);
    }
    matches_.insert(matches_.end(), match.blobs.begin(), match.blobs.end());
  } else if (on_mismatch_ == OnMismatch::kSkip) {
    report_.skipped.push_back({layer.name(), Join(match.mismatches, "; ")});
  } else {
    for (const std::string& text : match.mismatches) {
      Report(
          layer,
          text +
              "; give the layer another name to train it from scratch, or make the net as it was "
              "when the file was written");
    }
  }
}

// Returns the parameters of the file in the current layout.
std::vector<const BlobProto*> WeightsMatcher::BlobsOf(const PlannedLayer& layer,
                                                      const LayerParameter& source) {
  std::vector<const BlobProto*> blobs;
  if (!layer.type->adapt_blobs) {
    for (const BlobProto& blob : source.blobs()) blobs.push_back(&blob);
    return blobs;
  }
  std::vector<BlobProto>& adapted =
      adapted_.emplace_back(source.blobs().begin(), source.blobs().end());
  layer.type->adapt_blobs(source, layer.info, &adapted);
  for (const BlobProto& blob : adapted) blobs.push_back(&blob);
  return blobs;
}

WeightsMatcher::LayerMatch WeightsMatcher::MatchBlobs(
    const PlannedLayer& layer, std::span<const BlobProto* const> blobs) const {
  LayerMatch match;
  if (!HasRightCount(layer, blobs.size())) {
    match.mismatches.push_back(StrCat("the file has ", blobs.size(),
                                      " blobs for this layer, the net has ", layer.learned.size(),
                                      " (", Roles(layer), ")"));
    return match;
  }
  for (size_t i = 0; i < blobs.size(); ++i) {
    MatchBlob(layer.learned[i], static_cast<int>(i), *blobs[i], &match);
  }
  return match;
}

void WeightsMatcher::MatchBlob(int slot_index, int blob_index, const BlobProto& blob,
                               LayerMatch* match) const {
  const LearnedSlot& slot = plan_.learned[static_cast<size_t>(slot_index)];
  const int64_t count = DataCount(blob);
  // HDF5 files store a shared parameter once, with its owner.
  if (slot.owner != slot_index && count == 0) return;
  const Shape stored = ShapeOf(blob);
  if (count != stored.count()) {
    Fail(ErrorCode::kDataLoss, StrCat("blob ", blob_index, " (", slot.role, ") holds ", count,
                                      " values, but needs ", stored.count()));
  }
  const std::string shapes = StrCat("blob ", blob_index, " (", slot.role, ") is ", ToString(stored),
                                    " in the file, but ", ToString(slot.shape), " in the net");
  if (!ShapeMatches(blob, slot.shape)) {
    if (on_mismatch_ != OnMismatch::kReshape || count != slot.shape.count()) {
      match->mismatches.push_back(shapes);
      return;
    }
    match->reshaped.push_back(shapes);
  }
  match->blobs.emplace_back(slot_index, &blob);
}

// The layer's own parameters must be there; those that others own may be missing at the end.
bool WeightsMatcher::HasRightCount(const PlannedLayer& layer, size_t count) const {
  if (count > layer.learned.size()) return false;
  return std::all_of(
      layer.learned.begin() + static_cast<std::ptrdiff_t>(count), layer.learned.end(),
      [&](int slot) { return plan_.learned[static_cast<size_t>(slot)].owner != slot; });
}

std::string WeightsMatcher::Roles(const PlannedLayer& layer) const {
  std::vector<std::string> roles;
  for (int s : layer.learned) roles.push_back(plan_.learned[static_cast<size_t>(s)].role);
  return Join(roles, ", ");
}

bool WeightsMatcher::Fits(const PlannedLayer& layer, const LayerParameter& source) const {
  if (static_cast<size_t>(source.blobs_size()) != layer.learned.size()) return false;
  for (int i = 0; i < source.blobs_size(); ++i) {
    const int slot = layer.learned[static_cast<size_t>(i)];
    if (!ShapeMatches(source.blobs(i), plan_.learned[static_cast<size_t>(slot)].shape)) {
      return false;
    }
  }
  return true;
}

// Suggests an unused layer of the file: the most similar name with the same shapes, else the first
// with the same shapes, else a similar name.
void WeightsMatcher::SuggestRename(const PlannedLayer& layer, std::set<std::string>* taken) {
  std::vector<std::string> fitting;
  std::vector<std::string> others;
  for (const std::string& name : unused_) {
    if (taken->contains(name)) continue;
    (Fits(layer, *by_name_.at(name)) ? fitting : others).push_back(name);
  }
  const auto similar = [&](const std::vector<std::string>& names) {
    const auto extends = std::ranges::find_if(names, [&](const std::string& name) {
      return layer.name().starts_with(name) || name.starts_with(layer.name());
    });
    return extends != names.end() ? *extends : Nearest(layer.name(), names);
  };
  std::string found = similar(fitting);
  if (found.empty() && !fitting.empty()) found = fitting.front();
  const bool fits = !found.empty();
  if (!fits) found = similar(others);
  if (found.empty()) return;
  taken->insert(found);
  report_.renames.push_back({layer.name(), found, fits});
}

void WeightsMatcher::ReportMissing(const PlannedLayer& layer) {
  const std::vector<std::string> names(unused_.begin(), unused_.end());
  std::string hint = DidYouMean(layer.name(), names);
  if (hint.empty() && !report_.renames.empty() && report_.renames.back().layer == layer.name()) {
    hint = StrCat("; rename it to '", report_.renames.back().layer_of_file, "'?",
                  report_.renames.back().fits ? "" : " (its shapes differ)");
  }
  Report(layer, "the file has no blobs for this layer" + hint);
}

void WeightsMatcher::Report(const PlannedLayer& layer, std::string message, ErrorCode code) {
  problems_.push_back({code, {.file = file_, .layer = layer.name()}, std::move(message)});
}

}  // namespace crema
