// summary: what a net costs, a layer a line.
#include "graph/summary.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/json.h"
#include "common/net_flags.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/prototxt.h"
#include "graph/replace_sources.h"

DEFINE_string(model, "", "the net, a prototxt");
DEFINE_int64(batch, 0, "batch size; 0: as written");
DEFINE_string(shape, "", "extents of inputs: data:1,3,224,224;label:1");
DEFINE_string(phase, "test", "layers of which phase are listed: test or train");
DEFINE_int32(level, 0, "NetState.level");
DEFINE_string(stage, "", "NetState.stage, separated by commas");
DEFINE_int32(threads, 1, "threads that the memory is planned for; 0: one for each processor");
DEFINE_bool(json, false, "print one JSON object");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "summary --model=NET [--batch=B] [--shape=BLOB:EXTENTS] [--json]: output shapes, learned\n"
    "parameters, multiply-adds and activation memory of each layer, and the planned peak memory\n"
    "for inference and for training. Data sets need not be there: sizes are read off the text or\n"
    "given by --shape.";

struct Report {
  NetSummary net;               // of the net as it is written
  int64_t inference_bytes = 0;  // planned for production
  int64_t training_bytes = 0;   // with one history blob for each weight; 0: cannot be trained
  std::string no_training;      // why not
};

// The plan points into the registry, which must live as long.
std::shared_ptr<const Plan> PlanOf(const NetFile& file, const Registry& registry, Phase phase,
                                   bool backward, bool optimize) {
  NetParameter net = file.net;
  ReplaceSources({.given = ParseShapes(FLAGS_shape), .batch = FLAGS_batch}, &net);
  NetState state = ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage);
  state.set_phase(phase);
  std::vector<Problem> warnings;
  return MakePlan(
      net, file.source, state, registry,
      {.threads = CheckedThreads(FLAGS_threads), .backward = backward, .optimize = optimize},
      &warnings);
}

bool Learns(const Plan& plan) {
  return std::ranges::any_of(plan.learned, &LearnedSlot::wants_gradient);
}

void AddTraining(const NetFile& file, const Registry& registry, Report* report) {
  try {
    const auto plan = PlanOf(file, registry, TRAIN, true, true);
    const NetSummary training = Summarize(*plan);
    if (!Learns(*plan)) {
      report->no_training = "it has no loss above learned blobs";
      return;
    }
    report->training_bytes = training.peak_bytes + training.total.learned * 4;
  } catch (const Error& error) {
    report->no_training = error.problems().front().message;
  }
}

Report Look(const NetFile& file) {
  const Registry registry = BuiltinRegistry();
  const Phase phase = ParseState(FLAGS_phase, FLAGS_level, FLAGS_stage).phase();
  Report report{.net = Summarize(*PlanOf(file, registry, phase, false, false)), .no_training = {}};
  report.inference_bytes = Summarize(*PlanOf(file, registry, phase, false, true)).peak_bytes;
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
              layer.type.c_str(), Shapes(layer).c_str(), layer.learned + layer.statistics,
              layer.macs, layer.activation_bytes);
}

void PrintTable(const Report& report) {
  size_t width = 5;
  for (const LayerSummary& layer : report.net.layers) width = std::max(width, layer.name.size());
  const int name_width = static_cast<int>(std::min<size_t>(width, 40));
  std::printf("%-*s %-18s %-22s %12s %15s %12s\n", name_width, "layer", "type", "output",
              "parameters", "MACs", "bytes");
  for (const LayerSummary& layer : report.net.layers) PrintRow(layer, name_width);
  const LayerSummary& total = report.net.total;
  std::printf("learned parameters: %ld (%s)", total.learned, Mebibytes(total.learned * 4).c_str());
  if (total.statistics > 0) {
    std::printf("; not counted: %ld elements of statistics that BatchNorm keeps", total.statistics);
  }
  std::printf("\nMACs: %ld (%.3f G), products of one forward pass\n", total.macs,
              static_cast<double>(total.macs) / 1e9);
  std::printf("activations: %s\n", Mebibytes(total.activation_bytes).c_str());
  std::printf("planned peak for inference: %s\n", Mebibytes(report.inference_bytes).c_str());
  if (report.no_training.empty()) {
    std::printf("planned peak for training: %s, with gradients and SGD's momentum\n",
                Mebibytes(report.training_bytes).c_str());
  } else {
    std::printf("planned peak for training: none, %s\n", report.no_training.c_str());
  }
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
              layer.learned, layer.statistics, layer.macs, layer.activation_bytes);
}

void PrintJson(const Report& report) {
  std::printf("{\"layers\": [\n");
  for (const LayerSummary& layer : report.net.layers) {
    if (&layer != &report.net.layers.front()) std::printf(",\n");
    PrintJsonLayer(layer);
  }
  const LayerSummary& total = report.net.total;
  std::printf(
      "],\n\"parameters\": %ld, \"statistics\": %ld, \"macs\": %ld, "
      "\"activation_bytes\": %ld,\n\"inference_peak_bytes\": %ld, ",
      total.learned, total.statistics, total.macs, total.activation_bytes, report.inference_bytes);
  if (report.no_training.empty()) {
    std::printf("\"training_peak_bytes\": %ld}\n", report.training_bytes);
  } else {
    std::printf("\"training_peak_bytes\": null, \"no_training\": %s}\n",
                JsonString(report.no_training).c_str());
  }
}

int Run() {
  RequireFlag(FLAGS_model, "model");
  if (FLAGS_batch < 0) Fail(ErrorCode::kInvalidArgument, StrCat("--batch is ", FLAGS_batch));
  const Report report = Look(ReadNet(FLAGS_model));
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
