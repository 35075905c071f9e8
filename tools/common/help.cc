#include "common/help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "core/strings.h"

namespace crema::tools {
namespace {

// Returns the blocks of a text that empty lines separate, each as its lines.
std::vector<std::vector<std::string>> BlocksOf(std::string_view text) {
  std::vector<std::vector<std::string>> blocks(1);
  for (const std::string& line : Split(text, '\n')) {
    if (!line.empty()) {
      blocks.back().push_back(line);
    } else if (!blocks.back().empty()) {
      blocks.emplace_back();
    }
  }
  if (blocks.back().empty()) blocks.pop_back();
  return blocks;
}

// Appends words to `out`, whose last line has `column` characters; further lines begin with
// `indent` spaces.
void AppendWrapped(std::string_view text, size_t column, size_t indent, size_t columns,
                   std::string* out) {
  bool first = true;
  for (const std::string& word : Split(text, ' ')) {
    const size_t gap = first ? 0 : 1;
    if (!first && column + gap + word.size() > columns) {
      *out += "\n" + std::string(indent, ' ');
      column = indent;
    } else {
      *out += std::string(gap, ' ');
      column += gap;
    }
    *out += word;
    column += word.size();
    first = false;
  }
  *out += '\n';
}

bool IsOfAction(std::string_view line, std::string_view name, std::string_view action) {
  return action.empty() || line.find(StrCat(name, " ", action)) != std::string_view::npos;
}

// Returns the remarks that follow the text of a flag.
std::string DescriptionOf(const FlagEntry& flag, std::string_view action) {
  std::string text;
  if (action.empty() && !flag.actions.empty()) text = Join(flag.actions, ", ") + ": ";
  text += flag.text;
  if (flag.required) text += " (required)";
  if (!flag.IsBool() && !flag.default_value.empty()) {
    text += StrCat(" (default ", flag.default_value, ")");
  }
  return text;
}

void AppendFlag(const FlagEntry& flag, std::string_view action, size_t columns, std::string* out) {
  const size_t indent = columns < 60 ? 6 : 26;
  const std::string head = "  " + flag.Form();
  *out += head;
  const bool fits = head.size() + 2 <= indent;
  *out += fits ? std::string(indent - head.size(), ' ') : "\n" + std::string(indent, ' ');
  AppendWrapped(DescriptionOf(flag, action), indent, indent, columns, out);
}

}  // namespace

std::string CommandText::Summary() const {
  if (paragraphs.empty()) return "a command of Crema";
  const std::string& text = paragraphs[0];
  const size_t stop = text.find(". ");
  std::string first =
      text.substr(0, stop == std::string::npos ? text.find_last_not_of('.') + 1 : stop);
  first[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(first[0])));
  return first;
}

std::vector<std::string> CommandText::Actions() const {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz_";
  const std::string start = StrCat("crema ", name, " ");
  std::set<std::string> actions;
  for (const std::string& line : synopsis) {
    if (!line.starts_with(start)) continue;
    const std::string word = Split(line.substr(start.size()), ' ').front();
    const bool is_action = word.find_first_not_of(kLetters) == std::string::npos;
    if (is_action && !word.empty()) actions.insert(word);
  }
  return {actions.begin(), actions.end()};
}

CommandText ParseCommandText(std::string_view program, std::string_view usage) {
  CommandText command;
  command.name = Split(program, '/').back();
  const std::vector<std::vector<std::string>> blocks = BlocksOf(usage);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i == 0) {
      command.synopsis = blocks[i];
    } else if (blocks[i][0] == "Examples:") {
      for (size_t k = 1; k < blocks[i].size(); ++k) {
        command.examples.emplace_back(Trim(blocks[i][k]));
      }
    } else {
      command.paragraphs.push_back(Join(blocks[i], " "));
    }
  }
  return command;
}

size_t ColumnsOfStdout() {
  constexpr size_t kInPipe = 80;
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::clamp<size_t>(size.ws_col, 40, 100) : kInPipe;
}

std::string HelpOf(const CommandText& command, const std::vector<FlagEntry>& flags,
                   std::string_view action, size_t columns) {
  std::string out;
  for (const std::string& line : command.synopsis) {
    if (!IsOfAction(line, command.name, action)) continue;
    const size_t indent = std::string_view("usage: ").size();
    out += out.empty() ? "usage: " : std::string(indent, ' ');
    AppendWrapped(line, indent, indent + 4, columns, &out);
  }
  for (const std::string& paragraph : command.paragraphs) {
    out += '\n';
    AppendWrapped(paragraph, 0, 0, columns, &out);
  }
  for (const std::string& group : FlagGroups()) {
    const auto is_shown = [&](const FlagEntry& flag) {
      return flag.group == group && flag.IsOf(action);
    };
    if (std::ranges::none_of(flags, is_shown)) continue;
    out += StrCat("\n", group, ":\n");
    for (const FlagEntry& flag : flags) {
      if (is_shown(flag)) AppendFlag(flag, action, columns, &out);
    }
  }
  if (!command.examples.empty()) out += "\nExamples:\n";
  for (const std::string& example : command.examples) {
    if (!IsOfAction(example, command.name, action)) continue;
    out += "  ";
    AppendWrapped(example, 2, 6, columns, &out);
  }
  return out;
}

}  // namespace crema::tools
