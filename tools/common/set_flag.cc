#include "common/set_flag.h"

#include <gflags/gflags.h>

#include <string_view>

// gflags keeps the last value only; SettingsOfFlags reads the command line.
DEFINE_string(set, "",
              "[Run FIELD=VALUE] FIELD=VALUE: a field of the solver or the net, instead of the "
              "value in the file; may "
              "be given several times. Examples: base_lr=0.1, "
              "layer[conv1].convolution_param.num_output=64 (docs/training.md)");

namespace crema::tools {

std::vector<FieldSetting> SettingsOf(const std::vector<std::string>& command) {
  std::vector<FieldSetting> settings;
  for (size_t i = 1; i < command.size() && command[i] != "--"; ++i) {
    std::string_view word = command[i];
    if (!word.starts_with('-')) continue;
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    if (word.starts_with("set=")) {
      settings.push_back(ParseFieldSetting(word.substr(4), "--set"));
    } else if (word == "set" && i + 1 < command.size()) {
      settings.push_back(ParseFieldSetting(command[++i], "--set"));
    }
  }
  return settings;
}

std::vector<FieldSetting> SettingsOfFlags() { return SettingsOf(google::GetArgvs()); }

}  // namespace crema::tools
