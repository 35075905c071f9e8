#include <algorithm>
#include <cstdio>

#include "core/strings.h"
#include "profile/report.h"

namespace crema::tools {
namespace {

constexpr size_t kNameWidth = 24;
constexpr size_t kTypeWidth = 15;
constexpr size_t kLineWidth = 100;

// Keeps the end of long names, which distinguishes branches.
std::string Cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : ".." + text.substr(text.size() - (width - 2));
}

std::string PeakText(const PassProfile& pass, const Roofline& peak) {
  const double flops = FlopShare(pass, peak);
  const double memory = MemoryShare(pass, peak);
  const double percent = 100 * std::max(flops, memory);
  char text[32];
  std::snprintf(text, sizeof(text), "%s%.0f%% %s", percent > 999 ? ">" : "",
                std::min(percent, 999.0), flops >= memory ? "cpu" : "mem");
  return text;
}

std::string Milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), seconds < 1 ? "%.4f" : "%.1f", 1e3 * seconds);
  return text;
}

void PrintPass(const std::string& name, const std::string& type, const char* pass_name,
               const PassProfile& pass, const ProfileReport& report) {
  const double total = report.profile.total();
  std::printf("%-*s %-*s %-3s %9s %9s %5.1f%% %8.2f %8.2f %9s\n", static_cast<int>(kNameWidth),
              Cut(name, kNameWidth).c_str(), static_cast<int>(kTypeWidth),
              type.substr(0, kTypeWidth).c_str(), pass_name, Milliseconds(pass.median).c_str(),
              Milliseconds(pass.p95).c_str(), total > 0 ? 100 * pass.total / total : 0,
              pass.gflops(), pass.gbs(), PeakText(pass, report.peak).c_str());
}

std::vector<const LayerProfile*> Ordered(const Profile& profile, LayerOrder order) {
  std::vector<const LayerProfile*> layers;
  for (const LayerProfile& layer : profile.layers) layers.push_back(&layer);
  if (order == LayerOrder::kTime) {
    std::ranges::stable_sort(layers, std::greater<>(), &LayerProfile::total);
  }
  return layers;
}

void PrintHead(const ProfileReport& report) {
  std::printf("net \"%s\", %s, batch %ld, threads %d; timed %ld, warm-up %ld\n",
              report.plan.name.c_str(), Phase_Name(report.plan.state.phase()).c_str(),
              report.profile.batch, report.threads, report.options.iterations,
              report.options.warmup);
  std::printf("peak of this machine: %.1f GFLOP/s (cpu), %.1f GB/s (mem)\n\n", report.peak.gflops,
              report.peak.gbs);
}

void PrintLayers(const ProfileReport& report, const std::vector<const LayerProfile*>& layers) {
  std::printf("%-*s %-*s %-3s %9s %9s %6s %8s %8s %9s\n", static_cast<int>(kNameWidth), "layer",
              static_cast<int>(kTypeWidth), "type", "", "median ms", "p95 ms", "share", "GFLOP/s",
              "GB/s", "peak");
  double inside = 0;
  for (const LayerProfile* layer : layers) {
    const PlannedLayer& planned = report.plan.layers[layer->layer];
    const bool forward = !layer->forward.runs.empty();
    if (forward) PrintPass(planned.name(), planned.type->name, "fwd", layer->forward, report);
    if (!layer->backward.runs.empty()) PrintPass("", "", "bwd", layer->backward, report);
    if (!layer->recompute.runs.empty()) PrintPass("", "", "rec", layer->recompute, report);
    inside += layer->total();
  }
  const double total = report.profile.total();
  const double between = std::max(0.0, total - inside);
  std::printf("%-*s %-*s %-3s %9s %9s %5.1f%%\n", static_cast<int>(kNameWidth), "(between layers)",
              static_cast<int>(kTypeWidth), "", "",
              Milliseconds(between / static_cast<double>(report.options.iterations)).c_str(), "",
              total > 0 ? 100 * between / total : 0);
}

void PrintAllocations(const ProfileReport& report) {
  if (!report.profile.heap_counted) {
    std::printf("allocations: not counted in this build\n");
    return;
  }
  const HeapUse& heap = report.profile.iteration.heap;
  std::printf("allocations in the timed passes: %ld, %ld bytes (all of the process)\n",
              heap.allocations, heap.bytes);
  for (const LayerProfile& layer : report.profile.layers) {
    const int64_t count = layer.forward.heap.allocations + layer.backward.heap.allocations +
                          layer.recompute.heap.allocations;
    if (count == 0) continue;
    std::printf("  %s: %ld, %ld bytes\n", report.plan.layers[layer.layer].name().c_str(), count,
                layer.forward.heap.bytes + layer.backward.heap.bytes + layer.recompute.heap.bytes);
  }
}

// A layer can exceed the measured peak only if that was disturbed, or if the implementation saves
// multiplications.
void PrintDoubts(const ProfileReport& report) {
  constexpr double kDoubtful = 1.2;
  const bool doubtful = std::ranges::any_of(report.profile.layers, [&](const LayerProfile& layer) {
    if (ImplementationName(report.plan.layers[layer.layer]) == "winograd") return false;
    return std::max(FlopShare(layer.forward, report.peak), FlopShare(layer.backward, report.peak)) >
           kDoubtful;
  });
  if (!doubtful) return;
  std::printf(
      "the peak of operations is too low: other programs used the cores while it was\n"
      "measured; run again, or give --peak_gflops\n");
}

void PrintTotals(const ProfileReport& report) {
  const Profile& profile = report.profile;
  std::printf("\n");
  PrintPass("forward", "", "", profile.forward, report);
  if (report.no_backward.empty()) {
    PrintPass("backward", "", "", profile.backward, report);
    PrintPass("forward and backward", "", "", profile.iteration, report);
  } else {
    std::printf("no backward: %s\n", report.no_backward.c_str());
  }
  if (profile.batch > 0) std::printf("images/s: %.1f\n", profile.images_per_second());
  PrintAllocations(report);
  PrintDoubts(report);
}

// Wraps text at 100 columns, indented by `indent` blanks.
void PrintWrapped(const std::string& text, size_t indent) {
  std::string line(indent, ' ');
  for (const std::string& word : Split(text, ' ')) {
    if (line.size() + word.size() >= kLineWidth && line.size() > indent) {
      std::printf("%s\n", line.substr(0, line.size() - 1).c_str());
      line.assign(indent, ' ');
    }
    line += word + " ";
  }
  std::printf("%s\n", line.substr(0, line.size() - 1).c_str());
}

void PrintImplementations(const ProfileReport& report) {
  std::printf("\nimplementations, and why others were passed over\n");
  for (const LayerProfile& layer : report.profile.layers) {
    const PlannedLayer& planned = report.plan.layers[layer.layer];
    std::printf("  %-*s %s\n", static_cast<int>(kNameWidth),
                Cut(planned.name(), kNameWidth).c_str(), ImplementationName(planned).c_str());
    for (const SkippedImplementation& skipped : planned.skipped) {
      PrintWrapped(StrCat("not ", skipped.implementation, ": ", skipped.reason), kNameWidth + 5);
    }
  }
}

}  // namespace

void PrintTable(const ProfileReport& report, LayerOrder order) {
  PrintHead(report);
  PrintLayers(report, Ordered(report.profile, order));
  PrintTotals(report);
  PrintImplementations(report);
}

}  // namespace crema::tools
