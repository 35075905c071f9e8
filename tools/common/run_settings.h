// Settings (--set) that a resumed run keeps.
#pragma once

#include <string>
#include <vector>

#include "format/field_setting.h"

namespace crema::tools {

// In the origin of such a setting.
inline constexpr const char* kKeptFrom = "(kept from ";

// Returns the settings of all starts of the run that is recorded in `folder`, oldest first; those
// of `own` paths are left out, and those that a later start dropped with an empty value. Empty
// without such a run; ignores lines that cannot be read.
std::vector<FieldSetting> SettingsOfRun(const std::string& folder,
                                        const std::vector<FieldSetting>& own);

}  // namespace crema::tools
