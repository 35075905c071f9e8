#include "common/set_flag.h"

#include <gflags/gflags.h>

#include <string_view>

#include "core/strings.h"

// gflags keeps the last value only; SettingsOfFlags reads the command line.
DEFINE_string(
    set, "",
    "[Run FIELD=VALUE repeated] FIELD=VALUE: a field of the solver or the net, instead of the "
    "value in the file; may "
    "be given several times. Examples: base_lr=0.1, "
    "layer[conv1].convolution_param.num_output=64 (docs/training.md)");

namespace crema::tools {

std::vector<std::string> ValuesOfFlag(const std::vector<std::string>& command,
                                      std::string_view name) {
  std::vector<std::string> values;
  const std::string with_value = StrCat(name, "=");
  for (size_t i = 1; i < command.size() && command[i] != "--"; ++i) {
    std::string_view word = command[i];
    if (!word.starts_with('-')) continue;
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    if (word.starts_with(with_value)) {
      values.emplace_back(word.substr(with_value.size()));
    } else if (word == name && i + 1 < command.size()) {
      values.push_back(command[++i]);
    }
  }
  return values;
}

std::vector<std::string> ValuesOfFlag(std::string_view name) {
  return ValuesOfFlag(google::GetArgvs(), name);
}

std::vector<FieldSetting> SettingsOf(const std::vector<std::string>& command) {
  std::vector<FieldSetting> settings;
  for (const std::string& value : ValuesOfFlag(command, "set")) {
    settings.push_back(ParseFieldSetting(value, "--set"));
  }
  return settings;
}

std::vector<FieldSetting> SettingsOfFlags() { return SettingsOf(google::GetArgvs()); }

}  // namespace crema::tools
