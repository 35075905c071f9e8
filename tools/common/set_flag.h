// --set: fields of the solver or the net, shared by several commands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/field_setting.h"

namespace crema::tools {

// Returns the values of all flags --`name` of a command line, in their order; gflags keeps only the
// last.
std::vector<std::string> ValuesOfFlag(const std::vector<std::string>& command,
                                      std::string_view name);
// The same for this command. Requires: flags are parsed.
std::vector<std::string> ValuesOfFlag(std::string_view name);

// Returns the values of all flags --set of a command line, in their order. Throws kInvalidArgument.
std::vector<FieldSetting> SettingsOf(const std::vector<std::string>& command);

// The same for this command. Requires: flags are parsed.
std::vector<FieldSetting> SettingsOfFlags();

}  // namespace crema::tools
