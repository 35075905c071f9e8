// upgrade: upgrades nets, solvers and weights of any version to the present format.
#include <gflags/gflags.h>

#include <cstdio>

#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/field_setting.h"
#include "format/upgrade_file.h"

DEFINE_string(o, "",
              "[Output FILE] file to write; -, or without it: texts go to the standard output");
DEFINE_bool(in_place, false,
            "[Output] write over the file itself, through a temporary file and a rename");
DEFINE_string(
    dialect, "",
    "[Run bvlc] bvlc: refuse files that BVLC Caffe 1.0 (2017) cannot read; list the reasons");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema upgrade IN [-o OUT | --in_place] [--dialect=bvlc]\n"
    "\n"
    "Writes a net, a solver or weights in the present format. IN is a prototxt or a\n"
    "caffemodel of any old format (V0, V1, input fields, solver_type). Texts that need no\n"
    "upgrade are not changed; others lose their comments.\n"
    "\n"
    "Examples:\n"
    "crema upgrade old_net.prototxt -o net.prototxt\n"
    "crema upgrade old.caffemodel --in_place";

void CheckFlags(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) {
    Fail(ErrorCode::kInvalidArgument,
         arguments.empty()
             ? "name the file: upgrade IN [-o OUT | --in_place]"
             : StrCat("one file at a time; got also '", arguments[1], "' (the output is -o OUT)"));
  }
  if (!FLAGS_dialect.empty() && FLAGS_dialect != "bvlc") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--dialect: '", FLAGS_dialect, "' is not known; this version has: bvlc"));
  }
  if (FLAGS_in_place && !FLAGS_o.empty()) {
    Fail(ErrorCode::kInvalidArgument, "give -o or --in_place, not both");
  }
}

void RefuseNotStock(const UpgradedFile& file) {
  if (FLAGS_dialect.empty()) return;
  std::vector<Problem> problems = FindNotStock(file);
  if (!problems.empty()) throw Error(std::move(problems));
}

void Report(const UpgradedFile& file, const std::string& path) {
  for (const Problem& warning : file.warnings) {
    ToolLog().Write(Severity::kWarning, ToString(warning));
  }
  if (!file.changed) {
    ToolLog().Write(Severity::kInfo, path + ": is in the current format; nothing to do");
  }
  if (file.lost_comments > 0) {
    ToolLog().Write(Severity::kWarning,
                    StrCat(path, ": ", file.lost_comments,
                           file.lost_comments == 1 ? " comment is" : " comments are", " lost"));
  }
}

int Run(const std::vector<std::string>& arguments) {
  CheckFlags(arguments);
  const std::string& in = arguments[0];
  const UpgradedFile file = ReadUpgraded(in);
  RefuseNotStock(file);
  if (file.changed && HasAutoBatch(file.net)) {
    Fail(ErrorCode::kUnsupported, "batch_size: AUTO would be lost; write a number first",
         {.file = in});
  }
  const bool to_stdout = !FLAGS_in_place && (FLAGS_o.empty() || FLAGS_o == "-");
  if (to_stdout && file.kind == UpgradedFile::Kind::kNetBinary) {
    Fail(ErrorCode::kInvalidArgument, "a binary file is not printed: give -o OUT or --in_place");
  }
  Report(file, in);
  if (to_stdout) {
    std::fwrite(file.text.data(), 1, file.text.size(), stdout);
  } else if (!FLAGS_in_place || file.changed) {
    const std::string& out = FLAGS_in_place ? in : FLAGS_o;
    WriteUpgraded(file, out);
    std::printf("%s: written in the current format\n", out.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
