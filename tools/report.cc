// report: compares runs on one HTML page.
#include <gflags/gflags.h>

#include <cstdio>
#include <filesystem>

#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "report/page.h"

DEFINE_string(o, "report.html", "[Output FILE] the page");
DEFINE_string(title, "", "[Output] heading of the page; without it, the names of the runs");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema report RUN... [-o report.html]\n"
    "\n"
    "Writes one self-contained page about runs. A RUN is a folder of train --run=FOLDER: its\n"
    "curves in shared charts, its results, and those of evaluate --report=RUN/evaluation. It\n"
    "may also be such an evaluation folder alone.\n"
    "\n"
    "Examples:\n"
    "crema report models/lenet/lenet_run\n"
    "crema report runs/a runs/b -o compared.html --title=\"two learning rates\"";

// A file of the default name may be something else than a page of this command.
void RefuseUnnamedPage() {
  std::error_code ignored;
  const bool named = !gflags::GetCommandLineFlagInfoOrDie("o").is_default;
  if (named || !std::filesystem::exists(FLAGS_o, ignored)) return;
  constexpr size_t kHead = 4096;
  if (ReadFileStart(FLAGS_o, kHead).find(kPageMark) != std::string::npos) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", FLAGS_o, "' exists already and is no page of this version of the command: -o ",
              FLAGS_o, " writes over it, or name another page"));
}

int Run(const std::vector<std::string>& folders) {
  if (folders.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "name at least one run folder: report RUN... -o report.html; see --help");
  }
  RequireFlag(FLAGS_o, "o");
  RefuseUnnamedPage();
  const std::vector<ReportedRun> runs = ReadRuns(folders);
  std::vector<std::string> names;
  for (const ReportedRun& reported : runs) names.push_back(reported.run.name);
  WriteFileAtomically(FLAGS_o,
                      ReportPage(FLAGS_title.empty() ? Join(names, ", ") : FLAGS_title, runs));
  std::printf("%s: %zu run%s\n", FLAGS_o.c_str(), runs.size(), runs.size() == 1 ? "" : "s");
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
