#include <cstdio>

#include "common/json.h"
#include "profile/report.h"

namespace crema::tools {
namespace {

std::string Pass(const PassProfile& pass, const ProfileReport& report) {
  if (pass.runs.empty()) return "null";
  const auto number = [](const char* name, double value) {
    return JsonString(name) + ": " + JsonNumber(value) + ", ";
  };
  const auto count = [](const char* name, int64_t value) {
    return JsonString(name) + ": " + std::to_string(value) + ", ";
  };
  std::string text = "{" + count("runs", static_cast<int64_t>(pass.runs.size())) +
                     number("median_ms", 1e3 * pass.median) + number("p95_ms", 1e3 * pass.p95) +
                     number("total_ms", 1e3 * pass.total) + count("macs", pass.macs) +
                     count("bytes", pass.bytes) + number("gflops", pass.gflops()) +
                     number("gbs", pass.gbs()) +
                     number("flop_share", FlopShare(pass, report.peak)) +
                     number("memory_share", MemoryShare(pass, report.peak));
  if (report.profile.heap_counted) {
    text += count("allocations", pass.heap.allocations) + count("allocated_bytes", pass.heap.bytes);
  }
  return text.substr(0, text.size() - 2) + "}";
}

std::string Outputs(const Plan& plan, const PlannedLayer& layer) {
  std::string text;
  for (int v : layer.outputs) {
    const Shape& shape = plan.values[static_cast<size_t>(v)].spec.shape;
    text += text.empty() ? "[" : ", [";
    for (int a = 0; a < shape.axes(); ++a) {
      text += (a == 0 ? "" : ", ") + std::to_string(shape[a]);
    }
    text += "]";
  }
  return "[" + text + "]";
}

std::string Skipped(const PlannedLayer& layer) {
  std::string text;
  for (const SkippedImplementation& skipped : layer.skipped) {
    text += (text.empty() ? "" : ", ") +
            ("{\"implementation\": " + JsonString(skipped.implementation)) +
            ", \"reason\": " + JsonString(skipped.reason) + "}";
  }
  return "[" + text + "]";
}

void PrintLayer(const LayerProfile& layer, const ProfileReport& report) {
  const PlannedLayer& planned = report.plan.layers[layer.layer];
  const double total = report.profile.total();
  std::printf(
      "{\"name\": %s, \"type\": %s, \"outputs\": %s, \"implementation\": %s, \"skipped\": %s,\n",
      JsonString(planned.name()).c_str(), JsonString(planned.type->name).c_str(),
      Outputs(report.plan, planned).c_str(), JsonString(ImplementationName(planned)).c_str(),
      Skipped(planned).c_str());
  std::printf(" \"share\": %s,\n \"forward\": %s,\n \"backward\": %s,\n \"recompute\": %s}",
              JsonNumber(total > 0 ? layer.total() / total : 0).c_str(),
              Pass(layer.forward, report).c_str(), Pass(layer.backward, report).c_str(),
              Pass(layer.recompute, report).c_str());
}

}  // namespace

void PrintJson(const ProfileReport& report) {
  const Profile& profile = report.profile;
  std::printf("{\"net\": %s, \"phase\": %s, \"batch\": %ld, \"threads\": %d,\n",
              JsonString(report.plan.name).c_str(),
              JsonString(Phase_Name(report.plan.state.phase())).c_str(), profile.batch,
              report.threads);
  std::printf("\"iterations\": %ld, \"warmup\": %ld,\n", report.options.iterations,
              report.options.warmup);
  std::printf("\"peak\": {\"gflops\": %s, \"gbs\": %s},\n\"layers\": [\n",
              JsonNumber(report.peak.gflops).c_str(), JsonNumber(report.peak.gbs).c_str());
  for (const LayerProfile& layer : profile.layers) {
    if (&layer != &profile.layers.front()) std::printf(",\n");
    PrintLayer(layer, report);
  }
  std::printf("],\n\"forward\": %s,\n\"backward\": %s,\n\"iteration\": %s,\n",
              Pass(profile.forward, report).c_str(), Pass(profile.backward, report).c_str(),
              Pass(profile.iteration, report).c_str());
  if (!report.no_backward.empty()) {
    std::printf("\"no_backward\": %s,\n", JsonString(report.no_backward).c_str());
  }
  std::printf("\"images_per_second\": %s}\n", JsonNumber(profile.images_per_second()).c_str());
}

}  // namespace crema::tools
