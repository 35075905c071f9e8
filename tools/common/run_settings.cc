#include "common/run_settings.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/set_flag.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema::tools {
namespace {

// Returns the `command` of one line of starts.jsonl.
std::vector<std::string> CommandOf(const std::string& line) {
  google::protobuf::Struct start;
  std::vector<std::string> command;
  if (!google::protobuf::util::JsonStringToMessage(line, &start).ok()) return command;
  const auto entry = start.fields().find("command");
  if (entry == start.fields().end()) return command;
  for (const auto& word : entry->second.list_value().values()) {
    command.push_back(word.string_value());
  }
  return command;
}

}  // namespace

std::vector<FieldSetting> SettingsOfRun(const std::string& folder,
                                        const std::vector<FieldSetting>& own) {
  const std::string file = folder + "/starts.jsonl";
  std::vector<FieldSetting> kept;
  std::error_code ignored;
  if (folder.empty()) return kept;
  if (!std::filesystem::is_regular_file(file, ignored)) return kept;
  for (const std::string& line : Split(ReadFile(file), '\n')) {
    for (FieldSetting& setting : SettingsOf(CommandOf(line))) {
      const auto sets_it = [&](const FieldSetting& other) { return other.path == setting.path; };
      if (std::ranges::any_of(own, sets_it)) continue;
      std::erase_if(kept, sets_it);
      if (setting.value.empty()) continue;
      setting.origin += StrCat(" ", kKeptFrom, folder, ")");
      kept.push_back(std::move(setting));
    }
  }
  return kept;
}

}  // namespace crema::tools
