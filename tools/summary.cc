// summary: prints the cost of a net, one line per layer.
#include "plan/summary.h"

#include <gflags/gflags.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/gpu_flag.h"
#include "common/json.h"
#include "common/net_flags.h"
#include "common/plan_flags.h"
#include "common/plugin_flag.h"
#include "common/precision_flag.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/replace_sources.h"
#include "runtime/gpu.h"

DEFINE_string(model, "", "the net, a prototxt");
DEFINE_int64(batch, 0, "batch size; 0: as written");
DEFINE_string(shape, "", "shapes of inputs: data:1,3,224,224;label:1");
DEFINE_string(phase, "test", "layers of which phase are listed: test or train");
DEFINE_int32(level, 0, "NetState.level");
DEFINE_string(stage, "", "NetState.stage, separated by commas");
DEFINE_int32(threads, 1, "threads that the memory is planned for; 0: one for each processor");
DEFINE_bool(json, false, "print one JSON object");
DEFINE_bool(plan, false,
            "print the plan instead: which implementation runs each layer, in which layout, "
            "and what is fused; of a forward pass, or with --phase=train of training");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "summary --model=NET [--batch=B] [--shape=BLOB:SIZES] [--json]: prints output shapes, learned\n"
    "parameters, multiply-adds and activation memory of each layer, and the planned peak memory\n"
    "for inference and for training. Data sets may be missing: sizes come from the text or from\n"
    "--shape. With --plan: how each layer will run (docs/performance.md).";

// Copies of each weight besides gradients: SGD's momentum. While a snapshot is written, also the
// state, the model, and the serialised model.
constexpr int64_t kHistories = 1;
constexpr int64_t kSnapshotCopies = kHistories + 2;

struct Report {
  NetSummary net;               // the net as written
  NetSummary inference;         // planned for inference
  NetSummary training;          // without history
  std::string no_training;      // why it cannot be trained; `training` is empty then
  int64_t recompute_saves = 0;  // peak training memory saved, in bytes
  int64_t process_bytes = 0;    // program, libraries, text and plan, measured in this process

  int64_t history_bytes() const { return kHistories * training.gradient_bytes; }
  int64_t training_bytes() const { return training.peak_bytes + history_bytes(); }
  int64_t snapshot_bytes() const { return kSnapshotCopies * training.gradient_bytes; }
};

// The plan refers to the registry, which must outlive it.
std::shared_ptr<const Plan> PlanOf(const NetFile& file, const Registry& registry, Phase phase,
                                   bool backward, bool optimize) {
  NetParameter net = file.net;
  ReplaceSources({.given = ParseShapes(FLAGS_shape), .batch = FLAGS_batch}, registry, &net);
  SetPrecisionOfFlag(&net);
  NetState state = ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage);
  state.set_phase(phase);
  PlanOptions options = PlanOptionsOfFlags();
  options.threads = CheckedThreads(FLAGS_threads);
  options.backward = backward;
  options.device = PlannedDeviceOfFlag();
  options.optimize = optimize;
  if (!FLAGS_plan) options.implementation_timer = nullptr;  // only memory is requested
  std::vector<Problem> warnings;
  return MakePlan(net, file.source, state, registry, options, &warnings);
}

bool Learns(const Plan& plan) {
  return std::ranges::any_of(plan.parameters, &ParameterSlot::wants_gradient);
}

NetFile WithoutRecompute(NetFile file) {
  file.net.clear_memory_budget();
  for (LayerParameter& layer : *file.net.mutable_layer()) layer.clear_recompute();
  return file;
}

void AddTraining(const NetFile& file, const Registry& registry, Report* report) {
  try {
    const auto plan = PlanOf(file, registry, TRAIN, true, true);
    if (!Learns(*plan)) {
      report->no_training = "it has no loss above parameters";
      return;
    }
    report->training = Summarize(*plan);
    if (report->training.recomputed == 0) return;
    const auto kept = PlanOf(WithoutRecompute(file), registry, TRAIN, true, true);
    report->recompute_saves = kept->arena_bytes - plan->arena_bytes;
  } catch (const Error& error) {
    report->no_training = error.problems().front().message;
  }
}

// Memory of starting the first pass besides the plan: threads and their stacks (measured on LeNet).
constexpr int64_t kFirstPassBytes = 1 << 20;

// Peak resident memory of this process.
int64_t PeakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

Report Look(const NetFile& file) {
  const Registry registry = LayersOfFlag();
  const Phase phase = ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage).phase();
  Report report{.net = {}, .inference = {}, .training = {}, .no_training = {}};
  report.inference = Summarize(*PlanOf(file, registry, phase, false, true));
  report.process_bytes = PeakResidentBytes() + kFirstPassBytes;  // with as many plans as a run has
  report.net = Summarize(*PlanOf(file, registry, phase, false, false));
  AddTraining(file, registry, &report);
  return report;
}

std::string Shapes(const LayerSummary& layer) {
  std::string text;
  for (const Shape& shape : layer.outputs) text += (text.empty() ? "" : " ") + ToString(shape);
  return text;
}

std::string Mebibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

void PrintRow(const LayerSummary& layer, int name_width) {
  std::printf("%-*s %-18s %-22s %12ld %15ld %12ld\n", name_width, layer.name.c_str(),
              layer.type.c_str(), Shapes(layer).c_str(), layer.parameters + layer.statistics,
              layer.macs, layer.activation_bytes);
}

void PrintTraining(const Report& report) {
  const NetSummary& training = report.training;
  std::printf("planned peak for training: %s, with gradients and SGD's momentum\n",
              Mebibytes(report.training_bytes()).c_str());
  std::printf("  weights %s, their gradients %s, momentum %s\n",
              Mebibytes(training.weight_bytes).c_str(), Mebibytes(training.gradient_bytes).c_str(),
              Mebibytes(report.history_bytes()).c_str());
  std::printf("  activations and their gradients %s, scratch %s, batches read ahead %s\n",
              Mebibytes(training.arena_bytes).c_str(), Mebibytes(training.scratch_bytes).c_str(),
              Mebibytes(training.read_ahead_bytes).c_str());
  std::printf("  packed weights %s, oneDNN's code %s\n", Mebibytes(training.packed_bytes).c_str(),
              Mebibytes(training.primitive_bytes).c_str());
  if (training.recomputed > 0) {
    const double more = training.total.macs > 0
                            ? 100.0 * static_cast<double>(training.recomputed_macs) /
                                  static_cast<double>(3 * training.total.macs)
                            : 0;
    std::printf("  recompute %s %s: %ld layers run forward again, about %.1f %% more MACs\n",
                report.recompute_saves < 0 ? "takes more," : "saves",
                Mebibytes(std::abs(report.recompute_saves)).c_str(), training.recomputed, more);
  }
  std::printf("  while a snapshot is written, %s more\n",
              Mebibytes(report.snapshot_bytes()).c_str());
}

void PrintMemory(const Report& report) {
  const NetSummary& inference = report.inference;
  std::printf("planned peak for inference: %s\n", Mebibytes(inference.peak_bytes).c_str());
  std::printf(
      "  weights %s, packed %s, oneDNN's code %s, activations %s, scratch %s, batches read ahead "
      "%s\n",
      Mebibytes(inference.weight_bytes).c_str(), Mebibytes(inference.packed_bytes).c_str(),
      Mebibytes(inference.primitive_bytes).c_str(), Mebibytes(inference.arena_bytes).c_str(),
      Mebibytes(inference.scratch_bytes).c_str(), Mebibytes(inference.read_ahead_bytes).c_str());
  if (report.no_training.empty()) {
    PrintTraining(report);
  } else {
    std::printf("planned peak for training: none, %s\n", report.no_training.c_str());
  }
  std::printf("the process itself, program and libraries, takes about %s more\n",
              Mebibytes(report.process_bytes).c_str());
}

void PrintTable(const Report& report) {
  size_t width = 5;
  for (const LayerSummary& layer : report.net.layers) width = std::max(width, layer.name.size());
  const int name_width = static_cast<int>(std::min<size_t>(width, 40));
  std::printf("%-*s %-18s %-22s %12s %15s %12s\n", name_width, "layer", "type", "output",
              "parameters", "MACs", "bytes");
  for (const LayerSummary& layer : report.net.layers) PrintRow(layer, name_width);
  const LayerSummary& total = report.net.total;
  std::printf("learned parameters: %ld (%s)", total.parameters,
              Mebibytes(total.parameters * 4).c_str());
  if (total.statistics > 0) {
    std::printf("; not counted: %ld elements of statistics that BatchNorm keeps", total.statistics);
  }
  std::printf("\nMACs: %ld (%.3f G), products of one forward pass\n", total.macs,
              static_cast<double>(total.macs) / 1e9);
  std::printf("activations: %s\n", Mebibytes(total.activation_bytes).c_str());
  PrintMemory(report);
}

void PrintJsonLayer(const LayerSummary& layer) {
  std::printf("{\"name\": %s, \"type\": %s, \"outputs\": [", JsonString(layer.name).c_str(),
              JsonString(layer.type).c_str());
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    std::printf("%s[", o == 0 ? "" : ", ");
    for (int a = 0; a < layer.outputs[o].axes(); ++a) {
      std::printf("%s%ld", a == 0 ? "" : ", ", layer.outputs[o][a]);
    }
    std::printf("]");
  }
  std::printf("], \"parameters\": %ld, \"statistics\": %ld, \"macs\": %ld, \"bytes\": %ld}",
              layer.parameters, layer.statistics, layer.macs, layer.activation_bytes);
}

void PrintJsonParts(const char* of, const NetSummary& net) {
  std::printf(
      "\"%s\": {\"weight_bytes\": %ld, \"gradient_bytes\": %ld, \"arena_bytes\": %ld, "
      "\"scratch_bytes\": %ld, \"packed_bytes\": %ld, \"primitive_bytes\": %ld, "
      "\"read_ahead_bytes\": %ld},\n",
      of, net.weight_bytes, net.gradient_bytes, net.arena_bytes, net.scratch_bytes,
      net.packed_bytes, net.primitive_bytes, net.read_ahead_bytes);
}

void PrintJson(const Report& report) {
  std::printf("{\"layers\": [\n");
  for (const LayerSummary& layer : report.net.layers) {
    if (&layer != &report.net.layers.front()) std::printf(",\n");
    PrintJsonLayer(layer);
  }
  const LayerSummary& total = report.net.total;
  std::printf(
      "],\n\"parameters\": %ld, \"statistics\": %ld, \"macs\": %ld, \"activation_bytes\": %ld,\n",
      total.parameters, total.statistics, total.macs, total.activation_bytes);
  PrintJsonParts("inference", report.inference);
  std::printf("\"inference_peak_bytes\": %ld,\n", report.inference.peak_bytes);
  if (report.no_training.empty()) {
    PrintJsonParts("training", report.training);
    std::printf(
        "\"history_bytes\": %ld, \"snapshot_bytes\": %ld, \"recomputed_layers\": %ld,\n"
        "\"recomputed_macs\": %ld, \"recompute_saves_bytes\": %ld, \"training_peak_bytes\": %ld,\n",
        report.history_bytes(), report.snapshot_bytes(), report.training.recomputed,
        report.training.recomputed_macs, report.recompute_saves, report.training_bytes());
  } else {
    std::printf("\"training_peak_bytes\": null, \"no_training\": %s,\n",
                JsonString(report.no_training).c_str());
  }
  std::printf("\"process_bytes\": %ld}\n", report.process_bytes);
}

int Run() {
  RequireFlag(FLAGS_model, "model");
  if (FLAGS_batch < 0) Fail(ErrorCode::kInvalidArgument, StrCat("--batch is ", FLAGS_batch));
  const NetFile file = ReadNet(FLAGS_model);
  if (FLAGS_plan && FLAGS_json) {
    Fail(ErrorCode::kInvalidArgument, "--plan is text; leave --json out");
  }
  if (FLAGS_plan) {
    const Registry registry = LayersOfFlag();
    const Phase phase = ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage).phase();
    const auto plan = PlanOf(file, registry, phase, phase == TRAIN, true);
    std::printf("%s", DescribePlan(*plan).c_str());
    if (plan->options.device.type == DeviceType::kCuda && !WhyNoGpu().empty()) {
      std::printf(
          "This machine has no GPU: what cuDNN can do for a layer, fusion too, is asked on the "
          "GPU, so that "
          "some layers will run by it instead.\n");
    }
    return 0;
  }
  const Report report = Look(file);
  if (FLAGS_json) {
    PrintJson(report);
  } else {
    PrintTable(report);
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
