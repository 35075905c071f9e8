// evaluate: runs the TEST phase of a net over its data set.
#include "runtime/evaluate.h"

#include <gflags/gflags.h>

#include <cmath>
#include <cstdio>

#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/strings.h"

DEFINE_string(model, "", "the net with its data layer, a prototxt");
DEFINE_string(weights, "",
              "its learned blobs: caffemodels, separated by commas; later ones add and override");
DEFINE_int64(iterations, 0, "batches; 0: every sample exactly once");
DEFINE_int32(threads, 0, "threads; 0: one for each processor");
DEFINE_int32(level, 0, "NetState.level");
DEFINE_string(stage, "", "NetState.stage, separated by commas");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "evaluate --model=NET --weights=W [--iterations=K]: prints the mean of each output of the net\n"
    "over its data set.";

int Run() {
  RequireFlag(FLAGS_model, "model");
  RequireFlag(FLAGS_weights, "weights");
  if (FLAGS_iterations < 0) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--iterations is ", FLAGS_iterations));
  }
  const Registry registry = BuiltinRegistry();
  const NetFile net = ReadNet(FLAGS_model);
  const WeightsFiles weights = WeightsOfFlags({FLAGS_weights}, MissingLayers::kError);
  EvaluationOptions options{.iterations = FLAGS_iterations,
                            .threads = CheckedThreads(FLAGS_threads),
                            .level = FLAGS_level,
                            .stages = {},
                            .log = &ToolLog()};
  if (!FLAGS_stage.empty()) options.stages = Split(FLAGS_stage, ',');
  const Evaluation result = Evaluate(net, weights, registry, options);
  std::printf("%ld samples in %ld batches\n", result.samples, result.batches);
  std::printf("Loss: %g\n", result.loss);
  for (const EvaluatedOutput& output : result.outputs) {
    std::printf("%s = %g", output.blob.c_str(), output.mean);
    if (output.loss_weight != 0) {
      std::printf(" (* %g = %g loss)", output.loss_weight, output.loss_weight * output.mean);
    }
    std::printf("\n");
  }
  if (std::isfinite(result.loss)) return 0;
  std::fprintf(stderr,
               "error: the loss is not finite: these weights come from a run that diverged\n");
  return ExitCode(ErrorCode::kDiverged);
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
