// profile: measures the time of each layer and compares it with the peak performance of the
// machine.
#include <gflags/gflags.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/gpu_flag.h"
#include "common/log.h"
#include "common/net_flags.h"
#include "common/output_file.h"
#include "common/plan_flags.h"
#include "common/plugin_flag.h"
#include "common/precision_flag.h"
#include "common/set_flag.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "graph/replace_sources.h"
#include "profile/heap_counter.h"
#include "profile/report.h"
#include "runtime/gpu.h"
#include "runtime/profiler.h"
#include "runtime/weights.h"

DEFINE_string(model, "", "[Input FILE required #1] the net, a prototxt");
DEFINE_string(weights, "",
              "[Input FILE] its parameters, a caffemodel; without it the fillers are used");
DEFINE_string(phase, "TRAIN", "[Run train|test] phase to run: TRAIN (with backward) or TEST");
DEFINE_int64(iterations, 50, "[Run] passes that are timed");
DEFINE_int64(warmup, 5, "[Run] passes before the timed ones");
DEFINE_int64(batch, 0, "[Run] batch size; 0: as written");
DEFINE_string(shape, "", "[Input NAME=SIZES] shapes of inputs: data=1x3x224x224,label=1");
DEFINE_int32(level, 0, "[Expert] NetState.level");
DEFINE_string(stage, "", "[Expert] NetState.stage, separated by commas");
DEFINE_int32(threads, 0, "[Run N] threads; 0: one for each processor");
DEFINE_string(sort, "time", "[Output time|net] order of the table: time or net");
DEFINE_string(
    trace, "",
    "[Output FILE.json] file for the timed passes as Chrome's trace events (Perfetto reads it)");
DEFINE_bool(json, false, "[Output] print one JSON object");
DEFINE_double(peak_gflops, 0, "[Expert] peak of the machine, 1e9 operations a second; 0: measured");
DEFINE_double(peak_gbs, 0, "[Expert] peak of the memory, 1e9 bytes a second; 0: measured");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema profile NET [--weights=FILE] [--phase=train|test] [flags]\n"
    "\n"
    "Measures how long each layer of a net takes. Prints the median and the 95th percentile\n"
    "of the time of each layer, forward and backward, its rate of operations and of bytes as\n"
    "a share of the machine's peak, allocations, and its implementation with the reasons why\n"
    "others were skipped. Data sets may be missing: sizes come from the text or from --shape.\n"
    "See docs/profile.md.\n"
    "\n"
    "Examples:\n"
    "crema profile models/lenet/train_val.prototxt\n"
    "crema profile deploy.prototxt --phase=test --batch=1 --trace=trace.json";

void CheckFlags() {
  if (FLAGS_batch < 0)
    Fail(ErrorCode::kInvalidArgument, StrCat("--batch is ", FLAGS_batch, "; use 0 or more"));
  if (FLAGS_iterations < 1) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--iterations is ", FLAGS_iterations, "; time at least 1 pass"));
  }
  if (FLAGS_warmup < 0) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--warmup is ", FLAGS_warmup, "; use 0 or more"));
  }
  for (const double peak : {FLAGS_peak_gflops, FLAGS_peak_gbs}) {
    if (std::isfinite(peak) && peak >= 0) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--peak_gflops and --peak_gbs are rates above 0, not ", peak));
  }
}

LayerOrder OrderOfFlag() {
  if (FLAGS_sort == "time") return LayerOrder::kTime;
  if (FLAGS_sort == "net") return LayerOrder::kNet;
  const std::vector<std::string> known = {"time", "net"};
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--sort: '", FLAGS_sort, "' is not one of time, net", DidYouMean(FLAGS_sort, known)));
}

std::shared_ptr<const Plan> PlanOf(const NetFile& file, const Registry& registry, int threads,
                                   const Device& device, bool backward) {
  NetParameter net = file.net;
  ReplaceSources({.given = ParseShapes(FLAGS_shape), .batch = FLAGS_batch}, registry, &net);
  SetPrecisionOfFlag(&net);
  PlanOptions options = PlanOptionsOfFlags();
  options.threads = threads;
  options.backward = backward;
  options.device = device;
  std::vector<Problem> warnings;
  auto plan = MakePlan(net, file.source, ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage),
                       registry, options, &warnings);
  for (const Problem& warning : warnings) {
    ToolLog().Write(Severity::kWarning, ToString(warning));
  }
  return plan;
}

// Returns why a plan with backward has no backward pass; empty if it has one.
std::string WhyNoBackward(const Plan& plan) {
  if (std::ranges::any_of(plan.layers, &PlannedLayer::backward)) return "";
  return "no parameter or input below a loss wants a gradient";
}

// Rows of SSD's labels: item, class, instance, xmin, ymin, xmax, ymax, difficult.
void FillBoxes(int64_t batch, std::span<float> rows) {
  constexpr std::array<float, 8> kRow = {0, 1, 0, 0.25F, 0.25F, 0.75F, 0.75F, 0};
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = kRow[i % 8];
  const auto count = static_cast<int64_t>(rows.size() / 8);
  for (int64_t r = 0; r < count; ++r) {
    const int64_t item = r * batch / count;
    rows[static_cast<size_t>(r) * 8] = static_cast<float>(item);
  }
}

void FillPixels(const TensorView& pixels) {
  const RandomStream stream(1, 1);
  const std::span<uint8_t> bytes = pixels.span<uint8_t>();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(stream.Below(i, 256));
}

// Fills output `v` of an Input: images with 0..1, or bytes with 0..255; boxes with one object per
// image; labels and other inputs with 0.
void FillInput(const Plan& plan, const PlannedLayer& layer, int v, bool boxes,
               const TensorView& input) {
  if (input.dtype() == DType::kU8) return FillPixels(input);
  const std::span<float> values = input.span<float>();
  if (boxes) {
    const Shape& first = plan.values[static_cast<size_t>(layer.outputs[0])].spec.shape;
    FillBoxes(first[0], values);
  } else if (v == layer.outputs[0] && input.shape().axes() >= 4) {
    const std::string& name = plan.values[static_cast<size_t>(v)].name;
    const RandomStream stream(1, HashName(name));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(stream.Uniform(i));
  }
}

// `net` contains the data layers that were replaced by inputs.
void FillInputs(const NetParameter& net, const Plan& plan, Session* session) {
  std::set<std::string> boxes;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() == "AnnotatedData" && layer.top_size() > 1) boxes.insert(layer.top(1));
  }
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name != "Input") continue;
    for (int v : layer.outputs) {
      const PlannedValue& value = plan.values[static_cast<size_t>(v)];
      Tensor input(value.spec.shape, value.spec.dtype);
      FillInput(plan, layer, v, boxes.contains(value.name), input.view());
      session->Write(session->MutableData(value.name), input.view().raw());
    }
  }
}

Roofline PeakOf(const Device& device, int threads) {
  const bool given = FLAGS_peak_gflops > 0 && FLAGS_peak_gbs > 0;
  if (device.type != DeviceType::kCpu && !given) {
    const GpuRates rates = MeasureGpuRates(device.ordinal);
    return {.gflops = FLAGS_peak_gflops > 0 ? FLAGS_peak_gflops : rates.f32_gflops,
            .gbs = FLAGS_peak_gbs > 0 ? FLAGS_peak_gbs : rates.copy_gbs};
  }
  return {.gflops = FLAGS_peak_gflops > 0 ? FLAGS_peak_gflops : MeasurePeakGflops(threads),
          .gbs = FLAGS_peak_gbs > 0 ? FLAGS_peak_gbs : MeasurePeakGbs(threads)};
}

// Measures before and after the passes, in case other programs used the cores once.
Roofline Larger(const Roofline& a, const Roofline& b) {
  return {.gflops = std::max(a.gflops, b.gflops), .gbs = std::max(a.gbs, b.gbs)};
}

void LogFirstLoss(Session* session) {
  ToolLog().Write(Severity::kInfo, "Performing Forward");
  ToolLog().Write(Severity::kInfo, StrCat("Initial loss: ", session->Forward()));
}

int Run() {
  CheckFlags();
  const ComputeDevice device = DeviceOfFlag();
  // Measures before the session allocates memory, which a GPU measurement needs.
  const Roofline before = PeakOf(device.device, CheckedThreads(FLAGS_threads));
  if (!FLAGS_trace.empty()) CheckOutputFile(FLAGS_trace);
  const LayerOrder order = OrderOfFlag();
  const int threads = CheckedThreads(FLAGS_threads);
  Registry registry = LayersOfFlag();
  NetFile file = ReadNet(FLAGS_model, SettingsOfFlags());
  LoadPlugins(&file, &registry);
  const bool train = ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage).phase() == TRAIN;
  std::shared_ptr<const Plan> plan = PlanOf(file, registry, threads, device.device, train);
  const std::string no_backward = train ? WhyNoBackward(*plan) : "the phase is TEST";
  if (train && !no_backward.empty()) plan = PlanOf(file, registry, threads, device.device, false);
  const std::shared_ptr<Weights> weights = Weights::MakeToLoad(*plan, 1);
  if (FLAGS_weights.empty()) {
    weights->FillRest(*plan);
  } else {
    LoadFiles(WeightsOfFlags({FLAGS_weights}, MissingLayers::kKeep), *plan, weights.get(),
              &ToolLog());
  }
  Session session(plan, weights, device.Context(threads, 1));
  if (!train) session.FixWeights();
  FillInputs(file.net, *plan, &session);
  if (IsAsCaffe()) LogFirstLoss(&session);
  const ProfileOptions options{
      .iterations = FLAGS_iterations, .warmup = FLAGS_warmup, .heap_use = HeapCounter()};
  const Profile profile = ProfileSession(&session, options);
  const Roofline after = device.is_gpu() ? before : PeakOf(device.device, threads);
  const ProfileReport report{.plan = *plan,
                             .profile = profile,
                             .options = options,
                             .threads = threads,
                             .peak = Larger(before, after),
                             .no_backward = no_backward};
  if (!FLAGS_trace.empty()) WriteFileAtomically(FLAGS_trace, ChromeTrace(report));
  if (IsAsCaffe()) {
    LogCaffeLines(report, ToolLog());
  } else if (FLAGS_json) {
    PrintJson(report);
  } else {
    PrintTable(report, order);
  }
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
