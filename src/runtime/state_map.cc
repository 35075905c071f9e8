// Maps of state dicts as text, and the table of matches.
#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/strings.h"
#include "runtime/state_match.h"

namespace crema {
namespace {

const std::string& LayerOf(const Plan& plan, int slot) {
  const ParameterSlot& s = plan.parameters[static_cast<size_t>(slot)];
  return plan.layers[static_cast<size_t>(s.layer)].name();
}

std::string EntryName(const StateMatches& matches, int entry) {
  if (entry == kZerosEntry) return "zeros";
  if (entry == kKeptEntry) return "-";
  return entry == kOnesEntry ? "ones" : matches.names[static_cast<size_t>(entry)];
}

std::string RoleOf(const StateMatches& matches, int slot) {
  for (const TorchModule& module : matches.modules) {
    for (const TorchParameter& p : module.parameters) {
      if (p.slot == slot) return p.role;
    }
  }
  return "";
}

using TableLine = std::array<std::string, 5>;

std::string Format(const std::vector<TableLine>& table) {
  std::array<size_t, std::tuple_size_v<TableLine>> widths{};
  for (const TableLine& line : table) {
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  std::string text;
  for (const TableLine& line : table) {
    std::string padded;
    for (size_t c = 0; c < line.size(); ++c) {
      padded += line[c] + std::string(widths[c] - line[c].size() + 2, ' ');
    }
    padded.erase(padded.find_last_not_of(' ') + 1);
    text += padded + "\n";
  }
  return text;
}

bool ParseLine(std::string_view text, StateMapLine* line) {
  const size_t equals = text.rfind(" = ");
  if (equals == std::string_view::npos) return false;
  line->entry = Trim(text.substr(0, equals));
  const std::string_view target = Trim(text.substr(equals + 3));
  if (target == "-") return !line->entry.empty();
  const size_t space = target.find_last_of(" \t");
  if (space == std::string_view::npos) return false;
  line->layer = Trim(target.substr(0, space));
  line->parameter = target.substr(space + 1);
  return !line->entry.empty() && !line->layer.empty();
}

}  // namespace

std::vector<StateMapLine> ParseStateMap(const std::string& text, const std::string& file) {
  std::vector<StateMapLine> lines;
  std::vector<Problem> problems;
  int number = 0;
  for (const std::string& whole : Split(text, '\n')) {
    ++number;
    const size_t hash = whole.starts_with('#') ? 0 : whole.find(" #");
    const std::string_view written = Trim(std::string_view(whole).substr(0, hash));
    if (written.empty()) continue;
    StateMapLine line;
    line.line = number;
    if (ParseLine(written, &line)) {
      lines.push_back(std::move(line));
    } else {
      problems.push_back({ErrorCode::kInvalidArgument,
                          {.file = file, .line = number, .column = 1},
                          "is no line 'entry = layer parameter' or 'entry = -'"});
    }
  }
  if (!problems.empty()) throw Error(std::move(problems));
  return lines;
}

std::string DescribeMatches(const Plan& plan, const StateDict& file, const StateMatches& matches) {
  std::vector<TableLine> table = {{"entry", "shape", "layer", "parameter", "matched by"}};
  for (const StateMatch& match : matches.matches) {
    const Shape& shape = match.entry < 0 ? plan.parameters[static_cast<size_t>(match.slot)].shape
                                         : file.entries()[static_cast<size_t>(match.entry)].shape;
    table.push_back({EntryName(matches, match.entry), ToString(shape), LayerOf(plan, match.slot),
                     match.parameter->role, match.how});
  }
  for (const int entry : matches.unused) {
    table.push_back({EntryName(matches, entry),
                     ToString(file.entries()[static_cast<size_t>(entry)].shape), "-", "-",
                     "not used"});
  }
  return Format(table);
}

std::string PrintStateMap(const Plan& plan, const StateDict& file, const StateMatches& matches) {
  std::string text = StrCat("# ", file.path(), ": entry = layer parameter\n");
  for (const StateMatch& match : matches.matches) {
    if (match.how == "averages" || match.entry == kKeptEntry) continue;
    text += StrCat(EntryName(matches, match.entry), " = ", LayerOf(plan, match.slot), " ",
                   match.parameter->role, "\n");
  }
  for (const int entry : matches.unused) text += StrCat(EntryName(matches, entry), " = -\n");
  const auto list = [&](const char* title, const std::vector<int>& items, const auto& print) {
    if (!items.empty()) text += StrCat("\n# ", title, "\n");
    for (const int item : items) text += StrCat("# ", print(item), "\n");
  };
  list("Entries without a place:", matches.unmatched, [&](int entry) {
    return StrCat(EntryName(matches, entry), " =   # ",
                  ToString(file.entries()[static_cast<size_t>(entry)].shape));
  });
  list("Parameters without an entry (\"zeros = layer bias\" fills one):", matches.empty_slots,
       [&](int slot) {
         return StrCat(" = ", LayerOf(plan, slot), " ", RoleOf(matches, slot), "   # ",
                       ToString(plan.parameters[static_cast<size_t>(slot)].shape));
       });
  return text;
}

}  // namespace crema
