// --set: fields of the solver or the net, shared by several commands.
#pragma once

#include <string>
#include <vector>

#include "format/field_setting.h"

namespace crema::tools {

// Returns the values of all flags --set of a command line, in their order. Throws kInvalidArgument.
std::vector<FieldSetting> SettingsOf(const std::vector<std::string>& command);

// The same for this command. Requires: flags are parsed.
std::vector<FieldSetting> SettingsOfFlags();

}  // namespace crema::tools
