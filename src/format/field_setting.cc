#include "format/field_setting.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "core/strings.h"
#include "format/foreign_names.h"
#include "format/text_lexer.h"
#include "format/text_parser.h"
#include "format/upgrade.h"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxSteps = 100;
constexpr int kMaxRecordedElements = 1024;
constexpr std::string_view kNetPrefix = "net.";
constexpr std::string_view kForm =
    "is not FIELD=VALUE, such as base_lr=0.1 or layer[conv1].convolution_param.num_output=64";

// One step of a path: "layer[conv1]".
struct Step {
  std::string name;
  std::optional<std::string> element;
};

// A message that a path leads to, and the path as in SourceMap.
struct Target {
  Message* message;
  std::string path;
};

// Returns the end of the "[...]" at `open`. A name may hold a "]" that no ".", "=" or end follows.
size_t EndOfElement(std::string_view text, size_t open) {
  for (size_t at = open + 1; at < text.size(); ++at) {
    if (text[at] != ']') continue;
    const std::string_view rest = Trim(text.substr(at + 1));
    if (rest.empty() || rest[0] == '.' || rest[0] == '=') return at;
  }
  return std::string_view::npos;
}

// Returns the position of the "=" between path and value.
size_t FindEquals(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '=') return at;
    if (text[at] != '[') continue;
    at = EndOfElement(text, at);
    if (at == std::string_view::npos) return at;
  }
  return std::string_view::npos;
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::string FirstName(std::string_view path) {
  return std::string(Trim(path.substr(0, path.find_first_of(".["))));
}

bool IsOfSolver(const FieldSetting& setting) {
  if (setting.path.starts_with(kNetPrefix) || setting.path == kBatchPath) return false;
  const std::string name = FirstName(setting.path);
  return SolverParameter::descriptor()->FindFieldByName(name) != nullptr ||
         NetParameter::descriptor()->FindFieldByName(name) == nullptr;
}

unsigned PhaseBits(std::optional<Phase> only) {
  return only ? 1U << *only : (1U << TRAIN | 1U << TEST);
}

// Returns the phases of a layer as bits, of those in `possible`. Levels and stages do not count.
unsigned PhasesOf(const LayerParameter& layer, unsigned possible) {
  unsigned phases = 0;
  for (const Phase phase : {TRAIN, TEST}) {
    const auto meets = [&](const NetStateRule& rule) {
      return !rule.has_phase() || rule.phase() == phase;
    };
    const auto excludes = [&](const NetStateRule& rule) {
      return meets(rule) && !rule.has_min_level() && !rule.has_max_level() &&
             rule.stage_size() + rule.not_stage_size() == 0;
    };
    const bool included = layer.include_size() == 0 || std::ranges::any_of(layer.include(), meets);
    if (included && std::ranges::none_of(layer.exclude(), excludes)) phases |= 1U << phase;
  }
  return phases & possible;
}

// Returns the fields named batch_size in the parameters that the layer has, with the parameters.
std::vector<std::pair<const FieldDescriptor*, const FieldDescriptor*>> BatchFieldsOf(
    const LayerParameter& layer) {
  std::vector<const FieldDescriptor*> blocks;
  layer.GetReflection()->ListFields(layer, &blocks);
  std::vector<std::pair<const FieldDescriptor*, const FieldDescriptor*>> found;
  for (const FieldDescriptor* block : blocks) {
    if (block->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || block->is_repeated()) continue;
    const FieldDescriptor* batch = block->message_type()->FindFieldByName(kBatchPath);
    if (batch != nullptr) found.emplace_back(block, batch);
  }
  return found;
}

// Sets one field of one file.
class Setter {
 public:
  // `phases` are those that the file's net runs in, as bits.
  Setter(const FieldSetting& setting, SourceMap* source, unsigned phases)
      : setting_(setting), source_(*source), phases_(phases) {}

  // Throws kInvalidArgument; kNotFound if there is no such element, such as a layer.
  void Set(Message* root) {
    const std::vector<Step> steps = Steps();
    std::vector<Target> targets = {{root, ""}};
    for (size_t i = 0; i < steps.size(); ++i) {
      std::vector<Target> next;
      for (const Target& target : targets) {
        const FieldDescriptor& field = FieldOf(*target.message, steps[i], i == 0);
        if (i + 1 == steps.size()) {
          Store(field, steps[i], target);
        } else {
          Descend(field, steps[i], target, &next);
        }
      }
      targets = std::move(next);
    }
  }

  // Sets the batch of the data layers that run in one of `phases`, as bits; as Set.
  void SetBatch(unsigned phases, NetParameter* net) {
    bool found = false;
    for (int i = 0; i < net->layer_size(); ++i) {
      LayerParameter& layer = *net->mutable_layer(i);
      if ((PhasesOf(layer, phases_) & phases) == 0) continue;
      for (const auto& [block, batch] : BatchFieldsOf(layer)) {
        Store(*batch, {.name = kBatchPath, .element = {}},
              {layer.GetReflection()->MutableMessage(&layer, block),
               StrCat("layer[", i, "].", block->name())});
        found = true;
      }
    }
    if (!found) Refuse("no data layer of this net has a batch_size", ErrorCode::kNotFound);
  }

  // Remarks on what was set.
  const std::string& warning() const { return warning_; }

 private:
  [[noreturn]] void Refuse(const std::string& message,
                           ErrorCode code = ErrorCode::kInvalidArgument) const {
    Fail(code, message, {.file = setting_.origin});
  }

  std::vector<Step> Steps() const {
    std::vector<Step> steps;
    std::string_view rest = setting_.path;
    while (true) {
      const size_t end = rest.find_first_of(".[");
      Step step{.name = std::string(Trim(rest.substr(0, end))), .element = {}};
      if (step.name.empty() || steps.size() == kMaxSteps) Refuse(std::string(kForm));
      rest.remove_prefix(std::min(end, rest.size()));
      if (rest.starts_with('[')) {
        const size_t close = EndOfElement(rest, 0);
        if (close == std::string_view::npos) Refuse("a ']' is missing");
        step.element = rest.substr(1, close - 1);
        rest = Trim(rest.substr(close + 1));
      }
      steps.push_back(std::move(step));
      if (rest.empty()) return steps;
      rest.remove_prefix(1);
    }
  }

  const FieldDescriptor& FieldOf(const Message& message, const Step& step, bool is_first) const {
    const Descriptor& type = *message.GetDescriptor();
    const FieldDescriptor* field = type.FindFieldByName(step.name);
    if (field != nullptr) return *field;
    std::string hint = is_first ? HintAtRoot(step.name, type) : BlockHint(step.name, message);
    if (hint.empty()) hint = UnknownFieldHint(step.name, type, {});
    if (hint.empty() && is_first && setting_.path.size() > step.name.size()) {
      hint = StrCat("; a field of a layer is written layer[", step.name, "].BLOCK.FIELD");
    }
    Refuse(StrCat("unknown field '", step.name, "'", hint));
  }

  // Names the block of this message that has such a field.
  static std::string BlockHint(const std::string& name, const Message& message) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* block : fields) {
      if (block->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || block->is_repeated()) continue;
      if (block->message_type()->FindFieldByName(name) == nullptr) continue;
      return StrCat(" (did you mean '", block->name(), ".", name, "'?)");
    }
    return "";
  }

  // Explains a path that begins neither with a field of the solver nor with one of the net.
  static std::string HintAtRoot(const std::string& name, const Descriptor& root) {
    const Descriptor& layer = *LayerParameter::descriptor();
    if (&root == NetParameter::descriptor() &&
        SolverParameter::descriptor()->FindFieldByName(name) != nullptr) {
      return " in a net: it is a field of the solver, which this command does not read";
    }
    for (int i = 0; i < layer.field_count(); ++i) {
      const FieldDescriptor& block = *layer.field(i);
      if (block.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || block.is_repeated()) continue;
      if (block.message_type()->FindFieldByName(name) == nullptr) continue;
      return StrCat(": fields of a layer are written as layer[NAME].", block.name(), ".", name);
    }
    const std::string foreign = ForeignFieldHint(name, root);
    if (!foreign.empty()) return foreign;
    std::vector<std::string> names = FieldNames(root);
    if (&root == SolverParameter::descriptor()) {
      for (std::string& of_net : FieldNames(*NetParameter::descriptor())) {
        names.push_back(std::move(of_net));
      }
    }
    return DidYouMean(name, names);
  }

  void Descend(const FieldDescriptor& field, const Step& step, const Target& target,
               std::vector<Target>* next) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      Refuse(StrCat("'", field.name(), "' has no fields: it takes ", ExpectedValue(field)));
    }
    const Reflection& reflection = *target.message->GetReflection();
    const std::string path = PathOf(field, target);
    if (!field.is_repeated()) {
      CheckIsNoList(field, step);
      next->push_back({reflection.MutableMessage(target.message, &field), path});
      return;
    }
    for (const int index : Choose(field, step, *target.message)) {
      next->push_back({reflection.MutableRepeatedMessage(target.message, &field, index),
                       StrCat(path, "[", index, "]")});
    }
  }

  static std::string PathOf(const FieldDescriptor& field, const Target& target) {
    return StrCat(target.path, target.path.empty() ? "" : ".", field.name());
  }

  void CheckIsNoList(const FieldDescriptor& field, const Step& step) const {
    if (!step.element) return;
    Refuse(StrCat("'", field.name(), "' is not repeated: leave out [", *step.element, "]"));
  }

  // Returns the indices of the elements that a step names.
  std::vector<int> Choose(const FieldDescriptor& field, const Step& step, const Message& message) {
    const int size = message.GetReflection()->FieldSize(message, &field);
    const std::vector<std::string> names = NamesOf(field, message);
    const std::string& name = field.name();
    if (!step.element) {
      Refuse(StrCat("'", name, "' is repeated: choose an element, such as ", name, "[",
                    names.empty() || names[0].empty() ? "0" : names[0], "]"));
    }
    std::vector<int> found = Named(names, *step.element);
    if (found.size() > 1) Warn(name, *step.element, found);
    if (found.empty() && name == "layer") found = NamedInPhase(names, *step.element, message);
    if (!found.empty()) return found;
    int index = 0;
    const char* const end = step.element->data() + step.element->size();
    const auto [stop, error] = std::from_chars(step.element->data(), end, index);
    if (stop == end && error == std::errc() && index >= 0 && index < size) return {index};
    const bool is_number = !step.element->empty() &&
                           step.element->find_first_not_of("0123456789") == std::string::npos;
    if (is_number || names.empty()) {
      Refuse(is_number ? OutOfRange(field, size)
                       : StrCat("'", *step.element, "' is not an index of '", name, "'"),
             ErrorCode::kNotFound);
    }
    RefuseName(name, *step.element, names);
  }

  [[noreturn]] void RefuseName(const std::string& field, const std::string& name,
                               const std::vector<std::string>& names) const {
    std::string hint = DidYouMean(name, names);
    if (hint.empty() && field == "layer") hint = "; summary lists the layers";
    Refuse(StrCat("there is no ", field, " '", name, "'", hint), ErrorCode::kNotFound);
  }

  static std::string OutOfRange(const FieldDescriptor& field, int size) {
    const std::string& name = field.name();
    const bool is_block = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const std::string whole = StrCat(name, is_block ? "={ ... }" : "=[A, B]");
    if (size == 0) return StrCat("'", name, "' has no elements: set all of it, ", whole);
    return StrCat("'", name, "' has ", size, size == 1 ? " element" : " elements", ": the last is ",
                  name, "[", size - 1, "]; ", whole, " sets all of it");
  }

  // Returns the names of the elements of a field; empty unless they are messages with names.
  static std::vector<std::string> NamesOf(const FieldDescriptor& field, const Message& message) {
    std::vector<std::string> names;
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return names;
    const FieldDescriptor* name = field.message_type()->FindFieldByName("name");
    if (name == nullptr || name->is_repeated() ||
        name->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
      return names;
    }
    const Reflection& reflection = *message.GetReflection();
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      const Message& element = reflection.GetRepeatedMessage(message, &field, i);
      names.push_back(element.GetReflection()->GetString(element, name));
    }
    return names;
  }

  static std::vector<int> Named(const std::vector<std::string>& names, std::string_view name) {
    std::vector<int> found;
    for (size_t i = 0; i < names.size() && !name.empty(); ++i) {
      if (names[i] == name) found.push_back(static_cast<int>(i));
    }
    return found;
  }

  // Resolves "data:TRAIN": layers of this name that run in this phase only.
  std::vector<int> NamedInPhase(const std::vector<std::string>& names, const std::string& element,
                                const Message& message) const {
    const size_t colon = element.rfind(':');
    Phase phase = TRAIN;
    if (colon == std::string::npos || !Phase_Parse(element.substr(colon + 1), &phase)) return {};
    const std::string name = element.substr(0, colon);
    const auto* net = dynamic_cast<const NetParameter*>(&message);
    const std::vector<int> all = Named(names, name);
    if (net == nullptr) return {};
    std::vector<int> found;
    for (const int i : all) {
      if (PhasesOf(net->layer(i), phases_) == 1U << phase) found.push_back(i);
    }
    if (found.empty() && all.empty()) {
      RefuseName("layer", name, names);
    }
    if (found.empty()) {
      Refuse(StrCat("no layer '", name, "' runs in phase ", Phase_Name(phase), " only; layer[",
                    name, "] is the one of both phases"),
             ErrorCode::kNotFound);
    }
    return found;
  }

  void Warn(const std::string& field, const std::string& name, const std::vector<int>& found) {
    const bool is_layer = field == "layer";
    warning_ = StrCat("sets all ", found.size(), is_layer ? " layers '" : " elements '", name,
                      "'; to set one of them, write ",
                      is_layer ? StrCat("layer[", name, ":TRAIN], layer[", name, ":TEST] or ") : "",
                      field, "[", found[0], "]");
  }

  // Reads the value into the field or its element.
  void Store(const FieldDescriptor& field, const Step& step, const Target& target) {
    if (!field.is_repeated()) CheckIsNoList(field, step);
    std::vector<int> places;
    if (step.element) places = Choose(field, step, *target.message);
    const std::unique_ptr<Message> value = Read(field, step, *target.message);
    const Reflection& reflection = *target.message->GetReflection();
    const std::string path = PathOf(field, target);
    if (!step.element) {
      reflection.ClearField(target.message, &field);
      target.message->MergeFrom(*value);
      source_.SetOrigin(path, setting_.origin);
      if (!field.is_repeated()) return;
      const int size =
          std::min(reflection.FieldSize(*target.message, &field), kMaxRecordedElements);
      for (int i = 0; i < size; ++i) {
        source_.SetOrigin(StrCat(path, "[", i, "]"), setting_.origin);
      }
    }
    for (const int place : places) {
      const int last = reflection.FieldSize(*target.message, &field);
      target.message->MergeFrom(*value);  // appends
      reflection.SwapElements(target.message, &field, place, last);
      reflection.RemoveLast(target.message, &field);
      source_.SetOrigin(StrCat(path, "[", place, "]"), setting_.origin);
    }
  }

  // Returns a message of the type of `parent` that holds the value and nothing else.
  std::unique_ptr<Message> Read(const FieldDescriptor& field, const Step& step,
                                const Message& parent) const {
    std::unique_ptr<Message> message(parent.New());
    const Reflection& reflection = *message->GetReflection();
    const bool is_string = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const bool is_list = field.is_repeated() && !step.element && setting_.value.starts_with('[');
    if (is_string && !is_list && setting_.value.find_first_of("\"'") != 0) {
      if (field.is_repeated()) reflection.AddString(message.get(), &field, setting_.value);
      if (!field.is_repeated()) reflection.SetString(message.get(), &field, setting_.value);
      return message;
    }
    if (setting_.value.empty()) {
      Refuse(StrCat("a value is missing: '", field.name(), "' takes ", ExpectedValue(field)));
    }
    if (field.name() == kBatchPath && setting_.value == "AUTO") {
      Refuse("AUTO is for train, sweep and check, which know the memory of a run; give a number");
    }
    // Problems on the first line are required fields of `parent`, which it has already.
    std::vector<Problem> problems;
    ParseText(StrCat("\n", field.name(), ": ", setting_.value), setting_.origin, message.get(),
              nullptr, &problems);
    std::erase_if(problems, [](const Problem& problem) { return problem.where.line == 1; });
    for (Problem& problem : problems) problem.where = {.file = setting_.origin};
    if (!problems.empty()) throw Error(std::move(problems));
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(*message, &fields);
    const bool is_one = !step.element || reflection.FieldSize(*message, &field) == 1;
    if (std::ranges::any_of(fields, [&](const auto* other) { return other != &field; }) ||
        !is_one) {
      Refuse("holds more than one value: give --set for each field");
    }
    return message;
  }

  const FieldSetting& setting_;
  SourceMap& source_;
  const unsigned phases_;
  std::string warning_;
};

}  // namespace

FieldSetting ParseFieldSetting(std::string_view text, std::string_view flag) {
  FieldSetting setting;
  setting.origin = StrCat(flag, " ", text);
  const size_t equals = FindEquals(text);
  if (equals == std::string_view::npos || Trim(text.substr(0, equals)).empty()) {
    Fail(ErrorCode::kInvalidArgument, std::string(kForm), {.file = setting.origin});
  }
  setting.path = Trim(text.substr(0, equals));
  setting.value = Trim(text.substr(equals + 1));
  return setting;
}

std::vector<FieldSetting> SettingsOfNets(std::span<const FieldSetting> settings) {
  std::vector<FieldSetting> of_nets;
  std::ranges::copy_if(settings, std::back_inserter(of_nets),
                       [](const FieldSetting& setting) { return !IsOfSolver(setting); });
  return of_nets;
}

void SetSolverFields(std::span<const FieldSetting> settings, SolverFile* file) {
  std::vector<Problem> problems;
  for (const FieldSetting& setting : settings) {
    if (!IsOfSolver(setting)) continue;
    if (FirstName(setting.path) == "solver_type") file->solver.clear_type();  // its new name
    try {
      Setter(setting, &file->source, 0).Set(&file->solver);
    } catch (const Error& error) {
      std::ranges::copy(error.problems(), std::back_inserter(problems));
    }
  }
  if (!problems.empty()) throw Error(std::move(problems));
  UpgradeSolver(&file->solver, &file->source);
}

NetSettings::NetSettings(std::span<const FieldSetting> settings, std::optional<Phase> batch_phase)
    : batch_phase_(batch_phase) {
  for (const FieldSetting& setting : settings) {
    Entry& entry = entries_.emplace_back(Entry{.setting = setting, .problem = {}});
    if (setting.path.starts_with(kNetPrefix)) entry.setting.path.erase(0, kNetPrefix.size());
  }
}

void NetSettings::Apply(std::optional<Phase> only, NetFile* file) {
  const unsigned phases = PhaseBits(only);
  for (Entry& entry : entries_) {
    Setter setter(entry.setting, &file->source, phases);
    try {
      if (entry.setting.path == kBatchPath) {
        setter.SetBatch(PhaseBits(batch_phase_), &file->net);
      } else {
        setter.Set(&file->net);
      }
      entry.is_set = true;
    } catch (const Error& error) {
      const Problem& problem = error.problems().front();
      // A net without the layer does not hide what is wrong in the net that has it.
      if (!entry.problem || problem.code != ErrorCode::kNotFound) entry.problem = problem;
    }
    if (setter.warning().empty()) continue;
    file->warnings.push_back(
        {ErrorCode::kInvalidArgument, {.file = entry.setting.origin}, setter.warning()});
  }
  if (!entries_.empty()) UpgradeNet(&file->net, &file->source, &file->warnings);
}

std::vector<Problem> NetSettings::Problems() const {
  std::vector<Problem> problems;
  for (const Entry& entry : entries_) {
    if (!entry.problem || (entry.is_set && entry.problem->code == ErrorCode::kNotFound)) continue;
    problems.push_back(*entry.problem);
  }
  return problems;
}

bool HasAutoBatch(const NetParameter& net, std::optional<Phase> phase) {
  const unsigned wanted = phase ? 1U << *phase : 1U << TRAIN | 1U << TEST;
  return std::ranges::any_of(net.layer(), [wanted](const LayerParameter& layer) {
    if (PhasesOf(layer, wanted) == 0) return false;
    return std::ranges::any_of(BatchFieldsOf(layer), [&layer](const auto& field) {
      const Message& param = layer.GetReflection()->GetMessage(layer, field.first);
      return field.second->cpp_type() == FieldDescriptor::CPPTYPE_UINT32 &&
             param.GetReflection()->GetUInt32(param, field.second) == kAutoBatch;
    });
  });
}

}  // namespace crema
