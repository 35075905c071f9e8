#include "runtime/weights.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "graph/has_initial_parameters.h"
#include "math/filler.h"

namespace crema {
namespace {

std::string KeyOf(const Plan& plan, const ParameterSlot& slot) {
  return StrCat(plan.layers[static_cast<size_t>(slot.layer)].name(), "\n", slot.index);
}

const LayerParameter& ParamOf(const Plan& plan, const ParameterSlot& slot) {
  return plan.layers[static_cast<size_t>(slot.layer)].layer->param();
}

bool IsGivenInText(const Plan& plan, const ParameterSlot& slot) {
  return slot.index < ParamOf(plan, slot).blobs_size();
}

void TakeFromText(const Plan& plan, const ParameterSlot& slot, const TensorView& to) {
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

void RunFiller(const Plan& plan, const ParameterSlot& slot, uint64_t seed, const TensorView& to) {
  const PlannedLayer& layer = plan.layers[static_cast<size_t>(slot.layer)];
  if (const auto* own = dynamic_cast<const HasInitialParameters*>(layer.layer.get())) {
    return own->SetInitial(static_cast<size_t>(slot.index), to);
  }
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

// Returns suggestions for layers whose parameters have other names in the file.
std::string DescribeRenames(const LoadReport& report) {
  constexpr int kMost = 5;
  std::string text;
  int count = 0;
  for (const LoadReport::Rename& rename : report.renames) {
    if (!rename.fits || ++count > kMost) continue;
    text += StrCat("; rename '", rename.layer, "' to '", rename.layer_of_file, "'?");
  }
  return count > kMost ? text + "; and more" : text;
}

[[noreturn]] void FailWithoutAny(const LoadReport& report, const std::string& files) {
  const auto start = [](const std::vector<std::string>& names) {
    const size_t count = std::min<size_t>(names.size(), 5);
    return StrCat(Join({names.begin(), names.begin() + static_cast<int64_t>(count)}, ", "),
                  names.size() > count ? ", ..." : "");
  };
  Fail(ErrorCode::kInvalidArgument,
       StrCat("has none of the ", report.parameters, " parameter blobs of the net. Layers of the ",
              "file: ", start(report.not_in_net), "; of the net: ", start(report.at_fillers),
              DescribeRenames(report),
              ". Give the weights of this net, or skip mismatches (--on_mismatch=skip) to start ",
              "from the fillers"),
       {.file = files});
}

// One pass over plan and file. Thread safety: one thread.
class WeightsMatcher {
 public:
  // The arguments must outlive it.
  WeightsMatcher(const Plan& plan, const NetParameter& model, const std::string& file,
                 MissingLayers missing, OnMismatch on_mismatch)
      : plan_(plan), file_(file), missing_(missing), on_mismatch_(on_mismatch) {
    for (const LayerParameter& layer : model.layer()) {
      const auto [found, added] = by_name_.emplace(layer.name(), &layer);
      if (!added && layer.blobs_size() > 0) found->second = &layer;
      if (layer.blobs_size() > 0) unused_.insert(layer.name());
    }
  }

  // Throws with all problems; see Weights::Load. Call once.
  LoadReport Match() {
    for (const PlannedLayer& layer : plan_.layers) {
      if (!layer.parameters.empty()) unused_.erase(layer.name());
    }
    std::set<std::string> taken;  // already suggested
    for (const PlannedLayer& layer : plan_.layers) {
      if (layer.parameters.empty()) continue;
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
    for (size_t s = 0; s < plan_.parameters.size(); ++s) {
      report_.parameters += plan_.parameters[s].owner == static_cast<int>(s) ? 1 : 0;
    }
    if (!problems_.empty()) throw Error(std::move(problems_));
    return std::move(report_);
  }

  // Returns parameter slots and the blobs to copy into them.
  const std::vector<std::pair<int, const BlobProto*>>& matches() const { return matches_; }

 private:
  // Match of one layer of the file with one of the net.
  struct LayerMatch {
    std::vector<std::pair<int, const BlobProto*>> blobs;
    std::vector<std::string> mismatches;
    std::vector<std::string> reshaped;
  };

  void MatchLayer(const PlannedLayer& layer, const LayerParameter& source) {
    LayerMatch match;
    try {
      match = MatchBlobs(layer, BlobsOf(layer, source));
    } catch (const Error& error) {  // of adapt_blobs, or a damaged shape
      const Problem& problem = error.problems().front();
      return Report(layer, problem.message, problem.code);
    }
    if (match.mismatches.empty()) {
      report_.loaded.push_back(layer.name());
      for (const std::string& text : match.reshaped)
        report_.reshaped.push_back({layer.name(), text});
      for (const auto& [slot, blob] : match.blobs) {
        report_.filled.insert(plan_.parameters[static_cast<size_t>(slot)].owner);
      }
      matches_.insert(matches_.end(), match.blobs.begin(), match.blobs.end());
    } else if (on_mismatch_ == OnMismatch::kSkip) {
      report_.skipped.push_back({layer.name(), Join(match.mismatches, "; ")});
    } else {
      for (const std::string& text : match.mismatches) {
        Report(
            layer,
            text +
                "; give the layer another name or --on_mismatch=skip to train it from scratch, or "
                "make the net as it was when the file was written");
      }
    }
  }

  LayerMatch MatchBlobs(const PlannedLayer& layer, std::span<const BlobProto* const> blobs) const {
    LayerMatch match;
    if (!HasRightCount(layer, blobs.size())) {
      match.mismatches.push_back(StrCat("the file has ", blobs.size(),
                                        " blobs for this layer, the net has ",
                                        layer.parameters.size(), " (", Roles(layer), ")"));
      return match;
    }
    for (size_t i = 0; i < blobs.size(); ++i) {
      MatchBlob(layer.parameters[i], static_cast<int>(i), *blobs[i], &match);
    }
    return match;
  }

  void MatchBlob(int slot_index, int blob_index, const BlobProto& blob, LayerMatch* match) const {
    const ParameterSlot& slot = plan_.parameters[static_cast<size_t>(slot_index)];
    const int64_t count = DataCount(blob);
    // HDF5 files store a shared parameter once, with its owner.
    if (slot.owner != slot_index && count == 0) return;
    const Shape stored = ShapeOf(blob);
    if (count != stored.count()) {
      Fail(ErrorCode::kDataLoss, StrCat("blob ", blob_index, " (", slot.role, ") holds ", count,
                                        " values, but needs ", stored.count()));
    }
    const std::string shapes =
        StrCat("blob ", blob_index, " (", slot.role, ") is ", ToString(stored),
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

  // Returns the parameters of the file in the current layout.
  std::vector<const BlobProto*> BlobsOf(const PlannedLayer& layer, const LayerParameter& source) {
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

  // Returns true if the layer's own parameters are there; those that others own may be missing at
  // the end.
  bool HasRightCount(const PlannedLayer& layer, size_t count) const {
    if (count > layer.parameters.size()) return false;
    return std::all_of(
        layer.parameters.begin() + static_cast<std::ptrdiff_t>(count), layer.parameters.end(),
        [&](int slot) { return plan_.parameters[static_cast<size_t>(slot)].owner != slot; });
  }

  std::string Roles(const PlannedLayer& layer) const {
    std::vector<std::string> roles;
    for (int s : layer.parameters) roles.push_back(plan_.parameters[static_cast<size_t>(s)].role);
    return Join(roles, ", ");
  }

  // Suggests an unused layer of the file: the most similar name with the same shapes, else the
  // first with the same shapes, else a similar name.
  void SuggestRename(const PlannedLayer& layer, std::set<std::string>* taken) {
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

  bool Fits(const PlannedLayer& layer, const LayerParameter& source) const {
    if (static_cast<size_t>(source.blobs_size()) != layer.parameters.size()) return false;
    for (int i = 0; i < source.blobs_size(); ++i) {
      const int slot = layer.parameters[static_cast<size_t>(i)];
      if (!ShapeMatches(source.blobs(i), plan_.parameters[static_cast<size_t>(slot)].shape)) {
        return false;
      }
    }
    return true;
  }

  void ReportMissing(const PlannedLayer& layer) {
    std::string hint;
    const bool has_rename =
        !report_.renames.empty() && report_.renames.back().layer == layer.name();
    if (has_rename && report_.renames.back().fits) {
      const std::string& name = report_.renames.back().layer_of_file;
      hint = DidYouMean(layer.name(), std::span(&name, 1));
      if (hint.empty()) hint = StrCat("; rename it to '", name, "'?");
    }
    Report(layer, "the file has no blobs for this layer" + hint);
  }

  void Report(const PlannedLayer& layer, std::string message,
              ErrorCode code = ErrorCode::kInvalidArgument) {
    problems_.push_back({code, {.file = file_, .layer = layer.name()}, std::move(message)});
  }

  const Plan& plan_;
  const std::string& file_;
  MissingLayers missing_;
  OnMismatch on_mismatch_;
  std::map<std::string, const LayerParameter*> by_name_;
  std::set<std::string> unused_;
  std::deque<std::vector<BlobProto>> adapted_;
  std::vector<Problem> problems_;
  std::vector<std::pair<int, const BlobProto*>> matches_;
  LoadReport report_;
};

bool IsZero(const ConstTensorView& view) {
  return DispatchFloat(view.dtype(), [&]<typename T>(T) {
    return std::ranges::all_of(view.span<T>(), [](T value) { return value == T(0); });
  });
}

}  // namespace

std::shared_ptr<Weights> Weights::MakeToLoad(const Plan& plan, uint64_t seed,
                                             Allocator& allocator) {
  auto weights = std::make_shared<Weights>();
  weights->seed_ = seed;
  weights->to_fill_.resize(plan.parameters.size());
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
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
    if (to_fill_[s]) RunFiller(plan, plan.parameters[s], seed_, blob(s));
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
  const bool several = std::ranges::any_of(plan.parameters, [&](const ParameterSlot& slot) {
    return &slot != &plan.parameters[static_cast<size_t>(slot.owner)];
  });
  if (several) weights->FillRest(plan);
  std::vector<Problem> problems;
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    const auto found = other.by_key_.find(KeyOf(plan, slot));
    if (found == other.by_key_.end()) continue;
    // A parameter that is shared PERMISSIVEly may have another shape here.
    const bool fits = slot.owner == static_cast<int>(s)
                          ? found->second->shape() == slot.shape
                          : found->second->shape().count() == slot.shape.count();
    if (!fits) {
      problems.push_back(
          {ErrorCode::kInvalidArgument,
           {.layer = plan.layers[static_cast<size_t>(slot.layer)].name()},
           StrCat(slot.role, " is ", ToString(slot.shape), " in phase ",
                  Phase_Name(plan.state.phase()), " but ", ToString(found->second->shape()),
                  " in the net that is trained; the data of both phases must have one size")});
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
    to_fill_[static_cast<size_t>(plan.parameters[static_cast<size_t>(slot)].owner)] = false;
  }
  return report;
}

NetParameter Weights::Export(const Plan& plan) const {
  NetParameter net = plan.written;
  std::map<std::string, LayerParameter*> by_name;
  for (LayerParameter& layer : *net.mutable_layer()) by_name.emplace(layer.name(), &layer);
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.parameters.empty()) continue;
    LayerParameter* target = by_name.at(layer.name());
    for (int s : layer.parameters) {
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
  all->parameters = next.parameters;
}

std::string DescribeLoad(const LoadReport& report, const std::string& file) {
  std::vector<std::string> counts;
  const auto count = [&](const char* what, const std::vector<std::string>& names) {
    constexpr size_t kMost = 5;
    if (names.empty()) return;
    const std::span<const std::string> first(names.data(), std::min(kMost, names.size()));
    const std::string rest =
        names.size() > kMost ? StrCat(" and ", names.size() - kMost, " more") : "";
    counts.push_back(StrCat(what, " ", names.size(), names.size() == 1 ? " layer" : " layers", " (",
                            Join(first, ", "), rest, ")"));
  };
  count("loaded", report.loaded);
  count("left at fillers", report.at_fillers);
  count("did not use", report.not_in_net);
  std::string text = StrCat("weights from ", file, counts.empty() ? "" : ": ", Join(counts, "; "));
  const auto list_notes = [&](const char* what, const std::vector<LoadReport::Note>& notes) {
    for (const LoadReport::Note& note : notes) {
      text += StrCat("\n  ", what, "  ", note.layer, ": ", note.text);
    }
  };
  list_notes("reshaped", report.reshaped);
  list_notes("skipped", report.skipped);
  return text;
}

std::string LoadWarning(const LoadReport& report, const std::string& files) {
  const auto filled = static_cast<int>(report.filled.size());
  if (2 * filled >= report.parameters) return "";
  return StrCat("only ", filled, " of the ", report.parameters,
                " parameter blobs of the net came from ", files, DescribeRenames(report));
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
      LoadReport left_out = report;
      LoadReport used;
      used.loaded = std::exchange(left_out.loaded, {});
      used.reshaped = std::exchange(left_out.reshaped, {});
      if (!used.loaded.empty()) log->Write(Severity::kInfo, DescribeLoad(used, path));
      if (!whole) log->Write(Severity::kWarning, DescribeLoad(left_out, path));
    }
    MergeInto(&all, report);
  }
  weights->FillRest(plan);
  const std::string names = Join(files.paths, ", ");
  if (files.missing == MissingLayers::kError && files.on_mismatch != OnMismatch::kSkip) {
    FailWhereMissing(all, names);
  }
  if (!files.paths.empty() && all.filled.empty() && all.parameters > 0 && !files.may_load_nothing &&
      files.on_mismatch != OnMismatch::kSkip) {
    FailWithoutAny(all, names);
  }
  const std::string warning = files.paths.empty() ? "" : LoadWarning(all, names);
  if (log != nullptr && !warning.empty()) log->Write(Severity::kWarning, warning);
  return all;
}

std::string ZeroWeightsWarning(const Plan& plan, const Weights& weights) {
  std::vector<std::string> layers;
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    if (slot.role != "weight" || !slot.wants_gradient || slot.owner != static_cast<int>(s)) {
      continue;
    }
    const ConstTensorView view = weights.blob(s);
    if (IsZero(view) && view.count() > 0) layers.push_back(KeyOf(plan, slot));
  }
  if (layers.size() < 2) return "";
  for (std::string& name : layers) name = name.substr(0, name.find('\n'));
  return StrCat("the weights of these layers are all 0, so none of them can learn: ",
                Join(layers, ", "), "; give each a weight_filler { type: \"xavier\" }, or weights");
}

std::string EmptyStatisticsWarning(const Plan& plan, const Weights& weights) {
  std::vector<std::string> layers;
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const ParameterSlot& slot = plan.parameters[s];
    const LayerParameter& layer = plan.layers[static_cast<size_t>(slot.layer)].layer->param();
    if (!slot.statistic || slot.index != 0 || !layer.batch_norm_param().use_global_stats())
      continue;
    if (IsZero(weights.blob(s))) layers.push_back(layer.name());
  }
  if (layers.empty()) return "";
  return StrCat("use_global_stats: true, but the stored statistics of these layers are all 0: ",
                Join(layers, ", "), "; give --weights that have them, or remove use_global_stats");
}

}  // namespace crema
