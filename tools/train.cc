// train: trains a net from a solver file.
#include <gflags/gflags.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/batch_flag.h"
#include "common/gpu_flag.h"
#include "common/log.h"
#include "common/net_flags.h"
#include "common/plan_flags.h"
#include "common/plugin_flag.h"
#include "common/precision_flag.h"
#include "common/run_settings.h"
#include "common/set_flag.h"
#include "common/terminal_line.h"
#include "common/tool.h"
#include "common/warning_counter.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "parallel/collective.h"
#include "solvers/batch_choice.h"
#include "solvers/parallel_run.h"
#include "solvers/resume.h"
#include "solvers/run_memory.h"
#include "solvers/solver.h"
#include "train/large_batch.h"
#include "train/live_page.h"
#include "train/observers.h"
#include "train/processes.h"
#include "train/signals.h"

DEFINE_string(solver, "", "[Input FILE required #1] the solver, a prototxt");
DEFINE_string(weights, "",
              "[Input FILES] caffemodels to start from, separated by commas; by layer name");
DEFINE_string(resume, "",
              "[Input auto|STATE] resume bit for bit: auto, from the newest intact snapshot of the "
              "prefix (from the "
              "beginning if there is none); or a .solverstate");
DEFINE_string(snapshot, "", "[Expert STATE] the same as --resume=STATE");
DEFINE_int32(threads, 0, "[Run N] threads; 0: one for each processor");
DEFINE_int32(level, 0, "[Expert] NetState.level of the training net");
DEFINE_string(stage, "", "[Expert] NetState.stage of the training net, separated by commas");
DEFINE_bool(strict, false, "[Run] do not train if there is a warning before the start");
DEFINE_bool(deterministic, false,
            "[Run] the same bytes on any number of threads (16 at most are used)");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema train SOLVER [--resume=auto] [--weights=FILES] [--set FIELD=VALUE] [flags]\n"
    "\n"
    "Trains the net of a solver file. Ctrl-C and SIGTERM write a snapshot and stop (exit code\n"
    "0); SIGHUP writes a snapshot and continues. --watch=8080 shows the run in a browser.\n"
    "\n"
    "Examples:\n"
    "crema train models/lenet/solver.prototxt\n"
    "crema train solver.prototxt --batch=auto --set base_lr=0.01 --set max_iter=2000\n"
    "crema train solver.prototxt --weights=imagenet.caffemodel --on_mismatch=skip\n"
    "crema train solver.prototxt --resume=auto";

constexpr const char* kAuto = "auto";

// Returns the path of the state to resume from; empty: start from the beginning, or search for one.
std::string StateToResume() {
  if (!FLAGS_snapshot.empty()) return FLAGS_snapshot;
  return FLAGS_resume == kAuto ? "" : FLAGS_resume;
}

// `flag` is --resume, which takes "auto" too, or its old name --snapshot.
void CheckState(const std::string& flag, const std::string& path) {
  if (path.empty()) return;
  const bool takes_auto = flag == "--resume";
  const char* const auto_or = takes_auto ? "auto or " : "";
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_regular_file(status)) return;
  if (std::filesystem::exists(status)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(flag, ": '", path, "' is a folder, a pipe or a device; give ", auto_or,
                "a .solverstate"));
  }
  if (!takes_auto && path == kAuto) {
    Fail(ErrorCode::kInvalidArgument, "--snapshot takes a .solverstate; give --resume=auto");
  }
  const std::vector<std::string> words = {kAuto};
  if (takes_auto) {
    const std::string hint = DidYouMean(path, words);
    Fail(ErrorCode::kNotFound,
         StrCat("--resume: there is no file '", path, "'",
                hint.empty() ? DidYouMeanPath(path) + "; give auto or a .solverstate" : hint));
  }
}

void CheckResumeFlags() {
  if (IsGiven("weights") && FLAGS_weights.empty() && !IsAsCaffe()) {
    Fail(ErrorCode::kInvalidArgument, "--weights is empty: name a file, or leave the flag out");
  }
  if (!FLAGS_snapshot.empty() && !FLAGS_resume.empty()) {
    Fail(ErrorCode::kInvalidArgument, "--snapshot and --resume are the same: give one of them");
  }
  CheckState(FLAGS_snapshot.empty() ? "--resume" : "--snapshot", StateToResume());
  if (!StateToResume().empty() && !FLAGS_weights.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "give --resume to continue or --weights to start from, not both (but --resume=auto, which "
         "starts from --weights if there is no snapshot)");
  }
}

bool Resumes() { return !FLAGS_resume.empty() || !FLAGS_snapshot.empty(); }

// Returns the settings of the command; before them, those that a resumed run keeps from its earlier
// starts. There, one without a value, --set base_lr=, drops a kept one: the file counts again. A
// kept batch counts before AUTO.
std::vector<FieldSetting> SettingsOfCommandAndRun(const std::vector<std::string>& command,
                                                  LogSink& log) {
  std::vector<FieldSetting> own = SettingsOf(command);
  if (!Resumes()) return own;
  std::vector<FieldSetting> given = own;
  std::erase_if(given, [](const FieldSetting& setting) { return setting.value.empty(); });
  if (AsksForBatch(own)) DropAutoBatch(&own);
  const std::string prefix = ReadSolver(FLAGS_solver, given).solver.snapshot_prefix();
  const std::string folder = RunFolderOfFlag(prefix, RunStart::kContinued);
  std::vector<FieldSetting> settings = SettingsOfRun(folder, own);
  for (const FieldSetting& kept : settings) {
    if (kept.path == kBatchPath) DropAutoBatch(&given);
    log.Write(Severity::kInfo,
              StrCat("resumes with ", kept.origin, "; --set ", kept.path, "= drops it"));
  }
  own = std::move(given);
  settings.insert(settings.end(), own.begin(), own.end());
  return settings;
}

SolverFile ReadSolverWithFlags(std::span<const FieldSetting> settings) {
  SolverFile file = ReadSolver(FLAGS_solver, settings);
  SetTrainState(FLAGS_level, FLAGS_stage, &file.solver);
  if (!FLAGS_weights.empty()) {
    file.solver.clear_weights();
    file.solver.add_weights(FLAGS_weights);
  }
  if (!StateToResume().empty()) file.solver.clear_weights();
  return file;
}

// Logs the solver and its nets; on a terminal three lines in their place, without --verbose.
void Describe(const Solver& solver, LogSink& log) {
  LogSink& details = DetailLog();
  details.Write(Severity::kInfo, "effective solver configuration:\n" +
                                     PrintText(solver.config().solver.solver) +
                                     StrCat("seed: ", solver.seed()));
  const Plan& plan = solver.plan();
  details.Write(Severity::kInfo,
                StrCat("net \"", plan.name, "\" for training:\n", DescribePlan(plan)));
  int64_t bytes = TrainingBytes(solver.config().solver.solver, plan);
  for (size_t i = 0; i < solver.test_count(); ++i) {
    details.Write(Severity::kInfo,
                  StrCat("test net #", i, ":\n", DescribePlan(solver.test_plan(i))));
    bytes += TestingBytes(solver.test_plan(i));
  }
  if (!HidesDetails()) return;
  char memory[64];
  std::snprintf(memory, sizeof(memory), "memory: %.1f MiB", static_cast<double>(bytes) / (1 << 20));
  log.Write(Severity::kInfo,
            StrCat("net \"", plan.name, "\": ", plan.layers.size(), " layers; -v lists them"));
  log.Write(Severity::kInfo, StrCat("parameters: ", plan.ParameterCount()));
  log.Write(Severity::kInfo, memory);
}

// Returns null for a run on one device.
std::unique_ptr<ParallelRun> MakeParallelRun(const std::vector<ComputeDevice>& devices) {
  if (devices.size() < 2) return nullptr;
  std::vector<int> gpus;
  for (const ComputeDevice& device : devices) gpus.push_back(device.device.ordinal);
  return std::make_unique<ParallelRun>(devices, MakeGpuCollective(gpus));
}

// Makes a solver at the beginning, or at a snapshot.
Resumed MakeSolver(RunConfig config, const Registry& registry, SolverOptions options,
                   const WeightsFiles& weights) {
  Resumed run;
  LogSink& log = *options.log;
  if (FLAGS_resume == kAuto) {
    run = ResumeNewest(config, registry, options);
  } else if (!StateToResume().empty()) {
    run.state = StateToResume();
    run.solver = ResumeFrom(run.state, std::move(config), registry, std::move(options));
  } else {
    run.solver = std::make_unique<Solver>(std::move(config), registry, std::move(options));
  }
  if (!run.state.empty() && !FLAGS_weights.empty()) {
    log.Write(Severity::kInfo, StrCat("--weights has no effect: the run resumes from ", run.state));
  }
  Describe(*run.solver, log);
  if (run.state.empty()) run.solver->LoadWeights(weights.paths, weights.on_mismatch);
  return run;
}

void RefuseWarnings(int64_t count) {
  if (count == 0) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--strict: ", count, count == 1 ? " warning" : " warnings", " above"));
}

struct RunOfFlags {
  RunConfig config;
  std::vector<ComputeDevice> devices;
  SolverOptions options;             // without log, observer and signals
  std::vector<std::string> command;  // with the number of AUTO
};

void CompleteForProcesses(const TrainProcesses& processes, bool asks_for_batch,
                          SolverOptions* options) {
  if (options->device.is_gpu()) {
    Fail(ErrorCode::kUnsupported,
         "several processes train on CPUs only; on the GPUs of one machine train in one process, "
         "with --gpu=0,1 or --gpu=all; for CPUs give --set solver_mode=CPU");
  }
  if (asks_for_batch) {
    Fail(ErrorCode::kUnsupported,
         "batch_size=AUTO (--batch=auto) measures the memory of one process; give the number that "
         "it finds there");
  }
  processes.Complete(options);
}

RunOfFlags ReadRunOfFlags(TrainProcesses* processes, Registry* registry, LogSink& log) {
  RunOfFlags run;
  run.command = CommandWithBatchSetting();
  const auto make_settings = [&] { return SettingsOfCommandAndRun(run.command, log); };
  std::vector<FieldSetting> settings =
      processes == nullptr ? make_settings() : processes->Share(make_settings);
  const auto read = [&](std::span<const FieldSetting> with) {
    RunConfig config = MakeRunConfig(ReadSolverWithFlags(with), with);
    LoadPlugins(&config, registry);
    SetPrecisionOfFlag(&config.train.file.net);
    for (NetOfRun& test : config.tests) SetPrecisionOfFlag(&test.file.net);
    return config;
  };
  bool asks = AsksForBatch(settings);
  std::vector<FieldSetting> known = settings;
  DropAutoBatch(&known);
  run.config = read(known);
  if (!asks && HasAutoBatch(run.config.train.file.net, TRAIN)) {
    asks = true;
    run.command.insert(run.command.begin() + 1, kAutoBatchFlag);
  }
  run.devices = DevicesOfRun(run.config.solver.solver, log);
  run.options.threads = CheckedThreads(FLAGS_threads);
  run.options.deterministic = FLAGS_deterministic;
  run.options.device = run.devices.front();
  run.options.plan = PlanOptionsOfFlags();
  if (processes != nullptr) CompleteForProcesses(*processes, asks, &run.options);
  const int ranks = processes != nullptr ? processes->size() : static_cast<int>(run.devices.size());
  const std::vector<FieldSetting> rule =
      LargeBatchSettings(ranks, run.config.solver.solver, settings, log);
  if (!rule.empty()) {
    run.command = CommandWithRule(std::move(run.command), rule);
    settings.insert(settings.end(), rule.begin(), rule.end());
    if (!asks) run.config = read(settings);
  }
  if (asks) {
    PlanOptions plan = PlanOptionsOf(run.options);
    plan.world = static_cast<int>(run.devices.size());
    ChooseAutoBatch(read, *registry, plan, FreeMemoryOf(run.devices), log, &settings);
    run.config = read(settings);
  }
  run.command = CommandWithChosenBatch(std::move(run.command), settings);
  return run;
}

// Trains in this process alone, or as rank 0 of several.
int RunFirst(TrainProcesses* processes) {
  CheckResumeFlags();
  LogSink& log = ToolLog();
  Registry registry = LayersOfFlag();
  WarningCounter early(log);
  const RunOfFlags run = ReadRunOfFlags(processes, &registry, early);
  const RunConfig& config = run.config;
  const SolverParameter solver_param = config.solver.solver;
  const WeightsFiles weights = WeightsOfFlags(
      {solver_param.weights().begin(), solver_param.weights().end()}, MissingLayers::kKeep);

  const RunStart start = Resumes() ? RunStart::kContinued : RunStart::kFresh;
  const LivePage live_page(RunFolderOfFlag(solver_param.snapshot_prefix(), start));
  TrainObservers observers(solver_param);
  WarningCounter counter(observers.log());
  SolverOptions options = run.options;
  options.log = &counter;
  options.observer = &observers.observer();
  options.poll = WatchSignals();
  const std::unique_ptr<ParallelRun> parallel = MakeParallelRun(run.devices);
  if (parallel) options = parallel->OptionsOfFirst(std::move(options));
  const Resumed made = MakeSolver(config, registry, options, weights);
  Solver& solver = *made.solver;
  if (FLAGS_strict) {
    solver.CheckStart();
    RefuseWarnings(early.count() + counter.count());
  }
  if (parallel) parallel->MakeOthers(solver, config, registry, options, made.state);
  if (processes != nullptr) processes->StartOthers(config, &solver, made.state, *options.log);
  const bool recorded = observers.Record(solver, start, run.command);
  if (FLAGS_strict && !recorded) RefuseWarnings(1);
  observers.TakeTerminal();
  CatchSignals();
  const auto start_of_work = std::chrono::steady_clock::now();
  if (parallel) {
    parallel->Run(&solver, [](Solver& of_rank) { of_rank.Solve(); });
  } else if (processes != nullptr) {
    processes->Solve(&solver);
  } else {
    solver.Solve();
  }
  if (IsAsCaffe()) return 0;  // parsers of Caffe's logs would take the rest for results
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_of_work;
  PrintLastLine(
      StrCat("trained to iteration ", solver.iteration(), " in ", DurationText(took.count())));
  observers.PrintNextSteps(solver.config(), run.command);
  return 0;
}

int Follow(TrainProcesses* processes) {
  Registry registry = LayersOfFlag();
  RunOfFlags run = ReadRunOfFlags(processes, &registry, NullSink());
  processes->Follow(run.config, registry, std::move(run.options));
  return 0;
}

int Run() {
  const std::unique_ptr<TrainProcesses> processes = TrainProcesses::Meet();
  if (processes == nullptr) return RunFirst(nullptr);
  return processes->Run(
      [&] { return processes->is_first() ? RunFirst(processes.get()) : Follow(processes.get()); });
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage,
                               [](const std::vector<std::string>& arguments) {
                                 crema::tools::RefusePositional(arguments);
                                 return crema::tools::Run();
                               });
}
