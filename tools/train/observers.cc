#include "train/observers.h"

#include <gflags/gflags.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/json_rows.h"
#include "common/log.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "solvers/epochs.h"
#include "train/json_lines.h"

DECLARE_string(log_dir);

DEFINE_string(run, "",
              "[Output FOLDER|none] the run's folder, for its nets, metrics and TensorBoard "
              "events; default: the "
              "snapshot prefix with _run; none: no folder");
DEFINE_int64(histograms, 0,
             "[Output] TensorBoard histograms of weights and gradients every N iterations");
DEFINE_int64(metrics_interval, 0,
             "[Output] iterations between rows of the metrics; 0: those displayed, or every 100th "
             "if display is 0");

namespace crema::tools {

// While the live line is drawn, shows messages above it and logs them to the files of --log_dir.
class TrainObservers::TerminalLog final : public LogSink {
 public:
  explicit TerminalLog(LiveLine& line) : line_(line) {}

  void TakeTerminal() { taken_ = true; }
  void Write(Severity severity, std::string_view message) override {
    if (!taken_) return ToolLog().Write(severity, message);
    LogFiles().Write(severity, message);
    line_.Print(StrCat(PrefixOf(severity), message));
  }

 private:
  LiveLine& line_;
  std::atomic<bool> taken_{false};
};

namespace {

// Warns if a run is resumed with a data set of another size.
void WarnOfOtherData(const std::string& folder, Solver& solver, LogSink& log) {
  const std::string path = folder + "/run.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  const Epochs epochs = EpochsOf(solver.session(), 1);
  if (!epochs.known()) return;
  const std::string now = StrCat(epochs.samples());
  const JsonMembers before = ParseJsonMembers(ReadFile(path)).value_or(JsonMembers());
  const auto samples = before.find("samples");
  if (samples == before.end() || samples->second == "0" || samples->second == now) return;
  log.Write(Severity::kWarning,
            StrCat("the data set had ", samples->second,
                   " samples when this run was started before, and now has ", now));
}

}  // namespace

std::string RunFolderOfFlag(const std::string& prefix, RunStart start) {
  if (FLAGS_run == "none") return "";
  if (!FLAGS_run.empty()) return FLAGS_run;
  return prefix.empty() ? "" : RunFolderOfPrefix(prefix, start);
}

TrainObservers::~TrainObservers() = default;

TrainObservers::TrainObservers(const SolverParameter& solver) : log_(&ToolLog()) {
  const bool on_terminal = isatty(STDERR_FILENO) != 0 && !IsQuiet() && !IsJsonLog();
  if (on_terminal) {
    live_line_ = std::make_unique<LiveLine>(STDERR_FILENO);
    terminal_log_ = std::make_unique<TerminalLog>(*live_line_);
    log_ = terminal_log_.get();
    observers_.Add(*live_line_);
  }
  if (IsJsonLog()) {
    lines_ = std::make_unique<JsonLines>();
  } else if (!on_terminal || !FLAGS_log_dir.empty()) {
    LogSink& log = on_terminal ? LogFiles() : ToolLog();
    lines_ = std::make_unique<CaffeLog>(log, solver.lr_policy(), solver.display());
  }
  if (lines_ != nullptr) observers_.Add(*lines_);
  wait_hint_ = std::make_unique<WaitHint>(*log_);
  observers_.Add(*wait_hint_);
  rank_hint_ = std::make_unique<RankHint>(*log_);
  observers_.Add(*rank_hint_);
  observers_.Add(next_steps_);
}

bool TrainObservers::Record(Solver& solver, RunStart start,
                            const std::vector<std::string>& command) {
  if (FLAGS_histograms < 0 || FLAGS_metrics_interval < 0) {
    Fail(ErrorCode::kInvalidArgument, "--histograms and --metrics_interval are 0 or more");
  }
  const SolverParameter& param = solver.config().solver.solver;
  const std::string folder = RunFolderOfFlag(param.snapshot_prefix(), start);
  if (folder.empty()) return true;
  if (start == RunStart::kContinued) WarnOfOtherData(folder, solver, *log_);
  constexpr int64_t kWithoutDisplay = 100;
  const int64_t unset = param.display() > 0 ? 0 : kWithoutDisplay;
  const RecorderOptions options{
      .folder = folder,
      .start = start,
      .command = command,
      .threads = solver.session().context().threads(),
      .interval = FLAGS_metrics_interval > 0 ? FLAGS_metrics_interval : unset,
      .histogram_interval = FLAGS_histograms};
  try {
    recorder_ = std::make_unique<RunRecorder>(solver, options, *log_);
  } catch (const Error& error) {
    // If another process trains here, the snapshots are at risk, too.
    if (!FLAGS_run.empty() || error.code() == ErrorCode::kInvalidArgument) throw;
    log_->Write(Severity::kWarning, StrCat("this run is not recorded: ", error.what(),
                                           "; --run=DIR names another "
                                           "folder"));
    return false;
  }
  observers_.Add(recorder_->observer());
  log_->Write(Severity::kInfo, "metrics and TensorBoard events are in " + options.folder);
  return true;
}

void TrainObservers::PrintNextSteps(const RunConfig& config,
                                    const std::vector<std::string>& command) const {
  if (IsQuiet() || IsJsonLog()) return;
  const std::string folder = recorder_ == nullptr ? "" : recorder_->folder().path();
  for (const std::string& line : next_steps_.Lines(config, folder, command)) {
    PrintLastLine(line);
  }
}

void TrainObservers::TakeTerminal() {
  if (terminal_log_ != nullptr) terminal_log_->TakeTerminal();
}

}  // namespace crema::tools
