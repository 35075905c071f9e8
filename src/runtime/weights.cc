#include "runtime/weights.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
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

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void AddNew(const std::vector<std::string>& from, std::vector<std::string>* to) {
  for (const std::string& name : from) {
    if (!Has(*to, name)) to->push_back(name);
  }
}

void FailWhereMissing(const LoadReport& report, const std::string& files) {
  std::vector<Problem> problems;
  for (const std::string& layer : report.at_fillers) {
    problems.push_back({ErrorCode::kInvalidArgument,
                        {.file = files, .layer = layer},
                        StrCat("none of the files has blobs for this layer",
                               DidYouMean(layer, report.not_in_net))});
  }
  if (!problems.empty()) throw Error(std::move(problems));
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
  // Of blobs with several owners' names, some may be taken from `other` and some not.
  const bool several = std::ranges::any_of(plan.learned, [&](const LearnedSlot& slot) {
    return &slot != &plan.learned[static_cast<size_t>(slot.owner)];
  });
  if (several) weights->FillRest(plan);
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

void MergeInto(LoadReport* all, const LoadReport& next) {
  AddNew(next.loaded, &all->loaded);
  AddNew(next.at_fillers, &all->at_fillers);
  AddNew(next.not_in_net, &all->not_in_net);
  const auto is_loaded = [&](const std::string& layer) { return Has(all->loaded, layer); };
  std::erase_if(all->at_fillers, is_loaded);
  all->reshaped.insert(all->reshaped.end(), next.reshaped.begin(), next.reshaped.end());
  all->skipped.insert(all->skipped.end(), next.skipped.begin(), next.skipped.end());
  all->renames.insert(all->renames.end(), next.renames.begin(), next.renames.end());
  std::erase_if(all->renames,
                [&](const LoadReport::Rename& rename) { return is_loaded(rename.layer); });
  all->filled.insert(next.filled.begin(), next.filled.end());
  all->learned = next.learned;
}

std::string DescribeLoad(const LoadReport& report, const std::string& file) {
  std::string text = StrCat("weights from ", file, ":\n");
  const auto list = [&](const char* what, const std::vector<std::string>& names) {
    for (const std::string& name : names) text += StrCat("  ", what, "  ", name, "\n");
  };
  const auto list_notes = [&](const char* what, const std::vector<LoadReport::Note>& notes) {
    for (const LoadReport::Note& note : notes) {
      text += StrCat("  ", what, "  ", note.layer, ": ", note.text, "\n");
    }
  };
  list("loaded    ", report.loaded);
  list_notes("reshaped  ", report.reshaped);
  list_notes("skipped   ", report.skipped);
  list("at fillers", report.at_fillers);
  list("not used  ", report.not_in_net);
  return text;
}

std::string LoadWarning(const LoadReport& report, const std::string& files) {
  const auto filled = static_cast<int>(report.filled.size());
  if (2 * filled >= report.learned) return "";
  std::string text = StrCat("only ", filled, " of the ", report.learned,
                            " parameter blobs of the net came from ", files);
  constexpr size_t kMost = 10;
  for (size_t i = 0; i < std::min(report.renames.size(), kMost); ++i) {
    const LoadReport::Rename& rename = report.renames[i];
    text += StrCat("; rename '", rename.layer, "' to '", rename.layer_of_file, "'?",
                   rename.fits ? "" : " (its shapes differ)");
  }
  if (report.renames.size() > kMost) text += "; and more";
  return text;
}

LoadReport LoadFiles(const WeightsFiles& files, const Plan& plan, Weights* weights, LogSink* log) {
  const bool is_single = files.paths.size() == 1;
  LoadReport all;
  for (const std::string& path : files.paths) {
    const LoadReport report =
        weights->Load(plan, ReadCaffemodel(path), path,
                      is_single ? files.missing : MissingLayers::kKeep, files.on_mismatch);
    const bool whole =
        report.at_fillers.empty() && report.not_in_net.empty() && report.skipped.empty();
    if (log != nullptr) {
      log->Write(whole ? Severity::kInfo : Severity::kWarning, DescribeLoad(report, path));
    }
    MergeInto(&all, report);
  }
  weights->FillRest(plan);
  const std::string names = Join(files.paths, ", ");
  if (files.missing == MissingLayers::kError && files.on_mismatch != OnMismatch::kSkip) {
    FailWhereMissing(all, names);
  }
  const std::string warning = files.paths.empty() ? "" : LoadWarning(all, names);
  if (log != nullptr && !warning.empty()) log->Write(Severity::kWarning, warning);
  return all;
}

}  // namespace crema
