// What other programs read of the help of a command: manuals, and completions of shells.
// scripts/manuals.sh puts the parts of all commands together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/flag_table.h"
#include "common/help.h"

namespace crema::tools {

// Returns the text of --help=KIND: "man", the page crema-NAME(1) in roff; "bash", "zsh" or "fish",
// the part of the command in the completion of that shell. Throws kInvalidArgument for another.
std::string PartOfManuals(std::string_view kind, const CommandText& command,
                          const std::vector<FlagEntry>& flags, std::string_view version);

}  // namespace crema::tools
