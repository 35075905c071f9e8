// report: compares runs on one HTML page.
#include <gflags/gflags.h>

#include <cstdio>
#include <filesystem>

#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "report/clock.h"
#include "report/page.h"
#include "report/watch.h"

DEFINE_string(o, "report.html", "[Output FILE.html] the page");
DEFINE_string(title, "", "[Output] heading of the page; without it, the names of the runs");
DEFINE_bool(watch, false,
            "[Run] write no file, but serve the page to browsers of this machine; it follows runs "
            "in progress");
DEFINE_int32(port, 8080, "[Run] port of --watch; 0: any free one");
DEFINE_bool(until_eof, false, "[Expert] --watch ends when standard input ends; for scripts");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema report RUN... [-o report.html]\n"
    "crema report --watch RUN... [--port=8080]\n"
    "\n"
    "Writes one self-contained page about runs. A RUN is a folder of train --run=FOLDER: its\n"
    "curves in shared charts, its results, settings, and those of evaluate\n"
    "--report=RUN/evaluation. It may also be such an evaluation folder alone, or a folder of "
    "runs:\n"
    "all in it, the best first. With --watch, serves that page on 127.0.0.1 while the runs go on.\n"
    "\n"
    "Examples:\n"
    "crema report runs/lenet/lenet_run\n"
    "crema report runs/a runs/b -o compared.html --title=\"two learning rates\"\n"
    "crema report --watch runs/";

// A file of the default name may be something else than a page of this command.
void RefuseUnnamedPage() {
  std::error_code ignored;
  if (IsGiven("o") || !std::filesystem::exists(FLAGS_o, ignored)) return;
  constexpr size_t kHead = 4096;
  if (ReadFileStart(FLAGS_o, kHead).find(kPageMark) != std::string::npos) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", FLAGS_o, "' exists already and is no page of this version of the command: -o ",
              FLAGS_o, " writes over it, or name another page"));
}

// Returns --title, or the names of a few runs, or of the folders.
std::string Title(const std::vector<std::string>& folders, const ReportedRuns& reported) {
  if (!FLAGS_title.empty()) return FLAGS_title;
  constexpr size_t kMostNames = 4;
  std::vector<std::string> names;
  for (const ReportedRun& one : reported.runs) names.push_back(one.run.name);
  const bool named = reported.order.empty() || names.size() <= kMostNames;
  return Join(named && !names.empty() ? names : folders, ", ");
}

int Watch(const std::vector<std::string>& folders) {
  constexpr int kMostPort = 65535;
  if (FLAGS_port < 0 || FLAGS_port > kMostPort) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--port is ", FLAGS_port, "; it is 0 to ", kMostPort));
  }
  for (const std::string& folder : folders) {
    std::error_code ignored;
    if (std::filesystem::is_directory(folder, ignored) || FLAGS_until_eof) continue;
    ToolLog().Write(Severity::kWarning,
                    StrCat("there is no folder '", folder, "' yet: the page waits for it"));
  }
  WatchRuns({.folders = folders,
             .title = Title(folders, {}),
             .port = FLAGS_port,
             .until_eof = FLAGS_until_eof});
  return 0;
}

int Run(const std::vector<std::string>& folders) {
  if (folders.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "name at least one run folder: report RUN... -o report.html; see --help");
  }
  if (FLAGS_watch) return Watch(folders);
  RequireFlag(FLAGS_o, "o");
  RefuseUnnamedPage();
  const ReportedRuns reported = ReadRuns(folders, RunOrder::kBestFirst);
  for (const std::string& note : reported.notes) ToolLog().Write(Severity::kWarning, note);
  WriteFileAtomically(FLAGS_o,
                      ReportPage(Title(folders, reported), reported, PageUse::kFile, UnixTime()));
  const size_t count = reported.runs.size();
  std::printf("%s: %zu run%s\n", FLAGS_o.c_str(), count, count == 1 ? "" : "s");
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
