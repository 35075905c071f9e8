// replay: makes a recording, or compares a run with one.
#include "runtime/replay.h"

#include <gflags/gflags.h>

#include <cstdio>
#include <optional>

#include "common/gpu_flag.h"
#include "common/output_file.h"
#include "common/plan_flags.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/file.h"

DEFINE_string(model, "", "[Input FILE required #1] the net, a prototxt");
DEFINE_string(weights, "",
              "[Input FILE] its parameters, a caffemodel; without it the fillers are used");
DEFINE_string(golden, "",
              "[Input FILE required] the recording to compare with, or to write with --record");
DEFINE_double(rtol, 1e-4, "[Run] relative tolerance, of the largest recorded value of a blob");
DEFINE_double(atol, 1e-5, "[Run] absolute tolerance");
DEFINE_int32(optimize, 0,
             "[Run 0|1] 1: plan as for production (fused, memory shared); compares what is left");
DEFINE_bool(record, false, "[Output] write --golden from a run of our own");
DEFINE_string(inputs, "", "[Input FILE] with --record: a recording to take the inputs from");
DEFINE_bool(gradients, true, "[Run] with --record: run backward and record gradients");
DEFINE_int32(threads, 0, "[Run N] threads; 0: one for each processor");
DEFINE_uint64(seed, 1, "[Run] with --record: seed of random inputs and fillers");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema replay NET --golden=FILE [--weights=FILE] [flags]\n"
    "crema replay NET --golden=FILE --record [flags]\n"
    "\n"
    "Compares a net with recorded numbers. Runs the net on the recorded inputs and compares\n"
    "every recorded blob, gradient and parameter; prints a line for each. Exit code 1 at the\n"
    "first layer out of tolerance. --record writes such a recording.\n"
    "\n"
    "Examples:\n"
    "crema replay net.prototxt --golden=net.golden --record\n"
    "crema replay net.prototxt --golden=net.golden --weights=net.caffemodel";

int Compare(const ReplayNet& net, const Registry& registry) {
  const ReplayResult result = Replay(net, ReadNetBinary(FLAGS_golden), registry,
                                     {.rtol = FLAGS_rtol,
                                      .atol = FLAGS_atol,
                                      .optimize = FLAGS_optimize != 0,
                                      .threads = CheckedThreads(FLAGS_threads),
                                      .plan = PlanOptionsOfFlags(),
                                      .device = DeviceOfFlag()});
  for (const ReplayLine& line : result.lines) {
    std::printf("%-40s max abs %-12.6g max rel %-12.6g %s%s%s\n", line.what.c_str(),
                line.max_absolute, line.max_relative, line.fits ? "ok" : "OUT OF TOLERANCE",
                line.note.empty() ? "" : ": ", line.note.c_str());
  }
  for (const std::string& name : result.not_compared) {
    std::printf("%-40s not compared: not in the optimised plan\n", name.c_str());
  }
  if (result.fits) return 0;
  const ReplayLine& last = result.lines.back();
  std::printf("first misfit: %s of layer \"%s\"\n", last.what.c_str(), last.layer.c_str());
  return 1;
}

int Run() {
  if (!(FLAGS_rtol >= 0 && FLAGS_atol >= 0)) {
    Fail(ErrorCode::kInvalidArgument, "--rtol and --atol must be 0 or more");
  }
  if (FLAGS_record) {
    ProtectedFiles({FLAGS_model, FLAGS_weights, FLAGS_inputs})
        .RefuseToReplace("golden", FLAGS_golden, ".binaryproto");
  }
  const Registry registry = LayersOfFlag();
  const NetFile file = ReadNet(FLAGS_model);
  std::optional<NetParameter> weights;
  if (!FLAGS_weights.empty()) weights = ReadCaffemodel(FLAGS_weights);
  const ReplayNet net{file, weights ? &*weights : nullptr, FLAGS_weights};
  if (!FLAGS_record) return Compare(net, registry);
  std::optional<NetParameter> inputs;
  if (!FLAGS_inputs.empty()) inputs = ReadNetBinary(FLAGS_inputs);
  const NetParameter recording = Record(net, inputs ? &*inputs : nullptr, registry,
                                        {.gradients = FLAGS_gradients,
                                         .threads = CheckedThreads(FLAGS_threads),
                                         .seed = FLAGS_seed,
                                         .plan = PlanOptionsOfFlags()});
  if (recording.ByteSizeLong() > INT32_MAX) {
    Fail(ErrorCode::kUnsupported, "the recording would be larger than 2 GiB");
  }
  WriteFileAtomically(FLAGS_golden, recording.SerializeAsString());
  std::printf("recorded %d values to %s\n", recording.layer_size(), FLAGS_golden.c_str());
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
