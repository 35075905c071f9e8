// The flags of a command, with what their descriptions say for help, completion and manuals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

// Describes one flag. The description that a flag is declared with may begin with a tag in
// brackets: "[Input FILE required #1] the solver". Its words:
//   Input, Output, Run, Device or Expert   the group (first; without a tag: Run)
//   required                               the command refuses to run without a value
//   repeated                               may be given several times
//   #1, #2, ...                            the positional argument that may stand for the flag
//   @classify, ...                         the actions of the command that read the flag
//   any other                              the placeholder of the value: FILE, N, lmdb|leveldb
struct FlagEntry {
  std::string name;
  std::string type;  // gflags' name
  std::string group;
  std::string placeholder;  // empty for flags that are true or false
  bool required = false;
  bool repeated = false;
  int position = 0;                  // 0: none
  std::vector<std::string> actions;  // empty: all of the command
  std::string text;
  std::string default_value;  // as a user would write it; empty: none

  bool IsBool() const { return type == "bool"; }
  // Returns true for an action that reads the flag, and for an empty one.
  bool IsOf(std::string_view action) const;
  // Returns "--name=FILE", "--json" or "--[no]measure".
  std::string Form() const;
  // Returns the words that the value is one of; empty if it may be something else, as a file.
  std::vector<std::string> Choices() const;
  // Returns true if the value may also be none of Choices: auto|STATE.
  bool TakesOthers() const;
};

// Returns a flag as it is written: "--json", but "-o" for a name of one letter.
std::string Dashed(std::string_view name);

// Returns the groups of flags, in the order in which help shows them. Builds without CUDA have no
// Device.
std::vector<std::string> FlagGroups();

// Returns the flags of this program that help shows: those with a description that are declared in
// its own files and in the parts of tools/common that it uses, and --log_dir; by group, the
// required and positional ones first.
std::vector<FlagEntry> FlagsOf(std::string_view program);

}  // namespace crema::tools
