#include "common/command_line.h"

#include <gflags/gflags.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "common/flag_table.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/foreign_names.h"

namespace crema::tools {
namespace {

// Returns the kind of values of a flag, by gflags' name for its type.
std::string_view KindOf(std::string_view type) {
  if (type == "string") return "text";
  if (type == "bool") return "true or false";
  return type == "double" ? "a number" : "a whole number";
}

// Returns the remedy for a field that is given as a flag: ": it is a field of the solver; write
// --set base_lr=0.1". Empty if this command sets no such field.
std::string SetHint(const std::string& name, const std::string& value) {
  google::CommandLineFlagInfo info;
  if (!google::GetCommandLineFlagInfo("set", &info)) return "";
  const bool has_solver = google::GetCommandLineFlagInfo("solver", &info);
  const google::protobuf::Descriptor& solver = *SolverParameter::descriptor();
  const std::string foreign = has_solver ? FieldOfForeignName(name, solver) : "";
  const std::string& field = foreign.empty() ? name : foreign;
  const bool of_solver = has_solver && solver.FindFieldByName(field) != nullptr;
  if (!of_solver && NetParameter::descriptor()->FindFieldByName(field) == nullptr) return "";
  return StrCat(": ", foreign.empty() ? "it" : StrCat("'", field, "'"), " is a field of the ",
                of_solver ? "solver" : "net", "; write --set ", field, "=", value);
}

// Returns the remedy for a flag of `deploy` that `serve` lacks. Empty for others.
std::string ServeHint(std::string_view program, const std::string& name) {
  if (program.substr(program.rfind('/') + 1) != "serve") return "";
  if (name != "head" && name != "tail" && name != "nms") return "";
  return StrCat("; `deploy export --", name, "=... -o MODEL.crema` stores it in the file to serve");
}

// Returns the remedy for a flag that this command does not have.
std::string UnknownFlagHint(std::string_view program, const std::string& name,
                            const std::string& value, const std::vector<std::string>& names) {
  std::string hint = SetHint(name, value);
  if (hint.empty()) hint = ServeHint(program, name);
  if (!hint.empty()) return hint;
  google::CommandLineFlagInfo info;
  if (name == "model" && google::GetCommandLineFlagInfo("solver", &info)) {
    return ": this command takes a solver, which names its net; crema new writes one";
  }
  const std::string near = DidYouMean(name, names);
  if (near.empty() && google::GetCommandLineFlagInfo("over", &info)) {
    return StrCat("; flags of train follow '--': crema sweep ... -- ", Dashed(name), "=", value);
  }
  return near + "; --help lists the flags";
}

// Returns "; write 0.2" for a number written as 20%, 1/5 or 1k; empty for other texts, and for a
// fraction if the flag takes whole numbers.
std::string MeantNumber(std::string_view text, bool whole) {
  double number = 0;
  double divisor = 1;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest == end) return "";
  if (*rest == '/') {
    if (std::from_chars(rest + 1, end, divisor).ptr != end || divisor == 0) return "";
  } else {
    if (rest + 1 != end) return "";
    divisor = *rest == '%' ? 100 : *rest == 'k' ? 1e-3 : 0;
  }
  if (divisor == 0) return "";
  const double meant = number / divisor;
  const auto rounded = static_cast<int64_t>(meant);
  if (static_cast<double>(rounded) == meant) return StrCat("; write ", rounded);
  return whole ? "" : StrCat("; write ", meant);
}

// Refuses "solver=s.prototxt", which would be taken for a path: the argument may stand for that
// flag.
void RefuseFlagWithoutDashes(std::string_view word, const std::vector<FlagEntry>& entries) {
  const std::string name(word.substr(0, word.find('=')));
  const auto entry = std::ranges::find(entries, name, &FlagEntry::name);
  if (name.size() == word.size() || entry == entries.end() || entry->position == 0) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("flags begin with --: write ", Dashed(name), word.substr(name.size())));
}

// gflags keeps the last value only. That is an override for a setting, and a mistake for a file.
void RefuseSecond(const std::string& name, const std::vector<FlagEntry>& entries,
                  std::set<std::string>* given) {
  const auto entry = std::ranges::find(entries, name, &FlagEntry::name);
  if (entry == entries.end() || entry->repeated) return;
  const std::string& value = entry->placeholder;
  if (!value.starts_with("FILE") && !value.starts_with("FOLDER")) return;
  if (given->insert(name).second) return;
  Fail(ErrorCode::kInvalidArgument, StrCat(Dashed(name), " is given twice; give it once"));
}

// Returns "--resume=auto|STATE".
std::string PlaceOfValue(const std::string& name, const char* program) {
  const std::vector<FlagEntry> flags = FlagsOf(program);
  const auto flag = std::ranges::find(flags, name, &FlagEntry::name);
  return flag == flags.end() ? StrCat("--", name, "=VALUE") : flag->Form();
}

void SetFlag(const google::CommandLineFlagInfo& flag, const std::string& value) {
  if (!google::SetCommandLineOption(flag.name.c_str(), value.c_str()).empty()) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("flag --", flag.name, " takes ", KindOf(flag.type), ", not '", value, "'",
              flag.name == "json" ? "; the shell writes the output to a file: --json > FILE"
                                  : MeantNumber(value, flag.type != "double")));
}

}  // namespace

void RefuseWrongFlags(int argc, char** argv) {
  std::vector<google::CommandLineFlagInfo> flags;
  google::GetAllFlags(&flags);
  std::vector<std::string> names;
  for (const auto& flag : flags) names.push_back(flag.name);
  const std::vector<FlagEntry> entries = FlagsOf(argv[0]);
  std::set<std::string> given;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--") return;
    if (!word.starts_with("-")) RefuseFlagWithoutDashes(word, entries);
    if (!word.starts_with("-") || word == "-") continue;
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    const size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    google::CommandLineFlagInfo info;
    const bool negated = name.starts_with("no") &&
                         google::GetCommandLineFlagInfo(name.c_str() + 2, &info) &&
                         info.type == "bool";
    if (negated) continue;
    if (name == "flagfile" || name == "fromenv" || name == "tryfromenv") {
      Fail(ErrorCode::kInvalidArgument, StrCat("--", name, " is not supported; give the flags"));
    }
    const bool has_next = i + 1 < argc && argv[i + 1][0] != '-';
    if (!google::GetCommandLineFlagInfo(name.c_str(), &info)) {
      const std::string next = has_next ? argv[i + 1] : "VALUE";
      const bool has_value = equals != std::string_view::npos;
      const std::string value = has_value ? std::string(word.substr(equals + 1)) : next;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("unknown flag ", Dashed(name), UnknownFlagHint(argv[0], name, value, names)));
    }
    RefuseSecond(info.name, entries, &given);
    const bool takes_next = equals == std::string_view::npos && info.type != "bool";
    if (takes_next && (i + 1 >= argc || std::string_view(argv[i + 1]).starts_with("--"))) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("flag --", name, " needs a value: ", PlaceOfValue(name, argv[0])));
    }
    if (equals != std::string_view::npos || takes_next) {
      const std::string value(
          equals == std::string_view::npos ? argv[i + 1] : std::string(word.substr(equals + 1)));
      SetFlag(info, value);
    }
    if (takes_next) ++i;
  }
}

void LengthenFlags(int argc, char** argv) {
  static char quiet[] = "--quiet";
  static char verbose[] = "--verbose";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return;
    if (word == "-q") argv[i] = quiet;
    if (word == "-v") argv[i] = verbose;
  }
}

std::vector<std::string> TakePositional(const std::string& program,
                                        std::vector<std::string> arguments) {
  std::vector<FlagEntry> flags = FlagsOf(program);
  std::ranges::stable_sort(flags, {}, &FlagEntry::position);
  const bool takes_some =
      std::ranges::any_of(flags, [](const FlagEntry& flag) { return flag.position > 0; });
  size_t taken = 0;
  for (const FlagEntry& flag : flags) {
    const google::CommandLineFlagInfo given =
        google::GetCommandLineFlagInfoOrDie(flag.name.c_str());
    if (flag.position > 0 && given.is_default && taken < arguments.size()) {
      google::SetCommandLineOption(flag.name.c_str(), arguments[taken++].c_str());
    } else if (flag.required && given.current_value.empty()) {
      Fail(ErrorCode::kInvalidArgument, StrCat(Dashed(flag.name), " is required; see --help"));
    }
  }
  if (!takes_some) return arguments;
  arguments.erase(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(taken));
  RefusePositional(arguments);
  return {};
}

}  // namespace crema::tools
