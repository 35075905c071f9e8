// check: verifies everything that train needs, without training.
#include <gflags/gflags.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/batch_flag.h"
#include "common/json.h"
#include "common/log.h"
#include "common/net_flags.h"
#include "common/plugin_flag.h"
#include "common/set_flag.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/machine_limits.h"
#include "core/strings.h"
#include "solvers/batch_choice.h"
#include "solvers/check_run.h"
#include "solvers/solver.h"

DEFINE_string(solver, "", "[Input FILE required #1] the solver, a prototxt");
DEFINE_string(weights, "",
              "[Input FILES] caffemodels to start from, separated by commas; as for train");
DEFINE_int64(samples, 100, "[Run] samples that each net reads and runs");
DEFINE_int32(threads, 0, "[Run N] threads; 0: one for each processor");
DEFINE_int32(level, 0, "[Expert] NetState.level of the training net");
DEFINE_string(stage, "", "[Expert] NetState.stage of the training net, separated by commas");
DEFINE_bool(strict, false, "[Run] warnings are problems");
DEFINE_bool(json, false, "[Output] print one JSON object");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema check SOLVER [--weights=FILES] [--set FIELD=VALUE] [flags]\n"
    "\n"
    "Finds everything that would stop train. Builds all nets, opens every data set, reads and\n"
    "runs some samples of each, matches the weights, computes the learning rates, and\n"
    "compares disk and memory with what the run needs. See docs/check.md.\n"
    "\n"
    "Exit codes: 0 no problems; 2 texts, flags, weights or memory are wrong; 3 data or disk.\n"
    "\n"
    "Examples:\n"
    "crema check models/lenet/solver.prototxt\n"
    "crema check solver.prototxt --samples=1000 --json";

// A text with mistakes asks for nothing: CheckRun reports all of them.
bool TextAsksForBatch(const RunReader& read, std::vector<FieldSetting> settings) {
  DropAutoBatch(&settings);
  try {
    return HasAutoBatch(read(settings).train.file.net, TRAIN);
  } catch (const Error&) {
    return false;
  }
}

CheckReport Check() {
  try {
    const auto read_solver = [](std::span<const FieldSetting> with) {
      SolverFile file = ReadSolver(FLAGS_solver, with);
      SetTrainState(FLAGS_level, FLAGS_stage, &file.solver);
      return file;
    };
    Registry registry = LayersOfFlag();
    const auto read_run = [&](std::span<const FieldSetting> with) {
      RunConfig config = MakeRunConfig(read_solver(with), with);
      LoadPlugins(&config, &registry);
      return config;
    };
    std::vector<FieldSetting> settings = SettingsOf(CommandWithBatchSetting());
    SolverOptions options;
    options.threads = CheckedThreads(FLAGS_threads);
    if (AsksForBatch(settings) || TextAsksForBatch(read_run, settings)) {
      ChooseAutoBatch(read_run, registry, PlanOptionsOf(options), AvailableMemory(), ToolLog(),
                      &settings);
    }
    DropAutoBatch(&settings);
    const SolverFile solver = read_solver(settings);
    std::vector<std::string> weights(solver.solver.weights().begin(),
                                     solver.solver.weights().end());
    if (!FLAGS_weights.empty()) weights = {FLAGS_weights};
    return CheckRun(solver, registry,
                    {.threads = CheckedThreads(FLAGS_threads),
                     .samples = FLAGS_samples,
                     .weights = WeightsOfFlags(weights, MissingLayers::kKeep),
                     .settings = settings});
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal || error.code() == ErrorCode::kOutOfMemory) throw;
    CheckReport report;
    report.problems = error.problems();
    return report;
  }
}

std::string Size(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

void PrintNet(const CheckedNet& net) {
  std::printf("%s: net \"%s\", %ld layers, %ld parameters", net.role.c_str(), net.name.c_str(),
              net.layers, net.parameters);
  if (net.samples > 0) {
    std::printf(", %ld samples", net.samples);
    if (net.epoch > 0) std::printf(" of %ld", net.epoch);
    std::printf(" in batches of %ld, loss of the first %g", net.batch, net.loss);
  }
  std::printf("\n");
}

std::string Count(const std::vector<Problem>& problems, const char* what) {
  return StrCat(problems.size(), " ", what, problems.size() == 1 ? "" : "s");
}

void PrintText(const CheckReport& report) {
  for (const CheckedNet& net : report.nets) PrintNet(net);
  if (!report.policy.empty()) {
    std::printf("schedule: %s, learning rate %g to %g over %ld iterations\n", report.policy.c_str(),
                report.first_rate, report.last_rate, report.iterations);
  }
  if (!report.snapshot_prefix.empty()) {
    std::printf("snapshots: %ld", report.snapshots);
    if (report.snapshot_bytes > 0) std::printf(" of %s each", Size(report.snapshot_bytes).c_str());
    std::printf(" at %s", report.snapshot_prefix.c_str());
    if (report.free_bytes >= 0) std::printf(", %s free", Size(report.free_bytes).c_str());
    std::printf("\n");
  }
  if (report.memory_bytes > 0) {
    std::printf("memory: %s needed, %s available\n", Size(report.memory_bytes).c_str(),
                Size(report.available_memory).c_str());
  }
  std::fflush(stdout);
  for (const Problem& warning : report.warnings) {
    WriteToStderr(StrCat(PrefixOf(Severity::kWarning), ToString(warning), "\n"));
  }
  for (const Problem& problem : report.problems) {
    WriteToStderr(StrCat(PrefixOf(Severity::kError), ToString(problem), "\n"));
  }
  std::printf("%s, %s in %.1f s\n", Count(report.problems, "problem").c_str(),
              Count(report.warnings, "warning").c_str(), report.seconds);
}

std::string JsonProblems(const std::vector<Problem>& problems) {
  std::string text = "[";
  for (const Problem& problem : problems) {
    const Where& where = problem.where;
    text += StrCat(text.size() > 1 ? ",\n  " : "\n  ",
                   "{\"kind\": ", ExitCode(problem.code) == 3 ? "\"data\"" : "\"configuration\"",
                   ", \"message\": ", JsonString(problem.message),
                   ", \"file\": ", JsonString(where.file), ", \"line\": ", where.line,
                   ", \"column\": ", where.column, ", \"layer\": ", JsonString(where.layer),
                   ", \"blob\": ", JsonString(where.blob), ", \"field\": ", JsonString(where.field),
                   "}");
  }
  return text + "]";
}

std::string JsonNets(const std::vector<CheckedNet>& nets) {
  std::string text = "[";
  for (const CheckedNet& net : nets) {
    text += StrCat(text.size() > 1 ? ",\n  " : "\n  ", "{\"role\": ", JsonString(net.role),
                   ", \"name\": ", JsonString(net.name), ", \"layers\": ", net.layers,
                   ", \"parameters\": ", net.parameters, ", \"batch\": ", net.batch,
                   ", \"epoch\": ", net.epoch, ", \"samples\": ", net.samples,
                   ", \"loss\": ", net.samples > 0 ? JsonNumber(net.loss) : "null", "}");
  }
  return text + "]";
}

// docs/check.md has the schema.
void PrintJson(const CheckReport& report) {
  std::string text = StrCat("{\"schema\": 1, \"solver\": ", JsonString(FLAGS_solver),
                            ", \"exit_code\": ", ExitCode(report));
  text += StrCat(",\n\"problems\": ", JsonProblems(report.problems));
  text += StrCat(",\n\"warnings\": ", JsonProblems(report.warnings));
  text += StrCat(",\n\"nets\": ", JsonNets(report.nets));
  text += StrCat(",\n\"schedule\": {\"policy\": ", JsonString(report.policy),
                 ", \"iterations\": ", report.iterations,
                 ", \"first_rate\": ", JsonNumber(report.first_rate),
                 ", \"last_rate\": ", JsonNumber(report.last_rate), "}");
  text += StrCat(",\n\"snapshots\": {\"prefix\": ", JsonString(report.snapshot_prefix),
                 ", \"count\": ", report.snapshots, ", \"bytes\": ", report.snapshot_bytes,
                 ", \"free_bytes\": ",
                 report.free_bytes < 0 ? "null" : std::to_string(report.free_bytes), "}");
  text +=
      StrCat(",\n\"memory\": {\"needed_bytes\": ", report.memory_bytes, ", \"available_bytes\": ",
             report.available_memory == 0 ? "null" : std::to_string(report.available_memory), "}");
  text += StrCat(",\n\"seconds\": ", JsonNumber(report.seconds), "}\n");
  std::fputs(text.c_str(), stdout);
}

int Run() {
  if (FLAGS_samples < 0) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--samples is ", FLAGS_samples, "; use 0 or more"));
  }
  CheckReport report = Check();
  if (FLAGS_strict) {
    for (Problem& warning : report.warnings) {
      warning.code = ErrorCode::kInvalidArgument;
      report.problems.push_back(std::move(warning));
    }
    report.warnings.clear();
  }
  if (FLAGS_json) {
    PrintJson(report);
  } else {
    PrintText(report);
  }
  return ExitCode(report);
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
