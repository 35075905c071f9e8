// --large_batch: a learning rate for the batch of several ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "format/field_setting.h"

namespace crema::tools {

// Returns the settings that the rule of the flag adds, and logs them; none without the flag, or if
// a resumed run keeps its rate. `solver` is the run without the rule, `settings` are its own. The
// rules: linear scaling with warm-up (Goyal et al. 2017, arXiv:1706.02677), and the same for LARS
// (You et al. 2017, arXiv:1708.03888). Throws kInvalidArgument for another value of the flag, if
// there is one rank, and if the length of the warm-up is unknown.
std::vector<FieldSetting> LargeBatchSettings(int ranks, const SolverParameter& solver,
                                             std::span<const FieldSetting> settings, LogSink& log);

// Returns the command with these settings in the place of the flag.
std::vector<std::string> CommandWithRule(std::vector<std::string> command,
                                         std::span<const FieldSetting> rule);

}  // namespace crema::tools
