#include "plan/net_costs.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

bool Learns(const Plan& plan) {
  return std::ranges::any_of(plan.parameters, &ParameterSlot::wants_gradient);
}

NetFile WithoutRecompute(NetFile file) {
  file.net.clear_memory_budget();
  for (LayerParameter& layer : *file.net.mutable_layer()) layer.clear_recompute();
  return file;
}

void AddTraining(const NetFile& file, const Registry& registry, const CostOptions& options,
                 NetCosts* costs) {
  try {
    const auto plan = PlanWithSources(file, registry, options, TRAIN, true, true);
    if (!Learns(*plan)) {
      costs->no_training = "it has no loss above parameters";
      return;
    }
    costs->training = Summarize(*plan);
    if (costs->training.recomputed == 0) return;
    const auto kept = PlanWithSources(WithoutRecompute(file), registry, options, TRAIN, true, true);
    costs->recompute_saves = kept->arena_bytes - plan->arena_bytes;
  } catch (const Error& error) {
    costs->no_training = error.problems().front().message;
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

// Collects what printf would print.
class Text {
 public:
  __attribute__((format(printf, 2, 3))) void Print(const char* format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const auto size = static_cast<size_t>(std::vsnprintf(nullptr, 0, format, again));
    va_end(again);
    std::string added(size + 1, '\0');
    std::vsnprintf(added.data(), added.size(), format, arguments);
    va_end(arguments);
    all_.append(added, 0, size);
  }
  std::string Take() { return std::move(all_); }

 private:
  std::string all_;
};

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

void PrintRow(Text* text, const LayerSummary& layer, int name_width) {
  text->Print("%-*s %-18s %-22s %12ld %15ld %12ld\n", name_width, layer.name.c_str(),
              layer.type.c_str(), Shapes(layer).c_str(), layer.parameters + layer.statistics,
              layer.macs, layer.activation_bytes);
}

void PrintTraining(Text* text, const NetCosts& report) {
  const NetSummary& training = report.training;
  text->Print("planned peak for training: %s, with gradients and SGD's momentum\n",
              Mebibytes(report.training_bytes()).c_str());
  text->Print("  weights %s, their gradients %s, momentum %s\n",
              Mebibytes(training.weight_bytes).c_str(), Mebibytes(training.gradient_bytes).c_str(),
              Mebibytes(report.history_bytes()).c_str());
  text->Print("  activations and their gradients %s, scratch %s, batches read ahead %s\n",
              Mebibytes(training.arena_bytes).c_str(), Mebibytes(training.scratch_bytes).c_str(),
              Mebibytes(training.read_ahead_bytes).c_str());
  text->Print("  packed weights %s, oneDNN's code %s\n", Mebibytes(training.packed_bytes).c_str(),
              Mebibytes(training.primitive_bytes).c_str());
  if (training.recomputed > 0) {
    const double more = training.total.macs > 0
                            ? 100.0 * static_cast<double>(training.recomputed_macs) /
                                  static_cast<double>(3 * training.total.macs)
                            : 0;
    text->Print("  recompute %s %s: %ld layers run forward again, about %.1f %% more MACs\n",
                report.recompute_saves < 0 ? "takes more," : "saves",
                Mebibytes(std::abs(report.recompute_saves)).c_str(), training.recomputed, more);
  }
  text->Print("  while a snapshot is written, %s more\n",
              Mebibytes(report.snapshot_bytes()).c_str());
}

void PrintMemory(Text* text, const NetCosts& report) {
  const NetSummary& inference = report.inference;
  text->Print("planned peak for inference: %s\n", Mebibytes(inference.peak_bytes).c_str());
  text->Print(
      "  weights %s, packed %s, oneDNN's code %s, activations %s, scratch %s, batches read ahead "
      "%s\n",
      Mebibytes(inference.weight_bytes).c_str(), Mebibytes(inference.packed_bytes).c_str(),
      Mebibytes(inference.primitive_bytes).c_str(), Mebibytes(inference.arena_bytes).c_str(),
      Mebibytes(inference.scratch_bytes).c_str(), Mebibytes(inference.read_ahead_bytes).c_str());
  if (report.no_training.empty()) {
    PrintTraining(text, report);
  } else {
    text->Print("planned peak for training: none, %s\n", report.no_training.c_str());
  }
  if (report.process_bytes == 0) return;
  text->Print("the process itself, program and libraries, takes about %s more\n",
              Mebibytes(report.process_bytes).c_str());
}

void PrintTable(Text* text, const NetCosts& report) {
  size_t width = 5;
  for (const LayerSummary& layer : report.net.layers) width = std::max(width, layer.name.size());
  const int name_width = static_cast<int>(std::min<size_t>(width, 40));
  text->Print("%-*s %-18s %-22s %12s %15s %12s\n", name_width, "layer", "type", "output",
              "parameters", "MACs", "bytes");
  for (const LayerSummary& layer : report.net.layers) PrintRow(text, layer, name_width);
  const LayerSummary& total = report.net.total;
  text->Print("learned parameters: %ld (%s)", total.parameters,
              Mebibytes(total.parameters * 4).c_str());
  if (total.statistics > 0) {
    text->Print("; not counted: %ld elements of statistics that BatchNorm keeps", total.statistics);
  }
  text->Print("\nMACs: %ld (%.3f G), products of one forward pass\n", total.macs,
              static_cast<double>(total.macs) / 1e9);
  text->Print("activations: %s\n", Mebibytes(total.activation_bytes).c_str());
  PrintMemory(text, report);
}

void PrintJsonLayer(Text* text, const LayerSummary& layer) {
  text->Print("{\"name\": %s, \"type\": %s, \"outputs\": [", JsonString(layer.name).c_str(),
              JsonString(layer.type).c_str());
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    text->Print("%s[", o == 0 ? "" : ", ");
    for (int a = 0; a < layer.outputs[o].axes(); ++a) {
      text->Print("%s%ld", a == 0 ? "" : ", ", layer.outputs[o][a]);
    }
    text->Print("]");
  }
  text->Print("], \"parameters\": %ld, \"statistics\": %ld, \"macs\": %ld, \"bytes\": %ld}",
              layer.parameters, layer.statistics, layer.macs, layer.activation_bytes);
}

void PrintJsonParts(Text* text, const char* of, const NetSummary& net) {
  text->Print(
      "\"%s\": {\"weight_bytes\": %ld, \"gradient_bytes\": %ld, \"arena_bytes\": %ld, "
      "\"scratch_bytes\": %ld, \"packed_bytes\": %ld, \"primitive_bytes\": %ld, "
      "\"read_ahead_bytes\": %ld},\n",
      of, net.weight_bytes, net.gradient_bytes, net.arena_bytes, net.scratch_bytes,
      net.packed_bytes, net.primitive_bytes, net.read_ahead_bytes);
}

void PrintJson(Text* text, const NetCosts& report) {
  text->Print("{\"layers\": [\n");
  for (const LayerSummary& layer : report.net.layers) {
    if (&layer != &report.net.layers.front()) text->Print(",\n");
    PrintJsonLayer(text, layer);
  }
  const LayerSummary& total = report.net.total;
  text->Print(
      "],\n\"parameters\": %ld, \"statistics\": %ld, \"macs\": %ld, \"activation_bytes\": %ld,\n",
      total.parameters, total.statistics, total.macs, total.activation_bytes);
  PrintJsonParts(text, "inference", report.inference);
  text->Print("\"inference_peak_bytes\": %ld,\n", report.inference.peak_bytes);
  if (report.no_training.empty()) {
    PrintJsonParts(text, "training", report.training);
    text->Print(
        "\"history_bytes\": %ld, \"snapshot_bytes\": %ld, \"recomputed_layers\": %ld,\n"
        "\"recomputed_macs\": %ld, \"recompute_saves_bytes\": %ld, \"training_peak_bytes\": %ld,\n",
        report.history_bytes(), report.snapshot_bytes(), report.training.recomputed,
        report.training.recomputed_macs, report.recompute_saves, report.training_bytes());
  } else {
    text->Print("\"training_peak_bytes\": null, \"no_training\": %s,\n",
                JsonString(report.no_training).c_str());
  }
  text->Print("\"process_bytes\": %ld}\n", report.process_bytes);
}

}  // namespace

std::shared_ptr<const Plan> PlanWithSources(const NetFile& file, const Registry& registry,
                                            const CostOptions& options, Phase phase, bool backward,
                                            bool optimize) {
  NetParameter net = file.net;
  ReplaceSources(options.sources, registry, &net);
  NetState state = options.state;
  state.set_phase(phase);
  PlanOptions plan = options.plan;
  plan.backward = backward;
  plan.optimize = optimize;
  std::vector<Problem> warnings;
  return MakePlan(net, file.source, state, registry, plan, &warnings);
}

NetCosts CostsOf(const NetFile& file, const Registry& registry, const CostOptions& options) {
  const Phase phase = options.state.phase();
  NetCosts costs{.net = {}, .inference = {}, .training = {}, .no_training = {}};
  costs.inference = Summarize(*PlanWithSources(file, registry, options, phase, false, true));
  // With as many plans as a run has.
  if (options.measure_process) costs.process_bytes = PeakResidentBytes() + kFirstPassBytes;
  costs.net = Summarize(*PlanWithSources(file, registry, options, phase, false, false));
  AddTraining(file, registry, options, &costs);
  return costs;
}

std::string TextOf(const NetCosts& costs) {
  Text text;
  PrintTable(&text, costs);
  return text.Take();
}

std::string JsonOf(const NetCosts& costs) {
  Text text;
  PrintJson(&text, costs);
  return text.Take();
}

}  // namespace crema
