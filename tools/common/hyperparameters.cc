#include "common/hyperparameters.h"

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "common/set_flag.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "common/json_rows.h"

namespace crema::tools {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// Shown for every run, with their defaults.
constexpr std::string_view kAlways[] = {"base_lr", "lr_policy", "momentum", "weight_decay"};
// Shown for every run that sets them.
constexpr std::string_view kIfSet[] = {"gamma",     "power",   "stepsize",           "stepvalue",
                                       "iter_size", "weights", "regularization_type"};
// Paths and seeds are not settings; the rows of the results have the rest.
constexpr std::string_view kNever[] = {"snapshot_prefix", "random_seed", "type", "solver_type",
                                       "max_iter"};

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string FloatText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.7g", value);
  return text;
}

std::string ReadIfThere(const std::string& folder, const char* name) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) ? ReadFile(path) : std::string();
}

// Returns the value of a scalar field, or its default; lists are joined by commas.
std::string ValueOf(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    std::string text;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      std::string one;
      google::protobuf::TextFormat::PrintFieldValueToString(message, &field, i, &one);
      text += (text.empty() ? "" : ", ") + one;
    }
    return text;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FloatText(reflection.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return {};
    default: {
      std::string text;
      google::protobuf::TextFormat::PrintFieldValueToString(message, &field, -1, &text);
      return text;
    }
  }
}

bool IsSet(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                             : reflection.HasField(message, &field);
}

void AddSolver(const std::string& text, Hyperparameters* all) {
  if (text.empty()) return;
  SolverParameter solver;
  std::vector<Problem> ignored;
  ParseText(text, "solver.prototxt", &solver, nullptr, &ignored);
  const auto& descriptor = *solver.GetDescriptor();
  for (const std::string_view name : kAlways) {
    all->main.emplace_back(name, ValueOf(solver, *descriptor.FindFieldByName(std::string(name))));
  }
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const std::string& name = field.name();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE || !IsSet(solver, field)) continue;
    if (IsOneOf(name, kAlways) || IsOneOf(name, kNever)) continue;
    (IsOneOf(name, kIfSet) ? all->main : all->others).emplace_back(name, ValueOf(solver, field));
  }
}

bool IsInTraining(const LayerParameter& layer) {
  const auto has_phase = [](const auto& rules, Phase phase) {
    return std::ranges::any_of(
        rules, [&](const NetStateRule& rule) { return rule.has_phase() && rule.phase() == phase; });
  };
  return !has_phase(layer.exclude(), TRAIN) && !has_phase(layer.include(), TEST);
}

// Returns `batch_size` of the data layer of the training net; empty if it has none.
std::string BatchSize(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (!IsInTraining(layer)) continue;
    std::vector<const FieldDescriptor*> fields;
    layer.GetReflection()->ListFields(layer, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      const Message& part = layer.GetReflection()->GetMessage(layer, field);
      const FieldDescriptor* size = part.GetDescriptor()->FindFieldByName("batch_size");
      if (size != nullptr && IsSet(part, *size)) return ValueOf(part, *size);
    }
  }
  return {};
}

void AddNet(const std::string& text, Hyperparameters* all) {
  if (text.empty()) return;
  NetParameter net;
  std::vector<Problem> ignored;
  ParseText(text, "net.prototxt", &net, nullptr, &ignored);
  if (const std::string size = BatchSize(net); !size.empty()) {
    all->main.emplace_back("batch_size", size);
  }
  all->main.emplace_back("precision", Precision_Name(net.precision()));
}

// Adds the settings of --set that are no field of the solver, of all starts; later ones win.
void AddSettings(const std::string& starts, Hyperparameters* all) {
  for (const std::string& line : Split(starts, '\n')) {
    std::vector<FieldSetting> settings;
    try {
      settings = SettingsOf(JsonListOf(line, "command"));
    } catch (const Error&) {
      continue;  // a command line that this version does not understand
    }
    for (const FieldSetting& setting : settings) {
      if (SolverParameter::descriptor()->FindFieldByName(setting.path) != nullptr) continue;
      std::erase_if(all->main, [&](const auto& pair) { return pair.first == setting.path; });
      all->main.emplace_back(setting.path, setting.value);
    }
  }
}

}  // namespace

std::string Hyperparameters::Find(const std::string& name) const {
  for (const Pairs* pairs : {&main, &others}) {
    for (const auto& [own, value] : *pairs) {
      if (own == name) return value;
    }
  }
  return {};
}

Hyperparameters ReadHyperparameters(const std::string& folder) {
  Hyperparameters all;
  AddSolver(ReadIfThere(folder, "solver.prototxt"), &all);
  AddNet(ReadIfThere(folder, "net.prototxt"), &all);
  AddSettings(ReadIfThere(folder, "starts.jsonl"), &all);
  return all;
}

}  // namespace crema::tools
