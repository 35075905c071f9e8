// sweep: trains a net with different values of fields and compares the results.
#include <gflags/gflags.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/batch_flag.h"
#include "common/csv.h"
#include "common/interrupt.h"
#include "common/json.h"
#include "common/plugin_flag.h"
#include "common/program_beside.h"
#include "common/run_settings.h"
#include "common/set_flag.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/run_program.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "solvers/batch_choice.h"
#include "solvers/run_memory.h"
#include "solvers/solver_config.h"
#include "sweep/axis.h"
#include "sweep/trials.h"

DEFINE_string(solver, "", "[Input FILE required] the solver, a prototxt");
DEFINE_string(
    over, "",
    "[Input FIELD=VALUES required repeated] a field to vary, with a list V1,V2,... or a range "
    "LOW..HIGH[:log]; may be given several times");
DEFINE_string(search, "grid",
              "[Run grid|random|halving] all combinations; drawn points; or drawn points of which "
              "the better ones train longer");
DEFINE_int64(trials, 0, "[Run] number of points of --search=random and halving");
DEFINE_int64(keep, 3, "[Run] halving: one of this many trials continues after each round");
DEFINE_uint64(seed, 1,
              "[Run] seed of the drawn points; the runs have the random_seed of the solver");
DEFINE_string(
    metric, "",
    "[Run NAME] tested output to compare; by default accuracy, else the first, else loss");
DEFINE_string(mode, "auto", "[Run auto|min|max] auto is min for names with 'loss' or 'err'");
DEFINE_string(o, "sweep",
              "[Output FOLDER] folder of the trials; the same command resumes a sweep in it");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema sweep --solver=FILE --over FIELD=VALUES [flags] [-- FLAGS OF TRAIN]\n"
    "\n"
    "Trains once for each combination of values of some fields, and ranks the results. Trials\n"
    "run one at a time, as each uses all processors. Ctrl-C stops; the same command resumes.\n"
    "Flags after -- go to train.\n"
    "\n"
    "Examples:\n"
    "crema sweep --solver=s.prototxt --over base_lr=0.1,0.01 --over weight_decay=0,5e-4\n"
    "crema sweep --solver=s.prototxt --search=random --trials=20 --over base_lr=1e-4..1e-1:log\n"
    "crema sweep --solver=s.prototxt --search=halving --trials=27 --over base_lr=1e-4..0.1:log "
    "-- --gpu=0";

constexpr int64_t kMostTrials = 10000;
constexpr int kDiverged = 5;

struct Sweep {
  std::vector<Axis> axes;
  std::vector<Point> points;
  std::vector<Round> rounds;
  Metric metric;
  std::string solver_text;               // with the fields of --set
  std::string length_field;              // "max_iter" or "max_epoch", for halving
  std::vector<std::string> settings;     // of --set, for all trials
  std::vector<std::string> train_flags;  // after "--"
};

std::vector<std::string> SettingsOfPoint(const Sweep& sweep, size_t trial) {
  std::vector<std::string> settings;
  for (size_t i = 0; i < sweep.axes.size(); ++i) {
    settings.push_back(StrCat(sweep.axes[i].path, "=", sweep.points[trial][i]));
  }
  return settings;
}

void CheckTrainFlags(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    if (!flag.starts_with('-')) {
      Fail(ErrorCode::kInvalidArgument, StrCat("unexpected argument '", flag,
                                               "'; flags are written --name=value, and flags of "
                                               "train follow after --"));
    }
    const size_t begin = flag.find_first_not_of('-');
    if (begin == std::string::npos) {
      Fail(ErrorCode::kInvalidArgument, StrCat("unexpected argument '", flag, "'"));
    }
    const std::string name = flag.substr(begin);
    for (const char* own : {"solver", "set", "run", "resume", "snapshot", "batch"}) {
      if (name != own && !name.starts_with(StrCat(own, "="))) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--", own, " cannot follow after --: sweep gives it to each trial"));
    }
  }
}

void AddHalving(const SolverParameter& solver, Sweep* sweep) {
  const bool epochs = solver.max_epoch() > 0;
  const int64_t longest = epochs ? solver.max_epoch() : solver.max_iter();
  if (longest < 1) {
    Fail(ErrorCode::kInvalidArgument, "--search=halving needs max_iter or max_epoch in the solver");
  }
  if (FLAGS_keep < 2) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--keep is ", FLAGS_keep, "; use 2 or more"));
  }
  sweep->length_field = epochs ? "max_epoch" : "max_iter";
  const int64_t interval = epochs ? solver.test_interval_epoch() : solver.test_interval();
  const int64_t step = std::max<int64_t>(interval, 1);
  const int64_t other = epochs ? solver.test_interval() : solver.test_interval_epoch();
  if (interval == 0 && other > 0) {
    Fail(ErrorCode::kInvalidArgument,
         epochs ? "--search=halving needs test_interval_epoch beside max_epoch, so that each round "
                  "ends with a test"
                : "--search=halving needs test_interval beside max_iter, so that each round ends "
                  "with a test");
  }
  for (const Axis& axis : sweep->axes) {
    if (axis.path != sweep->length_field) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("--over ", axis.path, ": halving sets this field"));
  }
  sweep->rounds =
      HalvingRounds(static_cast<int64_t>(sweep->points.size()), FLAGS_keep, longest, step);
}

void ChoosePoints(Sweep* sweep) {
  const bool draws = FLAGS_search == "random" || FLAGS_search == "halving";
  if (!draws && FLAGS_search != "grid") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--search is '", FLAGS_search, "'; use grid, random or halving"));
  }
  if (!draws) {
    if (FLAGS_trials != 0) {
      Fail(ErrorCode::kInvalidArgument, "--trials belongs to --search=random or halving");
    }
    sweep->points = GridOf(sweep->axes, kMostTrials);
    return;
  }
  if (FLAGS_trials < 1 || FLAGS_trials > kMostTrials) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--search=", FLAGS_search, " needs --trials from 1 to ", kMostTrials, ", not ",
                FLAGS_trials));
  }
  sweep->points = DrawPoints(sweep->axes, FLAGS_trials, FLAGS_seed);
  if (static_cast<int64_t>(sweep->points.size()) < FLAGS_trials) {
    ToolLog().Write(Severity::kWarning,
                    StrCat("the values of --over have only ", sweep->points.size(),
                           " different points: fewer trials than --trials=", FLAGS_trials));
  }
}

// Returns the outputs of the first test net; empty without tests.
std::vector<std::string> TestedOutputs(const RunConfig& config) {
  std::vector<std::string> outputs;
  if (config.tests.empty()) return outputs;
  const Registry registry = LayersOfFlag();
  std::vector<Problem> warnings;
  const auto plan = PlanNetOfRun(config.tests[0], registry, {.backward = false}, &warnings);
  for (const int v : plan->outputs) outputs.push_back(plan->values[static_cast<size_t>(v)].name);
  return outputs;
}

// Reads the nets with the fields of each trial, so that a wrong value is an error before the first
// trial begins. Sets the metric; returns the solver of the first trial.
SolverParameter CheckTrials(Sweep* sweep) {
  std::vector<FieldSetting> own;
  for (const std::string& text : sweep->settings) own.push_back(ParseFieldSetting(text, "--set"));
  sweep->solver_text = PrintText(ReadSolver(FLAGS_solver, own).solver);
  SolverParameter first;
  for (size_t trial = 0; trial < sweep->points.size(); ++trial) {
    std::vector<FieldSetting> settings = own;
    for (const std::string& text : SettingsOfPoint(*sweep, trial)) {
      settings.push_back(ParseFieldSetting(text, "--over"));
    }
    DropAutoBatch(&settings);  // the first trial chooses
    bool has_auto = false;
    const RunConfig config = ReadWithoutAuto(
        [&](std::span<const FieldSetting> with) {
          RunConfig read = MakeRunConfig(ReadSolver(FLAGS_solver, with), with);
          has_auto = has_auto || HasAutoBatch(read.train.file.net, TRAIN);
          return read;
        },
        settings);
    if (trial > 0) continue;
    if (has_auto) sweep->settings.insert(sweep->settings.begin(), "batch_size=AUTO");
    first = config.solver.solver;
    sweep->metric = ChooseMetric(TestedOutputs(config), FLAGS_metric);
    if (FLAGS_mode != "auto") sweep->metric.is_smaller_better = FLAGS_mode == "min";
  }
  return first;
}

void AddAxis(Axis axis, Sweep* sweep) {
  const std::string flag = StrCat("--over ", axis.path);
  if (axis.path == "snapshot_prefix") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(flag, ": sweep sets this field itself, to the folder of each trial"));
  }
  if (std::ranges::find(sweep->axes, axis.path, &Axis::path) != sweep->axes.end()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(flag, " is given twice; write all its values in one: --over ", axis.path,
                "=V1,V2,V3"));
  }
  sweep->axes.push_back(std::move(axis));
}

Sweep MakeSweep(const std::vector<std::string>& train_flags) {
  Sweep sweep;
  sweep.settings = ValuesOfFlag(CommandWithBatchSetting(), "set");
  sweep.train_flags = train_flags;
  for (const std::string& text : ValuesOfFlag("over")) AddAxis(ParseAxis(text), &sweep);
  CheckTrainFlags(train_flags);
  ChoosePoints(&sweep);
  const SolverParameter solver = CheckTrials(&sweep);
  if (FLAGS_search == "halving") {
    AddHalving(solver, &sweep);
  } else {
    sweep.rounds = {{.trials = static_cast<int64_t>(sweep.points.size()), .length = 0}};
  }
  return sweep;
}

std::string JsonList(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(JsonString(text));
  return StrCat("[", Join(quoted, ", "), "]");
}

// Describes the sweep; two sweeps with the same text have the same trials.
std::string DefinitionOf(const Sweep& sweep) {
  std::string text = StrCat(
      "{\"schema\": 1, \"solver\": ", JsonString(FLAGS_solver),
      ", \"search\": ", JsonString(FLAGS_search), ", \"seed\": ", FLAGS_seed,
      ",\n\"set\": ", JsonList(sweep.settings), ",\n\"train_flags\": ", JsonList(sweep.train_flags),
      ",\n\"solver_text\": ", JsonString(sweep.solver_text), ",\n\"rounds\": [");
  for (size_t i = 0; i < sweep.rounds.size(); ++i) {
    text += StrCat(i > 0 ? ", " : "", "{\"trials\": ", sweep.rounds[i].trials,
                   ", \"length\": ", sweep.rounds[i].length, "}");
  }
  text += "],\n\"trials\": [";
  for (size_t trial = 0; trial < sweep.points.size(); ++trial) {
    text += StrCat(trial > 0 ? ",\n  " : "\n  ", JsonList(SettingsOfPoint(sweep, trial)));
  }
  return text + "\n]}\n";
}

std::vector<std::string> TrainCommand(const Sweep& sweep, const std::string& folder, size_t trial,
                                      int64_t length) {
  // The shell appends both outputs to the log.
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$@\" >>\"$0\" 2>&1",
                                      folder + "/train.log", ProgramBeside("train")};
  std::vector<std::string> settings = sweep.settings;
  for (const std::string& setting : SettingsOfPoint(sweep, trial)) settings.push_back(setting);
  settings.push_back(StrCat("snapshot_prefix=", folder, "/model"));
  if (length > 0) {  // later rounds continue from the snapshot
    settings.push_back(StrCat(sweep.length_field, "=", length));
    settings.emplace_back("snapshot_after_train=true");
  }
  command.push_back("--solver=" + FLAGS_solver);
  for (const std::string& setting : settings) command.push_back("--set=" + setting);
  command.push_back("--run=" + folder);
  command.emplace_back("--resume=auto");
  command.emplace_back("--sighup_effect=stop");  // a terminal that closes ends both
  for (const std::string& plugin : ValuesOfFlag("plugin")) command.push_back("--plugin=" + plugin);
  command.insert(command.end(), sweep.train_flags.begin(), sweep.train_flags.end());
  return command;
}

struct Standing {
  size_t trial = 0;
  int64_t length = 0;
  int exit_code = 0;
  Score score;
};

std::string ResultText(const Standing& standing, const Metric& metric) {
  if (standing.exit_code == kDiverged) return "diverged";
  if (standing.exit_code != 0) return StrCat("failed with exit code ", standing.exit_code);
  if (std::isnan(standing.score.best)) return StrCat("no value of ", metric.name);
  char text[128];
  std::snprintf(text, sizeof(text), "%s %.5g at %.0f, last %.5g", metric.name.c_str(),
                standing.score.best, standing.score.best_iteration, standing.score.last);
  return text;
}

// Runs the trials of a sweep. Thread safety: one thread.
class SweepRun {
 public:
  SweepRun(Sweep sweep, SweepRecord* record) : sweep_(std::move(sweep)), record_(*record) {
    std::vector<FieldSetting> settings;
    for (const std::string& text : sweep_.settings) {
      settings.push_back(ParseFieldSetting(text, "--set"));
    }
    asks_for_batch_ = AsksForBatch(settings);
  }

  // Returns the trials, best first.
  std::vector<Standing> Run() {
    std::vector<size_t> trials(sweep_.points.size());
    for (size_t i = 0; i < trials.size(); ++i) trials[i] = i;
    std::vector<Standing> all;
    for (size_t round = 0; round < sweep_.rounds.size(); ++round) {
      if (sweep_.rounds.size() > 1) {
        std::printf("round %zu of %zu: %zu trials to %s %ld\n", round + 1, sweep_.rounds.size(),
                    trials.size(), sweep_.length_field.c_str(), sweep_.rounds[round].length);
      }
      std::vector<Standing> standings = RunRound(trials, sweep_.rounds[round].length);
      for (const Standing& standing : standings) {
        std::erase_if(all, [&](const Standing& old) { return old.trial == standing.trial; });
      }
      all.insert(all.begin(), standings.begin(), standings.end());
      if (round + 1 < sweep_.rounds.size()) {
        trials = Survivors(standings, static_cast<size_t>(sweep_.rounds[round + 1].trials));
      }
    }
    return all;
  }

 private:
  std::vector<size_t> Survivors(const std::vector<Standing>& standings, size_t count) const {
    std::vector<size_t> trials;
    for (const Standing& standing : standings) {
      if (trials.size() < count && standing.exit_code == 0) trials.push_back(standing.trial);
    }
    return trials;
  }

  // Trains all of them; returns them best first.
  std::vector<Standing> RunRound(const std::vector<size_t>& trials, int64_t length) {
    std::vector<Standing> standings;
    for (const size_t trial : trials) {
      standings.push_back(RunTrial(trial, length));
      std::printf("trial %zu of %zu: %s: %s\n", trial + 1, sweep_.points.size(),
                  Join(SettingsOfPoint(sweep_, trial), " ").c_str(),
                  ResultText(standings.back(), sweep_.metric).c_str());
      std::fflush(stdout);
    }
    std::ranges::stable_sort(standings, [&](const Standing& a, const Standing& b) {
      const bool a_counts = a.exit_code == 0 && !std::isnan(a.score.best);
      const bool b_counts = b.exit_code == 0 && !std::isnan(b.score.best);
      if (!a_counts || !b_counts) return a_counts && !b_counts;
      return sweep_.metric.is_smaller_better ? a.score.best < b.score.best
                                             : a.score.best > b.score.best;
    });
    return standings;
  }

  Standing RunTrial(size_t trial, int64_t length) {
    const std::string folder = record_.FolderOf(trial);
    Standing standing{.trial = trial, .length = length, .exit_code = 0, .score = {}};
    if (const TrialEnd* end = record_.Find(trial, length)) {
      standing.exit_code = end->exit_code;
    } else {
      standing.exit_code = Train(trial, length, folder);
      const bool is_result = standing.exit_code == 0 || standing.exit_code == kDiverged;
      if (is_result) record_.Add({trial, length, standing.exit_code});  // others are tried again
    }
    if (standing.exit_code == 0) standing.score = ScoreOfRun(folder, sweep_.metric);
    return standing;
  }

  // Lets all trials have the batch that the first one has chosen for AUTO.
  void KeepBatch() {
    if (!asks_for_batch_) return;
    for (size_t trial = 0; trial < sweep_.points.size(); ++trial) {
      std::vector<FieldSetting> kept = SettingsOfRun(record_.FolderOf(trial), {});
      std::erase_if(kept, [](const FieldSetting& one) { return one.path != kBatchPath; });
      if (kept.empty()) continue;
      sweep_.settings = CommandWithChosenBatch(sweep_.settings, kept);
      asks_for_batch_ = false;
      return;
    }
  }

  int Train(size_t trial, int64_t length, const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) FailWrite(folder, error.value(), 0);
    KeepBatch();
    const int exit_code = RunProgram(TrainCommand(sweep_, folder, trial, length));
    EndIfInterrupted();  // a stopped training is not a result
    if (exit_code != 0 && exit_code != kDiverged) {
      std::fprintf(stderr, "warning: trial %zu failed; its output is in %s/train.log\n", trial + 1,
                   folder.c_str());
    }
    return exit_code;
  }

  Sweep sweep_;
  SweepRecord& record_;
  bool asks_for_batch_ = false;
};

// Writes the results, best first.
void WriteResults(const Sweep& sweep, const std::vector<Standing>& standings,
                  const Metric& metric) {
  std::vector<std::string> header = {
      "rank", "trial", "exit_code", "best_" + metric.name, "best_iteration", "last_" + metric.name};
  for (const Axis& axis : sweep.axes) header.push_back(axis.path);
  std::string text = CsvLine(header);
  for (size_t rank = 0; rank < standings.size(); ++rank) {
    const Standing& standing = standings[rank];
    std::vector<std::string> line = {std::to_string(rank + 1),
                                     std::to_string(standing.trial + 1),
                                     std::to_string(standing.exit_code),
                                     CsvNumber(standing.score.best),
                                     CsvNumber(standing.score.best_iteration),
                                     CsvNumber(standing.score.last)};
    const Point& point = sweep.points[standing.trial];
    line.insert(line.end(), point.begin(), point.end());
    text += CsvLine(line);
  }
  WriteFileAtomically(FLAGS_o + "/results.csv", text);
}

void PrintResults(const Sweep& sweep, const std::vector<Standing>& standings, const Metric& metric,
                  const SweepRecord& record) {
  std::printf("\nresults, best first:\n");
  for (const Standing& standing : standings) {
    std::printf("  trial_%03zu  %s: %s\n", standing.trial + 1,
                Join(SettingsOfPoint(sweep, standing.trial), " ").c_str(),
                ResultText(standing, metric).c_str());
  }
  std::vector<std::string> report = {ProgramBeside("report"), "-o", FLAGS_o + "/report.html"};
  for (const Standing& standing : standings) {
    std::error_code ignored;
    const std::string folder = record.FolderOf(standing.trial);
    if (std::filesystem::exists(folder + "/run.json", ignored)) report.push_back(folder);
  }
  std::printf("results: %s/results.csv\n", FLAGS_o.c_str());
  std::fflush(stdout);
  if (report.size() > 3 && RunProgram(report) != 0) {
    ToolLog().Write(Severity::kWarning, StrCat("'", FLAGS_o, "/report.html' was not written"));
  }
}

// 0 if a trial succeeded; else the code of the first failure that is no divergence.
int ExitCodeOf(const std::vector<Standing>& standings) {
  int code = kDiverged;
  for (const Standing& standing : standings) {
    if (standing.exit_code == 0) return 0;
    if (code == kDiverged) code = standing.exit_code;
  }
  return code;
}

int Run(const std::vector<std::string>& train_flags) {
  RequireFlag(FLAGS_solver, "solver");
  RequireFlag(FLAGS_o, "o");
  if (FLAGS_mode != "auto" && FLAGS_mode != "min" && FLAGS_mode != "max") {
    Fail(ErrorCode::kInvalidArgument, StrCat("--mode is '", FLAGS_mode, "'; use auto, min or max"));
  }
  const Sweep sweep = MakeSweep(train_flags);
  SweepRecord record(FLAGS_o, DefinitionOf(sweep));
  return WithoutLeftovers([&] {
    SweepRun run(sweep, &record);
    const std::vector<Standing> standings = run.Run();
    WriteResults(sweep, standings, sweep.metric);
    PrintResults(sweep, standings, sweep.metric, record);
    return ExitCodeOf(standings);
  });
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
