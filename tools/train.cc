// train: trains a net from a solver file.
#include <gflags/gflags.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>

#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/solver_state.h"
#include "solvers/solver.h"
#include "train/observers.h"

DEFINE_string(solver, "", "the solver, a prototxt");
DEFINE_string(weights, "", "caffemodels to start from, separated by commas; by layer name");
DEFINE_string(snapshot, "", "a .solverstate to go on from, bit for bit");
DEFINE_int32(threads, 0, "threads; 0: one for each processor");
DEFINE_int32(level, 0, "NetState.level of the training net");
DEFINE_string(stage, "", "NetState.stage of the training net, separated by commas");
DEFINE_string(sigint_effect, "stop", "what SIGINT does: stop (with a snapshot), snapshot or none");
DEFINE_string(sighup_effect, "snapshot", "what SIGHUP does: stop, snapshot or none");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "train --solver=S [--weights=W[,W2]] [--snapshot=STATE]: trains the net of a solver file.\n"
    "Ctrl-C snapshots and stops, SIGHUP snapshots and goes on.";

std::atomic<bool> g_interrupted{false};  // NOLINT: a signal handler can reach nothing else
std::atomic<bool> g_hung_up{false};      // NOLINT

void OnSignal(int signal) { (signal == SIGHUP ? g_hung_up : g_interrupted) = true; }

Request EffectOf(const std::string& flag, const std::string& value) {
  if (value == "stop") return Request::kStop;
  if (value == "snapshot") return Request::kSnapshot;
  if (value == "none") return Request::kNone;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--", flag, ": '", value, "' is not one of stop, snapshot, none"));
}

std::function<Request()> WatchSignals() {
  const Request on_interrupt = EffectOf("sigint_effect", FLAGS_sigint_effect);
  const Request on_hangup = EffectOf("sighup_effect", FLAGS_sighup_effect);
  return [on_interrupt, on_hangup] {
    if (g_hung_up.exchange(false)) return on_hangup;
    if (g_interrupted.exchange(false)) return on_interrupt;
    return Request::kNone;
  };
}

// Only once training begins: until then Ctrl-C ends the command at once.
void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

SolverFile ReadSolverWithFlags() {
  SolverFile file = ReadSolver(FLAGS_solver);
  if (FLAGS_level != 0) file.solver.mutable_train_state()->set_level(FLAGS_level);
  if (!FLAGS_stage.empty()) {
    for (const std::string& stage : Split(FLAGS_stage, ',')) {
      file.solver.mutable_train_state()->add_stage(stage);
    }
  }
  if (!FLAGS_weights.empty()) {
    file.solver.clear_weights();
    file.solver.add_weights(FLAGS_weights);
  }
  if (!FLAGS_snapshot.empty()) file.solver.clear_weights();
  return file;
}

void Describe(const Solver& solver, LogSink& log) {
  log.Write(Severity::kInfo, "effective solver configuration:\n" +
                                 PrintText(solver.config().solver.solver) +
                                 StrCat("seed: ", solver.seed()));
  log.Write(Severity::kInfo, StrCat("net \"", solver.plan().name, "\" for training:\n",
                                    DescribePlan(solver.plan())));
  for (size_t i = 0; i < solver.test_count(); ++i) {
    log.Write(Severity::kInfo, StrCat("test net #", i, ":\n", DescribePlan(solver.test_plan(i))));
  }
}

void WarnAboutMode(const SolverParameter& solver, LogSink& log) {
  if (solver.has_solver_mode() && solver.solver_mode() == SolverParameter::GPU) {
    log.Write(Severity::kWarning,
              "solver_mode: GPU is set, but this version trains on the CPU only; it goes on there");
  }
}

int Run() {
  RequireFlag(FLAGS_solver, "solver");
  if (!FLAGS_snapshot.empty() && !FLAGS_weights.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "give --snapshot to resume or --weights to start from, not both");
  }
  LogSink& log = ToolLog();
  const Registry registry = BuiltinRegistry();
  RunConfig config = MakeRunConfig(ReadSolverWithFlags());
  const SolverParameter solver_param = config.solver.solver;
  WarnAboutMode(solver_param, log);
  const WeightsFiles weights = WeightsOfFlags(
      {solver_param.weights().begin(), solver_param.weights().end()}, MissingLayers::kKeep);

  TrainObservers observers(solver_param);
  SolverOptions options{.threads = CheckedThreads(FLAGS_threads),
                        .log = &observers.log(),
                        .observer = &observers.observer(),
                        .poll = WatchSignals(),
                        .seed = {}};
  if (!FLAGS_snapshot.empty()) {
    const SolverState state = ReadSolverState(FLAGS_snapshot);
    if (state.has_seed()) options.seed = state.seed();
  }

  Solver solver(std::move(config), registry, std::move(options));
  Describe(solver, log);
  solver.LoadWeights(weights.paths, weights.on_mismatch);
  if (!FLAGS_snapshot.empty()) solver.Restore(FLAGS_snapshot);
  observers.Record(solver, FLAGS_snapshot.empty() ? RunStart::kFresh : RunStart::kContinued,
                   solver.session().context().threads());
  observers.TakeTerminal();
  CatchSignals();
  solver.Solve();
  std::printf("trained to iteration %ld\n", solver.iteration());
  return 0;
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
