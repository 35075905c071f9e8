#include "common/manual.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

// Escapes text for roff.
std::string Roff(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '~') {
      out += "\\(ti";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Verbatim(const std::vector<std::string>& lines) {
  std::string out = ".nf\n";
  for (const std::string& line : lines) out += Roff(line) + "\n";
  return out + ".fi\n";
}

std::string ManualEntry(const FlagEntry& flag) {
  std::string out = StrCat(".TP\n\\fB", Roff(flag.Form()), "\\fR\n");
  std::string text;
  if (!flag.actions.empty()) text = Join(flag.actions, ", ") + ": ";
  text += flag.text + ".";
  if (flag.required) text += " Required.";
  if (!flag.IsBool() && !flag.default_value.empty()) {
    text += StrCat(" Default: ", flag.default_value, ".");
  }
  return out + Roff(text) + "\n";
}

// Quotes for the three shells: the text may stand within single quotes.
std::string Quoted(std::string_view text, std::string_view quote) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string(quote) : std::string(1, c);
  return out;
}

constexpr std::string_view kShellQuote = "'\\''";

// Returns the name of the flag that says no; empty: there is none.
std::string Negated(const FlagEntry& flag) {
  return flag.IsBool() && flag.default_value == "true" ? "no" + flag.name : "";
}

// Returns the flags of an action as words, "--solver= --json ".
std::string WordsOf(const std::vector<FlagEntry>& flags, std::string_view action) {
  std::string words;
  for (const FlagEntry& flag : flags) {
    if (!flag.IsOf(action)) continue;
    words += StrCat(words.empty() ? "" : " ", Dashed(flag.name), flag.IsBool() ? "" : "=");
    if (!Negated(flag).empty()) words += " --" + Negated(flag);
  }
  return words;
}

// Returns what zsh completes a value with. Colons would end it.
std::string ZshValues(const FlagEntry& flag) {
  const std::vector<std::string> choices = flag.Choices();
  if (choices.empty()) return "_files";
  const std::string words = StrCat("(", Join(choices, " "), ")");
  if (!flag.TakesOthers()) return words;
  return StrCat("{_alternative \"values\\:value\\:", words, "\" \"files\\:file\\:_files\"}");
}

// Returns specifications of zsh's _arguments: '--solver=[text]:value:_files'.
std::string ZshSpec(const FlagEntry& flag) {
  std::string text;
  for (const char c : flag.text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') text += '\\';
    text += c;
  }
  const std::string spec = Dashed(flag.name);
  const std::string help = StrCat("[", Quoted(text, kShellQuote), "]'");
  if (!Negated(flag).empty()) return StrCat("'", spec, help, " '--", Negated(flag), help);
  if (flag.IsBool()) return StrCat("'", spec, help);
  return StrCat("'", spec, flag.name.size() == 1 ? "" : "=", "[", Quoted(text, kShellQuote),
                "]:value:", ZshValues(flag), "'");
}

std::string ZshArguments(const std::vector<FlagEntry>& flags, std::string_view action) {
  std::string out = "_arguments";
  for (const FlagEntry& flag : flags) {
    if (flag.IsOf(action)) out += " \\\n    " + ZshSpec(flag);
  }
  return out + " \\\n    '*:file:_files'\n";
}

std::string ManualOf(const CommandText& command, const std::vector<FlagEntry>& flags,
                     std::string_view version) {
  std::string title = "CREMA-" + command.name;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string out = StrCat(".TH ", Roff(title), " 1 \"\" \"Crema ", version, "\" \"Crema\"\n");
  out +=
      StrCat(".SH NAME\n", Roff("crema-" + command.name), " \\- ", Roff(command.Summary()), "\n");
  out += ".SH SYNOPSIS\n" + Verbatim(command.synopsis);
  out += ".SH DESCRIPTION\n";
  for (size_t i = 0; i < command.paragraphs.size(); ++i) {
    out += StrCat(i == 0 ? "" : ".PP\n", Roff(command.paragraphs[i]), "\n");
  }
  out += ".SH FLAGS\n";
  for (const std::string& group : FlagGroups()) {
    const auto is_in = [&](const FlagEntry& flag) { return flag.group == group; };
    if (std::ranges::none_of(flags, is_in)) continue;
    out += StrCat(".SS ", group, "\n");
    for (const FlagEntry& flag : flags) {
      if (is_in(flag)) out += ManualEntry(flag);
    }
  }
  if (!command.examples.empty()) out += ".SH EXAMPLES\n" + Verbatim(command.examples);
  return out + ".SH SEE ALSO\n.BR crema (1)\n";
}

std::string BashOf(const CommandText& command, const std::vector<FlagEntry>& flags) {
  const std::string& name = command.name;
  const std::vector<std::string> actions = command.Actions();
  std::string out = StrCat("_crema_commands+=' ", name, "'\n_crema_flags['", name, "']='",
                           WordsOf(flags, ""), "'\n");
  if (!actions.empty()) {
    out += StrCat("_crema_actions['", name, "']='", Join(actions, " "), "'\n");
  }
  for (const std::string& action : actions) {
    out += StrCat("_crema_flags['", name, " ", action, "']='", WordsOf(flags, action), "'\n");
  }
  for (const FlagEntry& flag : flags) {
    const std::vector<std::string> choices = flag.Choices();
    if (choices.empty()) continue;
    out += StrCat("_crema_values['", name, " --", flag.name, "']='", Join(choices, " "), "'\n");
    if (flag.TakesOthers()) out += StrCat("_crema_files_too['", name, " --", flag.name, "']=1\n");
  }
  return out;
}

std::string ZshOf(const CommandText& command, const std::vector<FlagEntry>& flags) {
  const std::vector<std::string> actions = command.Actions();
  std::string out =
      StrCat("_crema_commands+=('", command.name, ":", Quoted(command.Summary(), kShellQuote),
             "')\n_crema_", command.name, "() {\n");
  if (actions.empty()) return StrCat(out, "  ", ZshArguments(flags, ""), "}\n");
  out += StrCat("  if (( CURRENT == 2 )); then\n    compadd -- ", Join(actions, " "),
                "\n    return\n  fi\n  case $words[2] in\n");
  for (const std::string& action : actions) {
    out += StrCat("  ", action, ") ", ZshArguments(flags, action), "  ;;\n");
  }
  return out + "  esac\n}\n";
}

// Returns what fish completes a value with; -x leaves out files.
std::string FishValues(const FlagEntry& flag) {
  if (flag.IsBool()) return "";
  const std::vector<std::string> choices = flag.Choices();
  if (choices.empty()) return " -r";
  return StrCat(flag.TakesOthers() ? " -r -a '" : " -x -a '", Join(choices, " "), "'");
}

std::string FishOf(const CommandText& command, const std::vector<FlagEntry>& flags) {
  const std::string quote = "\\'";
  const std::string begin = "complete -c crema -n ";
  std::string out = StrCat(begin, "__fish_use_subcommand -f -a ", command.name, " -d '",
                           Quoted(command.Summary(), quote), "'\n");
  const std::string of_command = StrCat("__fish_seen_subcommand_from ", command.name);
  for (const std::string& action : command.Actions()) {
    out += StrCat(begin, "'", of_command, "' -a ", action, "\n");
  }
  for (const FlagEntry& flag : flags) {
    std::string condition = of_command;
    if (!flag.actions.empty()) {
      condition += StrCat("; and __fish_seen_subcommand_from ", Join(flag.actions, " "));
    }
    const std::string flag_begin = StrCat(begin, "'", condition, "' ");
    const std::string help = StrCat(" -d '", Quoted(flag.text, quote), "'");
    out += StrCat(flag_begin, flag.name.size() == 1 ? "-s " : "-l ", flag.name, FishValues(flag),
                  help, "\n");
    if (!Negated(flag).empty()) out += StrCat(flag_begin, "-l ", Negated(flag), help, "\n");
  }
  return out;
}

}  // namespace

std::string PartOfManuals(std::string_view kind, const CommandText& command,
                          const std::vector<FlagEntry>& flags, std::string_view version) {
  if (kind == "man") return ManualOf(command, flags, version);
  if (kind == "bash") return BashOf(command, flags);
  if (kind == "zsh") return ZshOf(command, flags);
  if (kind == "fish") return FishOf(command, flags);
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--help=", kind, " is none of man, bash, zsh and fish; --help lists the flags"));
}

}  // namespace crema::tools
