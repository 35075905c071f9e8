#include "runtime/state_match.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "runtime/state_guess.h"
#include "runtime/state_modules.h"
#include "runtime/torch_graph.h"

namespace crema {
namespace {

std::vector<int64_t> WithoutOnes(const Shape& shape) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  std::erase(dims, 1);
  return dims;
}

// Axes of size 1 do not count, and a matrix fits a convolution over the whole of its input.
bool ShapesFit(const Shape& a, const Shape& b) {
  if (a.count() != b.count()) return false;
  if (WithoutOnes(a) == WithoutOnes(b)) return true;
  const bool matrix = a.axes() == 2 || b.axes() == 2;
  return matrix && a.axes() >= 2 && b.axes() >= 2 && a[0] == b[0];
}

// Names of layers and of modules differ in separators.
std::string Plain(std::string name) {
  for (char& c : name) c = c == '.' || c == '/' || c == '-' ? '_' : c;
  return name;
}

class Matcher {
 public:
  Matcher(const Plan& plan, const StateDict& file, const std::string& map_file, bool keep_constants)
      : plan_(plan),
        keep_constants_(keep_constants),
        entries_(file.entries()),
        file_(file.path()),
        map_file_(map_file),
        grouped_(GroupEntries(entries_)),
        entry_used_(entries_.size()),
        by_slot_(plan.parameters.size()) {
    result_.modules = TorchModulesOf(plan);
    graph_ = TorchGraph(plan, result_.modules);
  }

  StateMatches Match(const std::vector<StateMapLine>& map) {
    for (const StateMapLine& line : map) ApplyLine(line);
    CompleteMapped();
    MatchNames();
    MatchGuesses();
    Finish();
    result_.names = std::move(grouped_.names);
    result_.prefix = std::move(grouped_.prefix);
    return std::move(result_);
  }

 private:
  using Modules = std::vector<size_t>;

  // --- The map ---

  void Wrong(const StateMapLine& line, const std::string& text) {
    result_.problems.push_back(
        {ErrorCode::kInvalidArgument, {.file = map_file_, .line = line.line, .column = 1}, text});
  }

  void ApplyLine(const StateMapLine& line) {
    const int entry = EntryOf(line);
    if (entry < kOnesEntry) return;
    if (line.layer.empty()) {
      if (entry >= 0) entry_used_[static_cast<size_t>(entry)] = true;
      if (entry >= 0) result_.unused.push_back(entry);
      return;
    }
    size_t module = 0;
    const TorchParameter* parameter = ParameterOf(line, &module);
    if (parameter == nullptr) return;
    std::vector<StateMatch>& there = by_slot_[static_cast<size_t>(parameter->slot)];
    const size_t most = parameter->added.empty() || entry < 0 ? 1 : 2;
    if (there.size() >= most) {
      return Wrong(line, StrCat("'", parameter->role, "' of layer '", line.layer,
                                "' has an entry already; remove one of the lines"));
    }
    if (entry >= 0 && !CheckMapped(line, entry, *parameter)) return;
    there.push_back({entry, parameter->slot, parameter, "map"});
    if (entry >= 0) mapped_[ModuleOf(entry)].insert(module);
  }

  bool CheckMapped(const StateMapLine& line, int entry, const TorchParameter& parameter) {
    const StateEntry& e = entries_[static_cast<size_t>(entry)];
    if (!ShapesFit(e.shape, parameter.shape)) {
      Wrong(line,
            StrCat("'", line.entry, "' is ", ToString(e.shape), " in the file, but '",
                   parameter.role, "' of layer '", line.layer, "' is ", ToString(parameter.shape)));
      return false;
    }
    if (entry_used_[static_cast<size_t>(entry)]) {
      Wrong(line, StrCat("'", line.entry, "' is in an earlier line"));
      return false;
    }
    entry_used_[static_cast<size_t>(entry)] = true;
    return true;
  }

  // Returns a number below those of entries if there is none.
  int EntryOf(const StateMapLine& line) {
    if (line.entry == "zeros") return kZerosEntry;
    if (line.entry == "ones") return kOnesEntry;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (grouped_.names[i] == line.entry || entries_[i].name == line.entry) {
        return static_cast<int>(i);
      }
    }
    Wrong(line, StrCat("the file has no entry '", line.entry, "'",
                       DidYouMean(line.entry, grouped_.names)));
    return kOnesEntry - 1;
  }

  const TorchParameter* ParameterOf(const StateMapLine& line, size_t* module) {
    std::vector<std::string> layers;
    std::vector<std::string> roles;
    for (size_t m = 0; m < result_.modules.size(); ++m) {
      for (const TorchParameter& parameter : result_.modules[m].parameters) {
        const ParameterSlot& slot = plan_.parameters[static_cast<size_t>(parameter.slot)];
        const std::string& layer = plan_.layers[static_cast<size_t>(slot.layer)].name();
        layers.push_back(layer);
        if (layer != line.layer) continue;
        *module = m;
        if (parameter.role == line.parameter || std::to_string(slot.index) == line.parameter) {
          return &parameter;
        }
        roles.push_back(parameter.role);
      }
    }
    if (roles.empty()) {
      Wrong(line, StrCat("the net has no layer '", line.layer, "' with parameters of its own",
                         DidYouMean(line.layer, layers)));
    } else {
      Wrong(line, StrCat("layer '", line.layer, "' has no parameter '", line.parameter,
                         "'; it has ", Join(roles, ", ")));
    }
    return nullptr;
  }

  size_t ModuleOf(int entry) const {
    for (size_t m = 0; m < grouped_.modules.size(); ++m) {
      for (const auto& [last, index] : grouped_.modules[m].entries) {
        if (index == entry) return m;
      }
    }
    return grouped_.modules.size();  // a whole number
  }

  // The other entries of a module go where the map has sent one of them.
  void CompleteMapped() {
    for (const auto& [module, targets] : mapped_) {
      if (module == grouped_.modules.size() || targets.size() != 1) continue;
      if (Fits(module, *targets.begin())) Assign(module, *targets.begin(), "map");
    }
  }

  // --- Fitting ---

  int FreeEntry(size_t module, const std::string& last) const {
    const auto found = grouped_.modules[module].entries.find(last);
    if (found == grouped_.modules[module].entries.end()) return -1;
    return entry_used_[static_cast<size_t>(found->second)] ? -1 : found->second;
  }
  size_t FreeEntries(size_t module) const {
    return static_cast<size_t>(std::ranges::count_if(
        grouped_.modules[module].entries,
        [&](const auto& entry) { return !entry_used_[static_cast<size_t>(entry.second)]; }));
  }
  bool IsFilled(const TorchParameter& parameter) const {
    return !by_slot_[static_cast<size_t>(parameter.slot)].empty();
  }
  // A parameter that no entry is needed for does not count.
  bool IsOpen(size_t target) const {
    const TorchModule& t = result_.modules[target];
    return t.refusal.empty() && std::ranges::any_of(t.parameters, [&](const TorchParameter& p) {
             return p.order != TorchOrder::kFactor && !IsFilled(p);
           });
  }

  // Returns true if the free entries of the module give all that the target still needs, and it
  // uses all of them.
  bool Fits(size_t module, size_t target) const {
    size_t used = 0;
    for (const TorchParameter& p : result_.modules[target].parameters) {
      if (IsFilled(p) || p.order == TorchOrder::kFactor) continue;
      const int entry = EntryFor(module, p);
      if (entry < 0 && !p.without) return false;
      for (const int e : {entry, p.added.empty() ? -1 : FreeEntry(module, p.added)}) {
        if (e < 0) continue;
        if (!ShapesFit(entries_[static_cast<size_t>(e)].shape, p.shape)) return false;
        ++used;
      }
    }
    return used > 0 && used == FreeEntries(module);
  }

  // Position embeddings, Parameter layers and lone scales are "name" or "name.weight".
  int EntryFor(size_t module, const TorchParameter& parameter) const {
    const int entry = FreeEntry(module, parameter.entry);
    if (entry >= 0 || (parameter.entry != "weight" && !parameter.entry.empty())) return entry;
    return FreeEntry(module, parameter.entry.empty() ? "weight" : "");
  }

  void Assign(size_t module, size_t target, const std::string& how) {
    for (const TorchParameter& p : result_.modules[target].parameters) {
      std::vector<StateMatch>& there = by_slot_[static_cast<size_t>(p.slot)];
      if (!there.empty() || p.order == TorchOrder::kFactor) continue;
      const int entry = EntryFor(module, p);
      const int added = p.added.empty() ? -1 : FreeEntry(module, p.added);
      if (entry < 0) {
        there.push_back(
            {*p.without == 0 ? kZerosEntry : kOnesEntry, p.slot, &p, "not in the file"});
      }
      for (const int e : {entry, added}) {
        if (e < 0) continue;
        there.push_back({e, p.slot, &p, how});
        entry_used_[static_cast<size_t>(e)] = true;
      }
    }
  }

  Modules TargetsOf(size_t module) const {
    Modules targets;
    for (size_t t = 0; t < result_.modules.size(); ++t) {
      if (IsOpen(t) && Fits(module, t)) targets.push_back(t);
    }
    return targets;
  }
  Modules ModulesFor(size_t target) const {
    Modules modules;
    for (size_t m = 0; m < grouped_.modules.size(); ++m) {
      if (FreeEntries(m) > 0 && Fits(m, target)) modules.push_back(m);
    }
    return modules;
  }

  // --- Guesses ---

  void MatchNames() {
    std::map<std::string, Modules> by_name;
    for (size_t m = 0; m < grouped_.modules.size(); ++m) {
      std::string name = grouped_.modules[m].name;
      by_name[Plain(name)].push_back(m);
      if (name.ends_with(".l0")) by_name[Plain(name.substr(0, name.size() - 3))].push_back(m);
    }
    for (size_t t = 0; t < result_.modules.size(); ++t) {
      for (const int layer : result_.modules[t].layers) {
        const auto found = by_name.find(Plain(plan_.layers[static_cast<size_t>(layer)].name()));
        if (found == by_name.end() || found->second.size() != 1 || !IsOpen(t)) continue;
        if (FreeEntries(found->second[0]) > 0 && Fits(found->second[0], t)) {
          Assign(found->second[0], t, "name");
        }
      }
    }
  }

  // Returns the name of a module that has entries in the target; empty: there is none.
  std::string ModuleIn(size_t target) const {
    for (const TorchParameter& p : result_.modules[target].parameters) {
      for (const StateMatch& match : by_slot_[static_cast<size_t>(p.slot)]) {
        const size_t module = match.entry < 0 ? grouped_.modules.size() : ModuleOf(match.entry);
        if (module < grouped_.modules.size()) return grouped_.modules[module].name;
      }
    }
    return "";
  }

  void MatchGuesses() {
    GuessInput input;
    input.by_name = grouped_.sorted;
    for (size_t m = 0; m < grouped_.modules.size(); ++m) {
      input.names.push_back(grouped_.modules[m].name);
      input.targets.push_back(FreeEntries(m) > 0 ? TargetsOf(m) : Modules());
    }
    for (size_t t = 0; t < result_.modules.size(); ++t) {
      input.before.push_back(graph_.before(t));
      input.done.push_back(!IsOpen(t));
      input.taken.push_back(ModuleIn(t));
    }
    for (const Guess& guess : GuessModules(input)) Assign(guess.module, guess.target, guess.how);
  }

  // --- The result ---

  void Finish() {
    const Modules left = LeftModules();
    for (size_t t = 0; t < result_.modules.size(); ++t) {
      SetFactor(t);
      ReportEmpty(t);
    }
    for (const size_t module : left) ReportLeft(module);
    ReportQuantized();
    ReportLostStatistics();
    const std::set<int> unmatched(result_.unmatched.begin(), result_.unmatched.end());
    for (size_t i = 0; i < entries_.size(); ++i) {
      const bool counter = grouped_.names[i].ends_with("num_batches_tracked");
      if (!entry_used_[i] && !counter && !unmatched.contains(static_cast<int>(i))) {
        result_.unused.push_back(static_cast<int>(i));
      }
    }
    for (std::vector<StateMatch>& matches : by_slot_) {
      std::ranges::move(matches, std::back_inserter(result_.matches));
    }
  }

  // With averages, the sums of BatchNorm are of one batch.
  void SetFactor(size_t target) {
    const std::vector<TorchParameter>& parameters = result_.modules[target].parameters;
    const bool has_statistics = std::ranges::any_of(parameters, [&](const TorchParameter& p) {
      return p.entry == "running_mean" && IsFilled(p);
    });
    for (const TorchParameter& p : parameters) {
      std::vector<StateMatch>& there = by_slot_[static_cast<size_t>(p.slot)];
      if (p.order != TorchOrder::kFactor || !there.empty() || !has_statistics) continue;
      there.push_back({kOnesEntry, p.slot, &p, "averages"});
    }
  }

  void ReportEmpty(size_t target) {
    const TorchModule& t = result_.modules[target];
    for (const TorchParameter& p : t.parameters) {
      if (IsFilled(p)) continue;
      const ParameterSlot& slot = plan_.parameters[static_cast<size_t>(p.slot)];
      const PlannedLayer& layer = plan_.layers[static_cast<size_t>(slot.layer)];
      if (keep_constants_ && layer.layer->param().type() == "Parameter") {
        by_slot_[static_cast<size_t>(p.slot)].push_back({kKeptEntry, p.slot, &p, "constant"});
        continue;
      }
      result_.empty_slots.push_back(p.slot);
      if (p.order == TorchOrder::kFactor) continue;
      result_.problems.push_back(
          {ErrorCode::kInvalidArgument,
           {.layer = layer.name()},
           StrCat("no entry for '", p.role, "', which is ", ToString(p.shape),
                  t.refusal.empty() ? EntriesThatFit(target, p) : ": " + t.refusal)});
    }
  }

  std::string EntriesThatFit(size_t target, const TorchParameter& p) const {
    std::vector<std::string> names;
    for (const size_t module : ModulesFor(target)) {
      const int entry = EntryFor(module, p);
      if (entry >= 0) names.push_back(grouped_.names[static_cast<size_t>(entry)]);
    }
    if (!names.empty()) return StrCat("; ", FirstOf(names), " would fit");
    const int other = EntryOfItsName(target, p);
    if (other < 0) return "";
    return StrCat("; '", grouped_.names[static_cast<size_t>(other)], "' is ",
                  ToString(entries_[static_cast<size_t>(other)].shape));
  }

  // Returns the free entry that a module with the name of a layer of the target has for the
  // parameter, of any shape; -1: there is none.
  int EntryOfItsName(size_t target, const TorchParameter& p) const {
    for (const int layer : result_.modules[target].layers) {
      const std::string name = Plain(plan_.layers[static_cast<size_t>(layer)].name());
      for (size_t m = 0; m < grouped_.modules.size(); ++m) {
        if (Plain(grouped_.modules[m].name) != name) continue;
        if (const int entry = EntryFor(m, p); entry >= 0) return entry;
      }
    }
    return -1;
  }

  static std::string FirstOf(std::vector<std::string> names) {
    constexpr size_t kMost = 4;
    const size_t more = names.size() > kMost ? names.size() - kMost : 0;
    names.resize(names.size() - more);
    return StrCat(Join(names, ", "), more > 0 ? StrCat(" and ", more, " more") : "");
  }

  // Modules without a place that have the shapes of some layer: the guesses may be wrong.
  Modules LeftModules() {
    Modules left;
    for (size_t m = 0; m < grouped_.modules.size(); ++m) {
      if (FreeEntries(m) > 0 && !LayersLike(m).empty()) left.push_back(m);
    }
    return left;
  }

  // Names of layers that the module fits, filled or not.
  std::vector<std::string> LayersLike(size_t module) const {
    const StateModule& m = grouped_.modules[module];
    std::vector<std::string> names;
    for (const TorchModule& t : result_.modules) {
      size_t used = 0;
      const bool fits = std::ranges::all_of(t.parameters, [&](const TorchParameter& p) {
        if (p.order == TorchOrder::kFactor) return true;
        const auto found = m.entries.find(p.entry);
        if (found == m.entries.end()) return p.without.has_value();
        used += p.added.empty() || !m.entries.contains(p.added) ? 1 : 2;
        return ShapesFit(entries_[static_cast<size_t>(found->second)].shape, p.shape);
      });
      if (fits && used == m.entries.size() && t.refusal.empty()) names.push_back(NameOf(t, plan_));
    }
    return names;
  }

  void ReportLeft(size_t module) {
    for (const auto& [last, entry] : grouped_.modules[module].entries) {
      const auto e = static_cast<size_t>(entry);
      if (entry_used_[e]) continue;
      result_.unmatched.push_back(entry);
      result_.problems.push_back(
          {ErrorCode::kInvalidArgument,
           {.file = file_},
           StrCat("entry '", grouped_.names[e], "', which is ", ToString(entries_[e].shape),
                  ", has no place; it fits ", FirstOf(LayersLike(module)))});
    }
  }

  // Bytes with the name of a parameter are mostly those of a quantized model, whose scales are in
  // other entries. A line of the map takes them as they are.
  void ReportQuantized() {
    for (const std::vector<StateMatch>& matches : by_slot_) {
      for (const StateMatch& match : matches) {
        if (match.entry < 0 || match.how == "map") continue;
        const auto e = static_cast<size_t>(match.entry);
        if (entries_[e].type != ElementType::kI8 && entries_[e].type != ElementType::kU8) continue;
        result_.problems.push_back(
            {ErrorCode::kInvalidArgument,
             {.file = file_},
             StrCat("entry '", grouped_.names[e], "' has elements of type ",
                    ToString(entries_[e].type),
                    ", as quantized weights have; store it as float32, or name it in the map if "
                    "its numbers are the values")});
      }
    }
  }

  // A BatchNorm whose statistics are not used, beside modules that are: the net lacks its layer, or
  // has it folded into the weights of another one.
  void ReportLostStatistics() {
    for (size_t m = 0; m < grouped_.modules.size(); ++m) {
      const StateModule& module = grouped_.modules[m];
      const std::set<int> reported(result_.unmatched.begin(), result_.unmatched.end());
      for (const auto& [last, entry] : module.entries) {
        const auto e = static_cast<size_t>(entry);
        if (!last.starts_with("running_") || entry_used_[e] || reported.contains(entry)) continue;
        if (!HasUsedSibling(m)) continue;
        result_.problems.push_back(
            {ErrorCode::kInvalidArgument,
             {.file = file_},
             StrCat("entry '", grouped_.names[e],
                    "' is not used: the net has no BatchNorm for it, so it would compute something "
                    "else. Fill a net that has the layer (an ONNX model may have it folded into "
                    "the convolution), or leave it out with the line '",
                    grouped_.names[e], " = -' of a map")});
      }
    }
  }

  // Returns true if a module of the same parent, or below it, has a place.
  bool HasUsedSibling(size_t module) const {
    const std::string& name = grouped_.modules[module].name;
    const std::string parent = name.substr(0, name.rfind('.') + 1);  // empty, or with the dot
    return std::ranges::any_of(by_slot_, [&](const std::vector<StateMatch>& matches) {
      return std::ranges::any_of(matches, [&](const StateMatch& match) {
        return match.entry >= 0 &&
               grouped_.names[static_cast<size_t>(match.entry)].starts_with(parent);
      });
    });
  }

  const Plan& plan_;
  const bool keep_constants_;
  const std::vector<StateEntry>& entries_;
  const std::string file_;
  const std::string map_file_;
  StateModules grouped_;
  std::vector<bool> entry_used_;
  std::vector<std::vector<StateMatch>> by_slot_;
  std::map<size_t, std::set<size_t>> mapped_;  // targets by module
  TorchGraph graph_;
  StateMatches result_;
};

}  // namespace

StateMatches MatchState(const Plan& plan, const StateDict& file,
                        const std::vector<StateMapLine>& map, const std::string& map_file,
                        bool keep_constants) {
  return Matcher(plan, file, map_file, keep_constants).Match(map);
}

void FillFromState(const Plan& plan, StateDict* file, const StateMatches& matches,
                   Weights* weights) {
  if (!matches.problems.empty()) throw Error(matches.problems);
  std::set<int> filled;
  for (const StateMatch& match : matches.matches) {
    const TensorView slot = weights->blob(static_cast<size_t>(match.slot));
    if (match.entry == kKeptEntry) {
      filled.insert(match.slot);
      continue;
    }
    if (match.entry < 0) {
      std::ranges::fill(slot.span<float>(), match.entry == kOnesEntry ? 1.0F : 0.0F);
    } else {
      const Tensor value = file->Read(static_cast<size_t>(match.entry));
      CopyFromTorch(*match.parameter, value.view(), filled.contains(match.slot), slot);
    }
    filled.insert(match.slot);
  }
  for (const ParameterSlot& slot : plan.parameters) {
    CREMA_CHECK(filled.contains(slot.owner));
  }
}

}  // namespace crema
