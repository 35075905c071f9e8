// summary: prints the cost of a net, one line per layer.
#include <gflags/gflags.h>

#include <cstdio>
#include <vector>

#include "common/gpu_flag.h"
#include "common/net_flags.h"
#include "common/plan_flags.h"
#include "common/plugin_flag.h"
#include "common/precision_flag.h"
#include "common/set_flag.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "plan/net_costs.h"
#include "runtime/gpu.h"

DEFINE_string(model, "", "[Input FILE required #1] the net, a prototxt");
DEFINE_int64(batch, 0, "[Run] batch size; 0: as written");
DEFINE_string(shape, "", "[Input NAME=SIZES] shapes of inputs: data=1x3x224x224,label=1");
DEFINE_string(phase, "test", "[Run train|test] phase to list: test or train");
DEFINE_int32(level, 0, "[Expert] NetState.level");
DEFINE_string(stage, "", "[Expert] NetState.stage, separated by commas");
DEFINE_int32(threads, 1,
             "[Run N] threads that the memory is planned for; 0: one for each processor");
DEFINE_bool(json, false, "[Output] print one JSON object");
DEFINE_bool(
    plan, false,
    "[Output] print the plan instead: the implementation and layout of each layer, and fused "
    "layers; of a forward pass, or with --phase=train of training");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema summary NET [--plan] [flags]\n"
    "\n"
    "Prints what a net costs, a layer a line. The lines have output shapes, learned\n"
    "parameters, multiply-adds and activation memory; the end has the planned peak memory for\n"
    "inference and for training. Data sets may be missing: sizes come from the text or from\n"
    "--shape. --plan prints how each layer will run (docs/performance.md).\n"
    "\n"
    "Examples:\n"
    "crema summary models/lenet/train_val.prototxt\n"
    "crema summary deploy.prototxt --batch=8 --plan";

CostOptions OptionsOfFlags() {
  CostOptions options;
  options.sources = {.given = ParseShapes(FLAGS_shape), .batch = FLAGS_batch};
  options.state = ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage);
  options.plan = PlanOptionsOfFlags();
  options.plan.threads = CheckedThreads(FLAGS_threads);
  options.plan.device = PlannedDeviceOfFlag();
  if (!FLAGS_plan) options.plan.implementation_timer = nullptr;  // only memory is requested
  options.measure_process = true;
  return options;
}

int Run() {
  if (FLAGS_batch < 0)
    Fail(ErrorCode::kInvalidArgument, StrCat("--batch is ", FLAGS_batch, "; use 0 or more"));
  NetFile file = ReadNet(FLAGS_model, SettingsOfFlags());
  SetPrecisionOfFlag(&file.net);
  if (FLAGS_plan && FLAGS_json) {
    Fail(ErrorCode::kInvalidArgument, "--plan is text; leave --json out");
  }
  const Registry registry = LayersOfFlag();
  const CostOptions options = OptionsOfFlags();
  if (FLAGS_plan) {
    const Phase phase = options.state.phase();
    const auto plan = PlanWithSources(file, registry, options, phase, phase == TRAIN, true);
    std::printf("%s", DescribePlan(*plan).c_str());
    if (plan->options.device.type == DeviceType::kCuda && !WhyNoGpu().empty()) {
      std::printf(
          "This machine has no GPU: what cuDNN can do for a layer, fusion too, is asked on the "
          "GPU, so that "
          "some layers will run by it instead.\n");
    }
    return 0;
  }
  const NetCosts costs = CostsOf(file, registry, options);
  std::fputs((FLAGS_json ? JsonOf(costs) : TextOf(costs)).c_str(), stdout);
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
