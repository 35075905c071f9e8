#include "format/prototxt.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/data_file.h"
#include "format/field_setting.h"
#include "format/file.h"
#include "format/foreign_text.h"
#include "format/sniff.h"
#include "format/text_parser.h"
#include "format/unread_fields.h"
#include "format/upgrade.h"

namespace crema {
namespace {

using google::protobuf::Message;

constexpr size_t kMostReported = 100;

Where In(const std::string& file) { return {.file = file}; }

[[noreturn]] void ThrowAll(std::vector<Problem> problems) {
  if (problems.size() > kMostReported) {
    Problem rest = problems.front();
    rest.where = In(rest.where.file);
    rest.message = StrCat("and ", problems.size() - kMostReported, " more problems");
    problems.resize(kMostReported);
    problems.push_back(std::move(rest));
  }
  throw Error(std::move(problems));
}

void CheckIsText(const std::string& text, const std::string& file, std::string_view expected) {
  const Content content = Sniff(text);
  if (content == Content::kText) return;
  std::string message = DescribeWrongContent(content, expected);
  NetParameter net;
  if (content == Content::kBinary && net.ParsePartialFromString(text) &&
      net.layer_size() + net.layers_size() > 0) {
    message = StrCat("is a binary weights file (caffemodel), not ", expected,
                     ": give it with --weights, and the .prototxt here");
  } else if (SolverState state; content == Content::kBinary && state.ParsePartialFromString(text) &&
                                state.has_iter() && state.has_learned_net()) {
    message = StrCat("is a solver state, not ", expected,
                     ": give it with --resume, and the .prototxt here");
  } else if (content == Content::kHdf5) {
    message += ": it may be a weights file, to be given with --weights";
  }
  Fail(ErrorCode::kInvalidArgument, message, In(file));
}

// Number of problems when the text is parsed as another message.
size_t ProblemsAs(const std::string& text, Message* other) {
  std::vector<Problem> problems;
  ParseText(text, "", other, nullptr, &problems);
  return problems.size();
}

bool HasLayersOrInputs(const NetParameter& net) {
  return net.layer_size() + net.layers_size() + net.input_size() > 0;
}

bool NamesNet(const SolverParameter& solver) { return solver.has_net() || solver.has_train_net(); }

bool IsEmptyMessage(const Message& message) { return message.ByteSizeLong() == 0; }

// Completes snapshot_prefix like Caffe's UpgradeSnapshotPrefixProperty.
void CompleteSnapshotPrefix(const std::string& path, SolverParameter* solver) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path stem = fs::path(path).replace_extension();
  if (solver->snapshot_prefix().empty()) {
    solver->set_snapshot_prefix(stem.string());
  } else if (fs::is_directory(solver->snapshot_prefix(), error)) {
    solver->set_snapshot_prefix(solver->snapshot_prefix() + "/" + stem.filename().string());
  }
}

// Throws one error for a text that is no prototxt at all, in place of those of its lines.
void RefuseForeignText(const std::string& text, const std::string& file,
                       std::string_view expected) {
  const ForeignText foreign = FindForeignText(text, expected);
  if (foreign.message.empty()) return;
  Fail(ErrorCode::kInvalidArgument, foreign.message,
       {.file = file, .line = foreign.line, .column = foreign.line > 0 ? 1 : 0});
}

// Throws one error for blocks `layers` with the content of `layer`.
void RefuseMixedForms(const std::string& text, const std::string& file, size_t problems) {
  constexpr std::string_view kOld = "layers";
  std::string renamed;
  int first = 0;  // line of the first one
  int line = 0;
  for (std::string_view rest = text; !rest.empty();) {
    ++line;
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const std::string_view here = Trim(rest.substr(0, end));
    const std::string_view after = Trim(here.substr(std::min(kOld.size(), here.size())));
    const bool is_old = here.starts_with(kOld) && (after.starts_with('{') || after == ":");
    if (is_old && first == 0) first = line;
    renamed += is_old ? StrCat("layer ", after, "\n") : std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  NetParameter net;
  if (first == 0 || ProblemsAs(renamed, &net) >= problems) return;
  Fail(ErrorCode::kInvalidArgument,
       "'layers' is Caffe's old form, but the fields in it are those of the new one: write 'layer'",
       {.file = file, .line = first, .column = 1});
}

// `file` is the file of the solver.
std::string NetNamedBy(const SolverParameter& solver, const std::string& file) {
  const std::string& net = solver.has_net() ? solver.net() : solver.train_net();
  if (net == file)
    return " Its field 'net' names this file itself: name the file of the net there.";
  return net.empty() ? "" : StrCat(" It names the net '", net, "': give that.");
}

}  // namespace

void ParseText(const std::string& text, const std::string& file_name, Message* message,
               SourceMap* source, std::vector<Problem>* problems) {
  if (text.size() > kMaxFileBytes) {
    problems->push_back({ErrorCode::kInvalidArgument, In(file_name), "is larger than 2 GiB"});
    return;
  }
  const std::string_view body = WithoutByteOrderMark(text);
  SourceMap positions;
  positions.file = file_name;
  TextParser parser(body, file_name, source == nullptr ? nullptr : &positions);
  parser.Parse(message);
  std::vector<Problem>& found = parser.problems();
  std::stable_sort(found.begin(), found.end(), [](const Problem& a, const Problem& b) {
    return Position{a.where.line, a.where.column} < Position{b.where.line, b.where.column};
  });
  std::move(found.begin(), found.end(), std::back_inserter(*problems));
  if (source != nullptr) *source = std::move(positions);
}

NetFile ParseNet(const std::string& text, const std::string& file_name) {
  CheckIsText(text, file_name, "a net");
  NetFile file;
  std::vector<Problem> problems;
  ParseText(text, file_name, &file.net, &file.source, &problems);
  if (!problems.empty()) {
    SolverParameter solver;
    if (!HasLayersOrInputs(file.net) && ProblemsAs(text, &solver) < problems.size()) {
      Fail(ErrorCode::kInvalidArgument,
           "is a solver file, not a net: it belongs to --solver." + NetNamedBy(solver, file_name),
           In(file_name));
    }
    RefuseForeignText(text, file_name, "a net");
    RefuseMixedForms(text, file_name, problems.size());
    ThrowAll(std::move(problems));
  }
  if (IsEmptyMessage(file.net)) {
    Fail(ErrorCode::kInvalidArgument, "holds nothing but comments; expected a net", In(file_name));
  }
  UpgradeNet(&file.net, &file.source, &file.warnings);
  std::ranges::move(FindUnreadFields(file.net, file.source), std::back_inserter(file.warnings));
  return file;
}

NetFile ReadNet(const std::string& path) { return ParseNet(ReadFile(path), path); }

NetFile ReadNet(const std::string& path, std::span<const FieldSetting> settings) {
  NetFile file = ReadNet(path);
  NetSettings nets(settings);
  nets.Apply(std::nullopt, &file);
  if (!nets.Problems().empty()) throw Error(nets.Problems());
  return file;
}

SolverFile ParseSolver(const std::string& text, const std::string& file_name) {
  CheckIsText(text, file_name, "a solver");
  SolverFile file;
  std::vector<Problem> problems;
  ParseText(text, file_name, &file.solver, &file.source, &problems);
  if (!problems.empty()) {
    NetParameter net;
    std::vector<Problem> ignored;
    ParseText(text, file_name, &net, nullptr, &ignored);
    // A solver with a layer in it names its net or its rate.
    const bool is_solver = NamesNet(file.solver) || file.solver.has_base_lr();
    if (HasLayersOrInputs(net) && !is_solver) {
      Fail(ErrorCode::kInvalidArgument,
           "is a net, not a solver: write a solver file with net: \"" + file_name +
               "\" and the schedule, and give that",
           In(file_name));
    }
    RefuseForeignText(text, file_name, "a solver");
    ThrowAll(std::move(problems));
  }
  if (IsEmptyMessage(file.solver)) {
    Fail(ErrorCode::kInvalidArgument, "holds nothing but comments; expected a solver",
         In(file_name));
  }
  UpgradeSolver(&file.solver, &file.source);
  return file;
}

SolverFile ReadSolver(const std::string& path) { return ReadSolver(path, {}); }

SolverFile ReadSolver(const std::string& path, std::span<const FieldSetting> settings) {
  SolverFile file = ParseSolver(ReadFile(path), path);
  SetSolverFields(settings, &file);
  CompleteSnapshotPrefix(path, &file.solver);
  return file;
}

std::string DescribeWrongText(const std::string& text, std::string_view expected) {
  constexpr size_t kMostParsed = size_t{1} << 24;
  NetParameter net;
  SolverParameter solver;
  std::vector<Problem> ignored;
  if (text.size() <= kMostParsed) {
    ParseText(text, "", &net, nullptr, &ignored);
    ParseText(text, "", &solver, nullptr, &ignored);
  }
  if (HasLayersOrInputs(net)) {
    return StrCat("is a net as text (a prototxt), not ", expected,
                  ": give it with --model where a command has that flag, and the binary file here");
  }
  if (NamesNet(solver) || solver.has_base_lr()) {
    return StrCat("is a solver as text (a prototxt), not ", expected,
                  ": give it with --solver, and the binary file here");
  }
  return DescribeWrongContent(Content::kText, expected) +
         (text.find('{') == std::string::npos
              ? ": give the binary file"
              : " (a prototxt?): give the binary file, such as a .caffemodel");
}

std::string PrintText(const Message& message) {
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  printer.PrintToString(message, &text);
  return text;
}

}  // namespace crema
