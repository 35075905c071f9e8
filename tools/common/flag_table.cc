#include "common/flag_table.h"

#include <gflags/gflags.h>

#include <algorithm>

#include "core/strings.h"
#include "runtime/gpu.h"

namespace crema::tools {
namespace {

constexpr const char* kDefaultGroup = "Run";

// Returns the default as a user would write it; gflags writes all digits of a double.
std::string DefaultOf(const google::CommandLineFlagInfo& flag) {
  return flag.type == "double" ? StrCat(std::stod(flag.default_value)) : flag.default_value;
}

// Returns the placeholder of a flag whose tag has none.
std::string PlaceholderOf(std::string_view type) {
  if (type == "bool") return "";
  return type == "string" ? "TEXT" : type == "double" ? "NUMBER" : "N";
}

void ReadTag(std::string_view tag, FlagEntry* entry) {
  for (const std::string& word : Split(tag, ' ')) {
    const bool is_group = word == "Input" || word == "Output" || word == "Run" ||
                          word == "Device" || word == "Expert";
    if (is_group) {
      entry->group = word;
    } else if (word == "required") {
      entry->required = true;
    } else if (word == "repeated") {
      entry->repeated = true;
    } else if (word.starts_with('#')) {
      entry->position = std::stoi(word.substr(1));
    } else if (word.starts_with('@')) {
      entry->actions.push_back(word.substr(1));
    } else {
      entry->placeholder = word;
    }
  }
}

FlagEntry EntryOf(const google::CommandLineFlagInfo& flag) {
  FlagEntry entry{.name = flag.name,
                  .type = flag.type,
                  .group = kDefaultGroup,
                  .placeholder = PlaceholderOf(flag.type),
                  .actions = {},
                  .text = flag.description,
                  .default_value = DefaultOf(flag)};
  if (flag.name == "log_dir") entry.text = "[Output FOLDER] also write the log to files in it";
  if (!entry.text.starts_with('[')) return entry;
  const size_t end = entry.text.find("] ");
  ReadTag(std::string_view(entry.text).substr(1, end - 1), &entry);
  entry.text.erase(0, end + 2);
  return entry;
}

// Returns the place among the flags of a group: those of the command come first, those of the log
// last. -1: help does not show the flag.
int RankOf(const google::CommandLineFlagInfo& flag, const std::string& command) {
  const std::string_view file = flag.filename;
  if (flag.description.empty()) return -1;
  if (flag.name == "log_dir" || file.ends_with("tools/common/log.cc")) return 2;
  if (file.find("tools/common/") != std::string_view::npos) return 1;
  const bool is_own = file.ends_with(StrCat("/", command, ".cc")) ||
                      file.find(StrCat("tools/", command, "/")) != std::string_view::npos;
  return is_own ? 0 : -1;
}

// Returns true for STATE, false for auto and FP32.
bool IsPlaceholder(const std::string& word) {
  return std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
}

}  // namespace

bool FlagEntry::IsOf(std::string_view action) const {
  return action.empty() || actions.empty() || std::ranges::find(actions, action) != actions.end();
}

std::string Dashed(std::string_view name) { return StrCat(name.size() == 1 ? "-" : "--", name); }

std::string FlagEntry::Form() const {
  if (IsBool()) return (default_value == "true" ? "--[no]" : "--") + name;
  return StrCat(Dashed(name), name.size() == 1 ? " " : "=", placeholder);
}

std::vector<std::string> FlagEntry::Choices() const {
  if (placeholder.find('|') == std::string::npos) return {};
  std::vector<std::string> words = Split(placeholder, '|');
  std::erase_if(words, IsPlaceholder);
  return words;
}

bool FlagEntry::TakesOthers() const {
  return std::ranges::any_of(Split(placeholder, '|'), IsPlaceholder);
}

std::vector<std::string> FlagGroups() {
  std::vector<std::string> groups = {"Input", "Output", "Run", "Device", "Expert"};
  if (!BuiltWithCuda()) std::erase(groups, "Device");
  return groups;
}

std::vector<FlagEntry> FlagsOf(std::string_view program) {
  const std::string command = Split(program, '/').back();
  std::vector<google::CommandLineFlagInfo> all;
  google::GetAllFlags(&all);
  std::erase_if(all, [&](const auto& flag) { return RankOf(flag, command) < 0; });
  std::ranges::stable_sort(all, {}, [&](const auto& flag) { return RankOf(flag, command); });
  std::vector<FlagEntry> flags;
  for (const google::CommandLineFlagInfo& flag : all) flags.push_back(EntryOf(flag));
  std::stable_partition(flags.begin(), flags.end(),
                        [](const FlagEntry& flag) { return flag.required || flag.position > 0; });
  std::vector<FlagEntry> by_group;
  for (const std::string& group : FlagGroups()) {
    std::ranges::copy_if(flags, std::back_inserter(by_group),
                         [&](const FlagEntry& flag) { return flag.group == group; });
  }
  return by_group;
}

}  // namespace crema::tools
