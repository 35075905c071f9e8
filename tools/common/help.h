// --help of a command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/flag_table.h"

namespace crema::tools {

// The usage text of a command. It is written in blocks with an empty line between: first the lines
// of the synopsis, "crema train SOLVER [flags]"; then paragraphs, which are wrapped where they are
// shown; last "Examples:" with a command on each line.
struct CommandText {
  std::string name;  // "train"
  std::vector<std::string> synopsis;
  std::vector<std::string> paragraphs;
  std::vector<std::string> examples;

  // Returns the first sentence of the first paragraph, without the stop.
  std::string Summary() const;
  // Returns the words after the name in the synopsis, as in "crema deploy classify", sorted. Words
  // in capitals are arguments.
  std::vector<std::string> Actions() const;
};

// `program` is argv[0].
CommandText ParseCommandText(std::string_view program, std::string_view usage);

// Returns the width that text for the standard output is wrapped to: that of the terminal, from 40
// to 100 columns; 80 if it is none.
size_t ColumnsOfStdout();

// Returns the help of a command, or of one of its actions: only the flags, the lines of the
// synopsis and the examples of that action.
std::string HelpOf(const CommandText& command, const std::vector<FlagEntry>& flags,
                   std::string_view action, size_t columns);

}  // namespace crema::tools
